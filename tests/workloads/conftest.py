"""A fixture that writes a user's own file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Return a function that writes `own.py` into a temporary working folder and returns its name."""
    (tmp_path / "files").mkdir()
    monkeypatch.chdir(tmp_path / "files")
    monkeypatch.syspath_prepend(str(tmp_path / "files"))

    def write(text: str) -> str:
        Path("own.py").write_text(text)
        return "own.py"

    return write

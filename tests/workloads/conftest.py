"""A file of the user's own, written where it is run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Writes `own.py` into a folder of its own, the current one; returns its name."""
    (tmp_path / "files").mkdir()
    monkeypatch.chdir(tmp_path / "files")
    monkeypatch.syspath_prepend(str(tmp_path / "files"))

    def write(text: str) -> str:
        Path("own.py").write_text(text)
        return "own.py"

    return write

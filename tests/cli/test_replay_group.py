"""`tfwatch replay GROUP`: its screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.groups import write_group
from tests.runs.folders import FakeClock
from tfwatch.cli import main
from tfwatch.cli import replay as command
from tfwatch.cli.replay import show_group
from tfwatch.core.errors import BadInputError

if TYPE_CHECKING:
    from pathlib import Path


def test_without_a_terminal_the_report_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_group(tmp_path / "one", [1, 21])

    assert main(["replay", "one", "--runs-dir", str(tmp_path)]) == 2

    assert capsys.readouterr().err == "tfwatch: stdout is not a terminal: use tfwatch report\n"


def test_a_damaged_group_is_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_group(tmp_path / "one", [1, 21])
    (folder / "group.json").write_text("{")
    monkeypatch.setattr(command, "why_no_screen", lambda _: "")

    with pytest.raises(BadInputError, match=r"its group\.json cannot be read"):
        show_group(folder, None, FakeClock(2).clock)

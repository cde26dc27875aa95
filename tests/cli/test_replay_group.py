"""`tfwatch replay GROUP`: its screen."""

import json
from pathlib import Path

import pytest

from tests.cli.commands import typed
from tests.groups import write_group
from tfwatch.cli import replay as command
from tfwatch.cli.replay import show_group
from tfwatch.core.errors import BadInputError
from tfwatch.runs.run import Run


def test_a_damaged_group_is_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_group(tmp_path / "one", [1, 21])
    (folder / "group.json").write_text("{")
    monkeypatch.setattr(command, "why_no_screen", lambda _: "")

    with pytest.raises(BadInputError, match=r"its group\.json cannot be read"):
        show_group(folder, None)


def test_a_group_of_one_rank_is_that_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_group(tmp_path / "one", [1], size=1)
    write_group(tmp_path / "other", [1], size=2)
    shown: list[str] = []

    def show_run(_args: object, reader: Run) -> int:
        shown.append(reader.read().manifest.run)
        return 0

    def show_all(folder: Path, _theme: object) -> int:
        shown.append(folder.name)
        return 0

    for name, value in (("show_run", show_run), ("show_group", show_all)):
        monkeypatch.setattr(command, name, value)
    monkeypatch.setattr(command, "why_no_screen", lambda _: "")

    for name in ("one", "other"):
        assert typed("replay", name, "--runs-dir", tmp_path).code == 0
    assert shown == ["one/rank-0", "other"]

    report = typed("report", "one", "--json", "--runs-dir", tmp_path).out
    assert json.loads(report)["run"] == "one/rank-0"

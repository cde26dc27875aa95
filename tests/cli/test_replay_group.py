"""`tfwatch replay GROUP`: its screen, and those of its ranks, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.groups import write_group
from tests.runs.folders import FakeClock
from tfwatch.cli import main
from tfwatch.cli import replay as command
from tfwatch.cli.replay import Shown, show_group
from tfwatch.core.errors import BadInputError
from tfwatch.runs.group import folder_of_rank

if TYPE_CHECKING:
    from collections.abc import Callable
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
        show_group(folder, Shown(folder, clock=FakeClock(2).clock), lambda _: 0)


def test_the_group_comes_back_after_a_ranks_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, opens = write_group(tmp_path / "one", [1, 21]), [1, 0, None]
    shown: list[Path] = []

    def show_app(make: Any) -> int:
        rank = opens.pop(0)
        make().opened = None if rank is None else folder_of_rank(folder, rank)
        return 0

    def show_rank(rank: Path) -> int:
        shown.append(rank)
        return 0

    monkeypatch.setattr(command, "show_app", show_app)
    monkeypatch.setattr(command, "why_no_screen", lambda _: "")

    assert show_group(folder, Shown(folder, clock=FakeClock(2).clock), show_rank) == 0
    assert shown == [folder_of_rank(folder, 1), folder_of_rank(folder, 0)]


@pytest.mark.parametrize(
    "show", [command.show_recorded, command.show_training], ids=["replay", "attach"]
)
def test_q_goes_back_from_a_ranks_screen(
    show: Callable[[str | None, Shown], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, made = write_group(tmp_path / "one", [1, 21]), []

    def open_first(group: Path, shown: Shown, show_rank: Callable[[Path], int]) -> int:
        return show_rank(folder_of_rank(group, 0))

    def show_app(make: Callable[[], Any]) -> int:
        made.append(make())
        return 0

    monkeypatch.setattr(command, "show_group", open_first)
    monkeypatch.setattr(command, "show_app", show_app)

    assert show(str(folder), Shown(tmp_path)) == 0
    assert [app.live.goes_back for app in made] == [True]


def test_a_screen_that_a_signal_ends_ends_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_group(tmp_path / "one", [1, 21])

    def show_app(make: Any) -> int:
        make().opened = folder_of_rank(folder, 1)
        return 0

    monkeypatch.setattr(command, "show_app", show_app)
    monkeypatch.setattr(command, "why_no_screen", lambda _: "")

    assert show_group(folder, Shown(folder, clock=FakeClock(2).clock), lambda _: 143) == 143

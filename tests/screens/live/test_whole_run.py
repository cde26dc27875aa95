"""The live screen with a long run: curves, the run in one line, and each stall in three keys."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from tests.bench.ten_hours import LongRun, Plan
from tests.screens.canned import usual
from tests.screens.showing import rows_of, shown
from tfwatch.app import TfwatchApp
from tfwatch.judge.whole_run import FIRST_FRAMES, PreviousRunSearch
from tfwatch.runs.folder import RunFolder
from tfwatch.runs.run import Run
from tfwatch.screens.dialogs.overlays import StallsScreen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from textual.pilot import Pilot

    from tfwatch.screens.dialogs.leave import Leave

#: As many epochs, stalls and switches as in ten hours, with few steps.
PLAN = Plan(epochs=500, epoch_steps=24)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the folder of a long run, and an older run of the same workload beside it."""
    runs = tmp_path_factory.mktemp("runs")
    LongRun(
        runs / "2026-11-19T09-00-00_cnn",
        Plan(epochs=500, epoch_steps=24, stalls=0, speed=1.15),
        -86_400.0,
    ).make().end()
    LongRun(runs / "2026-11-20T10-17-03_cnn", PLAN).make().end()
    return runs / "2026-11-20T10-17-03_cnn"


class Replay:
    """The app over a recorded run."""

    def __init__(self, app: TfwatchApp, pilot: Pilot[Leave]) -> None:
        self.app = app
        self.pilot = pilot
        self.live = app.live

    async def frame(self) -> None:
        self.live.frame()
        await self.pilot.pause()

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.frame()

    @property
    def text(self) -> str:
        return "\n".join(rows_of(self.app.screen))

    @property
    def is_list_open(self) -> bool:
        return isinstance(self.app.screen, StallsScreen)

    @property
    def window_s(self) -> tuple[float, float]:
        assert self.live.timeline.window_s
        return self.live.timeline.window_s


@asynccontextmanager
async def replayed(folder: Path, size: tuple[int, int], **options: Any) -> AsyncIterator[Replay]:
    """Show a recorded run and the one before it."""
    app = TfwatchApp(Run(RunFolder(folder)), None, **options)
    with patch("tfwatch.app.FRAME_S", 3600.0):
        async with app.run_test(size=size) as pilot:
            show = Replay(app, pilot)
            for _ in range(FIRST_FRAMES + 1):
                app.live.frame()
            search = app.live.follower.find_previous
            assert isinstance(search, PreviousRunSearch)
            search.wait()
            for _ in range(2):  # the first lays out the panes of a long run, the second shows them
                await show.frame()
            yield show


async def test_a_run_that_is_over_opens_whole_and_clicks_and_keys_move_its_window(
    folder: Path,
) -> None:
    async with replayed(folder, (80, 24)) as show:
        assert show.live.view
        first_s, run_s = show.window_s
        assert first_s == 0
        assert run_s >= show.live.view.snapshot.now_s
        (line,) = (row for row in show.text.splitlines() if row.startswith(" run "))
        assert line[7] == "["
        assert "] 22:30" in line, "the brackets stand at both ends of the run"
        await show.pilot.mouse_down("#whole-run", offset=(37, 0))
        await show.frame()
        clicked = show.window_s
        assert clicked[0] < run_s / 2 < clicked[1] < run_s
        await show.pilot.hover("#whole-run", offset=(57, 0))
        await show.pilot.mouse_up("#whole-run", offset=(57, 0))
        await show.frame()
        dragged = show.window_s
        assert dragged[0] > clicked[1] - (clicked[1] - clicked[0])
        await show.pilot.hover("#whole-run", offset=(17, 0))
        await show.frame()
        assert show.window_s == dragged, "a pointer without a button moves nothing"
        await show.press("pageup")
        before = show.window_s
        await show.press("pagedown")
        assert show.window_s[0] == pytest.approx(before[1], abs=1.0), (
            "a page is the width of the chart"
        )
        await show.press("home", "pageup")
        assert show.window_s[0] == 0


async def test_stalls_that_recur_are_one_row_of_the_events_which_goes_to_the_newest(
    folder: Path,
) -> None:
    async with replayed(folder, (200, 60)) as show:
        assert show.live.view
        periodic = [stall for stall in show.live.view.stalls if stall.cause == "shuffle fill"]
        await show.press("slash", *"stall", "enter")
        rows = [one.text for one in show.live.events_pane.event_rows]
        assert len(rows) == PLAN.stalls - len(periodic) + 1
        (recurring,) = (text for text in rows if "shuffle fill" in text)
        assert (
            recurring
            == "12 stalls, every 40 epochs: 1:12 without a batch, shuffle fill (S lists them)"
        )
        show.live.events_pane.cursor = len(rows) - 1 - rows.index(recurring)
        show.live.events_pane.action_choose()
        await show.frame()
        first_s, last_s = show.window_s
        assert first_s <= periodic[-1].start_ns / 1e9 <= last_s


async def test_the_letters_of_the_list_reach_a_worst_a_periodic_and_any_other_stall(
    folder: Path,
) -> None:
    async with replayed(folder, (80, 24)) as show:
        assert show.live.view
        stalls = show.live.view.stalls
        assert len(stalls) == PLAN.stalls
        worst = max(stalls, key=lambda stall: stall.lost_ms)
        periodic = [stall for stall in stalls if stall.cause == "shuffle fill"]
        await show.press("S")
        assert show.is_list_open
        assert "40 stalls cost" in show.text
        assert "+ 11 more   1:12   shuffle fill, every 40 epochs" in show.text
        for keys, stall in (("a", worst), ("kb", periodic[1])):
            await show.press(*keys)
            assert not show.is_list_open
            first_s, last_s = show.window_s
            assert first_s <= stall.start_ns / 1e9 <= last_s
            assert last_s - first_s < 400, "the window is so narrow that the stall is seen"
            await show.press("S")
        await show.press("l")
        assert "a letter jumps  escape back" in show.text
        await show.press("escape", "escape")
        assert not show.is_list_open


async def test_curves_show_the_previous_run_and_have_a_log_scale(folder: Path) -> None:
    async with replayed(folder, (80, 24)) as show:
        await show.press("7")
        assert "best" in show.text
        assert "previous run" in show.text
        linear = show.text
        await show.press("7")
        assert show.live.curves.is_log
        assert show.text != linear
        await show.press("down")
        assert "acc " in show.text


async def test_every_size_shows_the_long_run_in_ascii_too(folder: Path) -> None:
    async with replayed(folder, (60, 18), unicode=False, colour=False) as show:
        await show.press("7")
        for size in ((60, 18), (120, 40), (200, 60)):
            await show.pilot.resize_terminal(*size)
            await show.frame()
            assert show.text.isascii()
            assert "loss *" in show.text
            assert all(len(row) == size[0] for row in show.text.splitlines())


async def test_events_are_filtered_as_the_user_types(folder: Path) -> None:
    async with replayed(folder, (120, 40)) as show:
        pane = show.live.events_pane
        count = pane.count()
        await show.press("7", "slash", *"stall")  # the curves stand in the place of the events
        assert len(pane.event_rows) == PLAN.stalls - 11, "twelve recur, in one row"
        assert "29 events with 'stall'" in show.text
        await show.press("enter", "left_square_bracket", "left_square_bracket")
        assert "no batch for" in pane.event_rows[-1 - pane.cursor].text
        assert show.live.timeline.frozen
        await show.press("slash", "escape")
        assert pane.count() == count


async def test_a_short_run_has_no_line_in_a_small_window_and_no_stalls(tmp_path: Path) -> None:
    async with shown(usual(tmp_path), (80, 24)) as show:
        assert not show.live.whole_run.display
        await show.press("S")
        assert any("no stall so far" in note.message for note in show.app._notifications)
        await show.resize((120, 40))
        assert show.live.whole_run.display

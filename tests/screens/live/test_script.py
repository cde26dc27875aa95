"""The screen of `tfwatch run`: it shows the newest run of a script, and asks before it interrupts
the script."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from unittest.mock import patch

from tests.screens.canned import STARVING, Canned
from tests.screens.showing import rows_of
from tfwatch.app import TfwatchApp
from tfwatch.core.events import EpochEnded
from tfwatch.judge.script_runs import ScriptRuns
from tfwatch.runs.run import Run
from tfwatch.runs.script_process import Announcements, AwaitedRun
from tfwatch.screens.overlays import Leave, Question

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from textual.pilot import Pilot


class FakeScript:
    """A script whose runs the test writes. interrupts: the number of its SIGINTs."""

    in_child = True

    def __init__(self, folder: Path) -> None:
        self.announced = folder / "announced"
        self.announced.touch()
        self.log = folder / "log.txt"
        self.canned = Canned(None)
        self.runs = ScriptRuns(Announcements(self.announced), self.canned.clock)
        self.runs._calls.patience_s = None
        self.interrupts = 0
        self.has_ended = False

    @property
    def state(self) -> str:
        return "script ended, exit code 0" if self.has_ended else "script runs"

    def interrupt(self) -> None:
        self.interrupts += 1

    def fit(self, folder: Path, loss: float) -> Canned:
        """Write a run of one epoch of 30 steps, and announce it."""
        run = Canned(folder).begin_epoch().steps(30, STARVING)
        run.event(EpochEnded, epoch=0, step=30, metrics={"loss": loss})
        run.writer.flush()
        with self.announced.open("ab") as file:
            file.write(os.fsencode(folder) + b"\0")
        return run


class Shown:
    """The app, and its pilot."""

    def __init__(self, app: TfwatchApp, pilot: Pilot[Leave]) -> None:
        self.app = app
        self.pilot = pilot

    async def frame(self) -> str:
        """Draw the newest run, and return the text of the screen."""
        self.app.frame()
        await self.pilot.pause()
        self.app.frame()
        await self.pilot.pause()
        for _ in range(100):  # on a busy machine a screen has its first layout later
            if any(row.strip() for row in rows_of(self.app.screen)):
                break
            await self.pilot.pause()
        return "\n".join(rows_of(self.app.screen))


@asynccontextmanager
async def shown(script: FakeScript) -> AsyncIterator[Shown]:
    """Show a script before its first fit."""
    clock = script.canned.clock
    reader = Run(AwaitedRun("train", os.getpid(), script.log, clock), clock)
    app = TfwatchApp(reader, None, clock=clock, script=script)
    with patch("tfwatch.app.FRAME_S", 3600.0):
        async with app.run_test(size=(120, 40)) as pilot:
            await pilot.pause()
            yield Shown(app, pilot)


async def test_the_output_stands_beside_the_state_until_the_first_fit(tmp_path: Path) -> None:
    script = FakeScript(tmp_path)
    script.log.write_text("a line\n\r10 %\r20 %")
    async with shown(script) as show:
        script.canned.at_s = 12.0
        text = await show.frame()
        assert "train runs, no fit yet, 12.0 s" in text
        assert "│ a line" in text
        assert "│ 20 %" in text
        assert "read only" not in text

        script.fit(tmp_path / "first", 0.5)
        text = await show.frame()
        assert "epoch 1" in text
        assert "● recording" in text
        assert "fit 1" not in text


async def test_a_key_before_the_first_fit_has_the_true_reason(tmp_path: Path) -> None:
    async with shown(FakeScript(tmp_path)) as show:
        for key, what in (("f", "autopilot"), ("p", "prefetch")):
            await show.pilot.press(key)
            assert [note.message for note in show.app._notifications] == [
                f"{what}: the script has not called fit yet"
            ]


async def test_a_further_fit_takes_the_screen_with_the_same_pane(tmp_path: Path) -> None:
    script = FakeScript(tmp_path)
    async with shown(script) as show:
        script.fit(tmp_path / "first", 0.5).ended().writer.close()
        assert "script runs" in await show.frame()
        await show.pilot.press("2")
        script.fit(tmp_path / "second", 0.25)
        text = await show.frame()
        assert "fit 2" in text
        assert show.app.live.pane == 2


async def test_a_question_keeps_its_screen(tmp_path: Path) -> None:
    script = FakeScript(tmp_path)
    async with shown(script) as show:
        script.fit(tmp_path / "first", 0.5)
        await show.frame()
        await show.pilot.press("q")
        assert isinstance(show.app.screen, Question)
        first = show.app.live
        script.fit(tmp_path / "second", 0.25)
        await show.frame()
        assert show.app.live is first
        await show.pilot.press("n")
        await show.frame()
        assert show.app.live is not first
        assert script.interrupts == 0


async def test_the_end_of_the_script_closes_the_question(tmp_path: Path) -> None:
    script = FakeScript(tmp_path)
    async with shown(script) as show:
        script.fit(tmp_path / "first", 0.5)
        await show.frame()
        await show.pilot.press("q")
        script.has_ended = True
        await show.frame()
        assert show.app.screen is show.app.live
        await show.pilot.press("q")
    assert show.app.return_value is Leave.LEFT


async def test_s_interrupts_the_script_and_y_then_ends_it(tmp_path: Path) -> None:
    script = FakeScript(tmp_path)
    async with shown(script) as show:
        script.fit(tmp_path / "first", 0.5)
        await show.frame()
        await show.pilot.press("s")
        assert isinstance(show.app.screen, Question)
        await show.pilot.press("y")
        assert script.interrupts == 1
        assert "STOPPING" in await show.frame()
        await show.pilot.press("y")
    assert show.app.return_value is Leave.NOW


async def test_the_screen_of_a_script_that_has_ended_stays_and_is_left_without_a_question(
    tmp_path: Path,
) -> None:
    script = FakeScript(tmp_path)
    async with shown(script) as show:
        script.fit(tmp_path / "first", 0.5).ended().writer.close()
        await show.frame()
        script.has_ended = True
        assert "script ended, exit code 0" in await show.frame()
        await show.pilot.press("q")
    assert show.app.return_value is Leave.LEFT


async def test_a_script_that_ends_without_a_fit_ends_its_screen(tmp_path: Path) -> None:
    script = FakeScript(tmp_path)
    async with shown(script) as show:
        await show.frame()
        script.has_ended = True
        show.app.frame()
        await show.pilot.pause()
    assert show.app.return_value is Leave.LEFT

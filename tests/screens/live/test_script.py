"""The screen of `tfwatch run`: it shows the newest run of a script, and asks before it interrupts
the script."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.screens import showing
from tests.screens.canned import STARVING, Canned
from tests.screens.showing import Shown
from tfwatch.core.events import EpochEnded
from tfwatch.judge.script_runs import ScriptRuns
from tfwatch.runs.run import Run
from tfwatch.runs.script_process import Announcements, AwaitedRun
from tfwatch.screens.overlays import Leave, Question


class FakeScript:
    """A script whose runs the test writes. interrupts: the number of its SIGINTs."""

    in_child = True

    def __init__(self, folder: Path) -> None:
        self.announced = folder / "announced"
        self.announced.touch()
        self.log = folder / "log.txt"
        self.canned = Canned(None)
        self.runs = ScriptRuns(Announcements(self.announced).take, self.canned.clock)
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


@pytest.fixture
def script(tmp_path: Path) -> FakeScript:
    return FakeScript(tmp_path)


@asynccontextmanager
async def shown(script: FakeScript) -> AsyncIterator[Shown]:
    """Show a script before its first fit."""
    clock = script.canned.clock
    reader = Run(AwaitedRun("train", os.getpid(), script.log, clock), clock)
    async with showing.shown(script.canned, live=False, reader=reader, script=script) as show:
        yield show


async def newest(show: Shown) -> str:
    """Draw the newest run, and return the text of the screen."""
    await show.frame()
    for _ in range(100):  # on a busy machine a screen is mounted, and has its first layout, later
        await show.frame()
        if show.app.live.view and show.text.strip():
            return show.text
    raise AssertionError("no frame was drawn")


async def test_the_output_stands_beside_the_state_until_the_first_fit(
    script: FakeScript, tmp_path: Path
) -> None:
    script.log.write_text("a line\n\r10 %\r20 %")
    async with shown(script) as show:
        script.canned.at_s = 12.0
        text = await newest(show)
        assert "train runs, no fit yet, 12.0 s" in text
        assert "│ a line" in text
        assert "│ 20 %" in text
        assert "read only" not in text
        await show.press("f")
        (note,) = show.app._notifications
        assert note.message == "autopilot: the script has not called fit yet"

        script.fit(tmp_path / "first", 0.5)
        text = await newest(show)
        assert "epoch 1" in text
        assert "● recording" in text
        assert "fit 1" not in text


async def test_a_further_fit_takes_the_screen_with_the_same_pane(
    script: FakeScript, tmp_path: Path
) -> None:
    async with shown(script) as show:
        script.fit(tmp_path / "first", 0.5).ended().writer.close()
        assert "script runs" in await newest(show)
        await show.pilot.press("2")
        script.fit(tmp_path / "second", 0.25)
        assert "fit 2" in await newest(show)
        assert show.app.live.pane == 2


async def test_a_question_keeps_its_screen(script: FakeScript, tmp_path: Path) -> None:
    async with shown(script) as show:
        script.fit(tmp_path / "first", 0.5)
        await newest(show)
        await show.pilot.press("q")
        assert isinstance(show.app.screen, Question)
        first = show.app.live
        script.fit(tmp_path / "second", 0.25)
        await newest(show)
        assert show.app.live is first
        await show.pilot.press("n")
        await newest(show)
        assert show.app.live is not first
        assert script.interrupts == 0


async def test_a_question_waits_for_its_key_beyond_the_end_of_the_script(
    script: FakeScript, tmp_path: Path
) -> None:
    async with shown(script) as show:
        run = script.fit(tmp_path / "first", 0.5)
        await newest(show)
        await show.pilot.press("q")
        run.ended().writer.close()
        script.has_ended = True
        assert "script ended, exit code 0" in await newest(show)
        assert isinstance(show.app.screen, Question)
        await show.pilot.press("y")
    assert show.app.return_value is Leave.LEFT


async def test_s_interrupts_the_script_and_y_then_ends_it(
    script: FakeScript, tmp_path: Path
) -> None:
    async with shown(script) as show:
        script.fit(tmp_path / "first", 0.5)
        await newest(show)
        await show.pilot.press("s", "y")
        assert script.interrupts == 1
        assert "STOPPING" in await newest(show)
        await show.pilot.press("y")
    assert show.app.return_value is Leave.NOW


async def test_a_script_that_ends_without_a_fit_ends_its_screen(script: FakeScript) -> None:
    async with shown(script) as show:
        script.has_ended = True
        await show.frame()
    assert show.app.return_value is Leave.LEFT

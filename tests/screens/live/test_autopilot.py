"""The autopilot on the live screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.screens.canned import COMPUTE_BOUND, STARVING
from tests.screens.showing import shown
from tests.screens.states import starving
from tfwatch.analysis.tuning.switch_text import forecast_note
from tfwatch.core.events import AutopilotBegan, AutopilotEnded, MoveJudged, MoveMade
from tfwatch.core.rows import Phase
from tfwatch.runs.control.requests import Autopilot

if TYPE_CHECKING:
    from pathlib import Path


async def test_f_starts_the_autopilot_and_f_again_ends_it(tmp_path: Path) -> None:
    async with shown(starving(tmp_path)) as show:
        assert show.control
        await show.press("f")
        assert show.control.next_tuner_request(0, 0.0) == (1, Autopilot(None))
        run = show.run.event(AutopilotBegan, step=show.run.step, memory_bytes=2e9).doing(
            Phase.COMPUTE, 0.001
        )
        await show.frame()
        assert "AUTOPILOT" in show.text
        assert "measuring the current setting" in show.text
        assert "f autopilot f ends it; measuring" in show.words
        assert "moves kept" not in show.text
        run.event(
            MoveMade,
            step=run.step,
            knob="prefetch",
            old="off",
            new="4",
            why="it overlaps",
            forecast_ms=13.8,
        ).steps(20, STARVING).doing(Phase.COMPUTE, 0.001)
        await show.frame()
        assert "move 1: prefetch off → 4, forecast 13.8 ms" in show.text
        await show.press("f")
        assert show.control.next_tuner_request(1, 0.0) == (2, None)


async def test_a_move_of_two_knobs_marks_both(tmp_path: Path) -> None:
    run = starving(tmp_path).switched("prefetch", "off", "4", by="autopilot")
    run.switched("workers", "off", "4", by="autopilot").steps(30, COMPUTE_BOUND).doing(
        Phase.COMPUTE, 0.001
    )
    async with shown(run) as show:
        assert "p prefetch 4 next: off measuring: 30 of 60 steps" in show.words
        assert "w workers 4 next: off measuring: 30 of 60 steps" in show.words
        run.steps(60, COMPUTE_BOUND).doing(Phase.COMPUTE, 0.001)
        await show.frame()
        assert "switched together with prefetch: no ratio of its own" in show.words
        view = show.live.view
        assert view
        for key in "pw":
            (knob,) = [one for one in show.live.knobs.knobs if one.key == key]
            forecast = view.situation.forecasts[knob.name, knob.next]
            assert knob.note == forecast_note(forecast), "as beside any other knob"


async def test_its_result_is_listed_among_the_events(tmp_path: Path) -> None:
    run = starving(tmp_path).event(AutopilotBegan, step=1, memory_bytes=2e9)
    move = {"knob": "prefetch", "old": "off", "new": "4"}
    run.event(MoveMade, step=run.step, **move, why="it overlaps").switched(
        **move, by="autopilot"
    ).steps(80, COMPUTE_BOUND)
    run.event(
        MoveJudged,
        step=run.step,
        **move,
        before_ms=23.4,
        after_ms=13.9,
        steps=40,
        kept=True,
        forecast_ms=13.8,
    )
    run.event(
        AutopilotEnded,
        step=run.step,
        cause="compute_floor",
        reason="each step waits 0.2 of 13.9 ms for data",
        steps=80,
        before_ms=23.4,
        after_ms=13.9,
        ratio=1.68,
        low=1.61,
        high=1.74,
    )
    async with shown(run) as show:
        await show.frame()
        assert "AUTOPILOT" not in show.text
        assert "prefetch off → 4 kept: 23.4 to 13.9 ms" in show.text
        assert "autopilot: 1.68 x faster (1.61 to 1.74), 23.4 to 13.9 ms" in show.text
        assert "autopilot: 1.68 x faster (1.61 to 1.74), 1 of 1 moves" in show.text
        assert "at the start" in show.text
        assert "prefetch off → 4 kept: 23.4 to 13.9 ms, forecast 13.8" in show.text
    async with shown(
        run.switched("workers", "off", "4").steps(80, COMPUTE_BOUND), (80, 24)
    ) as show:
        assert "at the start" not in show.text


async def test_a_read_only_run_starts_no_autopilot(tmp_path: Path) -> None:
    async with shown(starving(tmp_path), live=False) as show:
        await show.press("f")
        assert [note.message for note in show.app._notifications] == [
            "autopilot: read only: tfwatch attach switches it"
        ]


async def test_a_run_that_ended_during_a_move_shows_the_kept_setting(tmp_path: Path) -> None:
    run = starving(tmp_path).event(AutopilotBegan, step=1, memory_bytes=2e9)
    move = {"knob": "prefetch", "old": "off", "new": "4"}
    run.event(MoveMade, step=run.step, **move, why="it overlaps").switched(
        **move, by="autopilot"
    ).steps(80, COMPUTE_BOUND)
    async with shown(run.ended("stopped"), live=False) as show:
        assert "run ended in its test; kept off" in show.text

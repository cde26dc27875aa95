"""The live screen with canned runs: A/B tests of a knob."""

from pathlib import Path

import numpy as np

from tests.screens.canned import COMPUTE_BOUND, STARVING, Canned, usual
from tests.screens.showing import shown
from tests.screens.states import starving
from tfwatch.core.events import ExperimentBegan, ExperimentBlock, ExperimentEnded, Noted, TunerLost
from tfwatch.core.rows import Flag
from tfwatch.tuner.experiment import Experiment


async def test_a_tests_prefetch_where_no_switch_is_open(tmp_path: Path) -> None:
    for make in (starving, usual):
        async with shown(make(tmp_path / make.__name__)) as show:
            await show.press("a")
            (given,) = show.tuner.jobs
            assert isinstance(given, Experiment)
            assert (given.knob, given.values) == ("prefetch", ("off", "4")), "off comes first"
            assert show.asked() == []


def _noisy(run: Canned, count: int, source: np.random.Generator) -> Canned:
    for noise in source.normal(1, 0.4, count):
        run.steps(1, (9.6, 13.0 * max(0.5, noise), 0.8))
    return run


async def test_an_open_answer_offers_a_test_of_the_same_two_settings() -> None:
    source = np.random.default_rng(0)
    run = _noisy(Canned(None).started(), 100, source).switched("workers", "off", "8")
    async with shown(_noisy(run.steps(1, STARVING, int(Flag.SWITCH)), 70, source).sample()) as show:
        assert "too noisy to show less than" in show.text
        await show.press("a")
        (given,) = show.tuner.jobs
        assert isinstance(given, Experiment)
        assert (given.knob, given.values) == ("workers", ("off", "8"))


async def test_a_running_experiment_is_shown_and_a_ends_it(tmp_path: Path) -> None:
    run = starving(tmp_path)
    run.event(ExperimentBegan, knob="prefetch", values=("off", "4"), step=150, budget=600)
    run.switched("prefetch", "off", "4", "experiment").steps(20, COMPUTE_BOUND)
    async with shown(run) as show:
        assert "A/B TEST" in show.text
        assert "prefetch off vs 4: block 1" in show.text
        block = {
            "block": 6,
            "value": "4",
            "steps": 11,
            "step_ms": 13.9,
        }
        run.event(ExperimentBlock, **block, ratio=1.6, low=1.2, high=2.1)
        await show.frame()
        assert "prefetch off vs 4: block 7, so far 1.60 x (1.20 to 2.10)" in show.text
        assert "A/B test, block 7" in show.text
        show.tuner.busy = True
        await show.press("a")
        assert show.tuner.jobs == [None]


async def test_a_test_of_another_terminal_is_ended_there(tmp_path: Path) -> None:
    run = starving(tmp_path)
    run.event(ExperimentBegan, knob="prefetch", values=("off", "4"), step=150, budget=600)
    async with shown(run.steps(20, COMPUTE_BOUND)) as show:
        await show.press("a", "f")
        elsewhere = "it runs in another terminal: end it there, or switch a knob"
        assert {note.message for note in show.app._notifications} == {elsewhere}
        assert show.tuner.jobs == []
        run.event(TunerLost, step=run.step)
        await show.frame()
        await show.press("a")
        assert len(show.tuner.jobs) == 1


async def test_a_cancelled_test_says_which_setting_the_run_keeps(tmp_path: Path) -> None:
    async with shown(starving(tmp_path)) as show:
        await show.press("a")
        run = show.run
        run.event(ExperimentBegan, knob="prefetch", values=("off", "4"), step=150, budget=600)
        show.tuner.busy = True
        await show.frame()
        await show.press("a")
        assert [note.message for note in show.app._notifications] == [
            "A/B test cancelled: prefetch off vs 4"
        ]
        ended = {"cause": "cancelled", "answer": "unclear", "rounds": 2, "steps": 42, "kept": "off"}
        run.event(
            ExperimentEnded, knob="prefetch", values=("off", "4"), began=150, step=190, **ended
        )
        await show.frame()
        assert [note.message for note in show.app._notifications] == [
            "prefetch off vs 4: not clear: it was cancelled (42 steps in 2 rounds); kept off"
        ]


async def test_a_test_that_cannot_begin_says_why(tmp_path: Path) -> None:
    async with shown(starving(tmp_path)) as show:
        await show.press("a")
        show.run.event(Noted, text="A/B test ended: no", is_refusal=True)
        await show.frame()
        assert [note.message for note in show.app._notifications] == ["A/B test ended: no"]

"""Experiments in words."""

import pytest
from msgspec.structs import replace

from tfwatch.core.events import (
    Event,
    ExperimentBegan,
    ExperimentBlock,
    ExperimentEnded,
    Noted,
    PipelineSwitched,
    SwitchAsked,
)
from tfwatch.judge.effects.switching_state import running_experiment
from tfwatch.judge.effects.wording import answer_text, experiment_progress, kept_text
from tfwatch.judge.steps.stalls import Stall, without_own

BEGAN = ExperimentBegan(10, "prefetch", ("off", "4"), 100, 600)
BLOCK = ExperimentBlock(20, 6, "4", 12, 13.9, 1.6, 1.2, 2.1)
FASTER = ExperimentEnded(
    30, "prefetch", ("off", "4"), 100, 500, "clear", "faster", 12, 412, "4", 1.68, 1.61, 1.74
)
OPEN = replace(FASTER, answer="unclear", ratio=None, low=None, high=None)


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (FASTER, "1.68 x faster (1.61 to 1.74) over 412 steps"),
        (
            replace(FASTER, answer="slower", ratio=0.5, low=0.4, high=0.625),
            "2.00 x slower (1.60 to 2.50) over 412 steps",
        ),
        (
            replace(FASTER, answer="same", ratio=1.0, low=0.97, high=1.03),
            "no difference: between 0.97 and 1.03 over 412 steps",
        ),
        (
            replace(FASTER, answer="same", ratio=1.01, low=1.002, high=1.02),
            "less than 3 % apart: between 1.00 and 1.02 over 412 steps",
        ),
        (
            replace(FASTER, answer="unclear", cause="budget", ratio=1.0, low=0.9, high=1.1),
            "not clear: between 0.90 and 1.10 over 412 steps, too noisy",
        ),
        (
            replace(OPEN, cause="key", rounds=2, steps=48),
            "not clear: a knob was switched first (48 steps in 2 rounds)",
        ),
        (
            replace(OPEN, cause="budget", rounds=0, steps=0),
            "not clear: not enough steps (0 steps in 0 rounds)",
        ),
        (
            replace(OPEN, cause="failed", reason="no memory"),
            "not clear: no memory (412 steps in 12 rounds)",
        ),
    ],
)
def test_the_answer(ended: ExperimentEnded, words: str) -> None:
    assert answer_text(ended) == words


def test_the_setting_that_the_run_goes_on_with_follows_the_answer() -> None:
    assert kept_text(FASTER) == f"{answer_text(FASTER)}; kept 4"
    assert kept_text(replace(FASTER, cause="ended")) == answer_text(FASTER)


@pytest.mark.parametrize(
    ("events", "progress"),
    [
        pytest.param([BEGAN], "block 1", id="begun"),
        pytest.param([BEGAN, BLOCK], "block 7, so far 1.60 x (1.20 to 2.10)", id="with an answer"),
        pytest.param(
            [BEGAN, replace(BLOCK, ratio=None, low=None, high=None)], "block 7", id="without one"
        ),
    ],
)
def test_the_progress_of_a_test_that_runs(events: list[Event], progress: str) -> None:
    running = running_experiment([Noted(1, "x"), *events])
    assert running is not None
    assert experiment_progress(running) == progress
    assert running_experiment([*events, FASTER]) is None


def test_what_an_experiments_switches_cost_is_no_stall() -> None:
    asked = SwitchAsked(1, "prefetch", "off", "4", 100, "experiment")
    made = PipelineSwitched(2, "prefetch", "off", "4", 100, 104, 400.0, "experiment")
    by_key = replace(made, step=204, by="key")
    stalls = [Stall(step, 0, 1, 1500.0, "pipeline switch") for step in (101, 104, 204)]
    other = Stall(104, 0, 1, 1500.0, "unexplained")
    assert without_own([*stalls, other], [asked, made, by_key]) == [stalls[2], other]

"""The selftest's cases over synthetic trainings: right figures pass, wrong ones fail."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

from tests.cli.made_up import Made, outcome, run_of, trained
from tests.judge.step_rows import make_steps, plain
from tfwatch.checks import selftest_cases as cases
from tfwatch.checks.injected_schedule import (
    AHEAD,
    ON_DEMAND,
    PartComparison,
    Schedule,
    TrainingResult,
)
from tfwatch.core.events import PipelineSwitched
from tfwatch.judge.effects.comparison import Comparison

if TYPE_CHECKING:
    from tfwatch.checks.injected_trainings import Trainings


# -- the split -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "injected_ms", "measured_ms", "passes"),
    [
        ("wait", 10.0, 10.29, True),
        ("wait", 10.0, 10.31, False),
        ("wait", 10.0, 9.69, False),
        ("wait", 40.0, 40.79, True),
        ("wait", 40.0, 40.81, False),
        ("wait", float("nan"), float("nan"), False),
        ("compute", 5.0, 6.4, True),
        ("compute", 5.0, 6.6, False),
    ],
)
def test_a_part_passes_within_its_tolerance(
    part: str, injected_ms: float, measured_ms: float, passes: bool
) -> None:
    made = trained(plain(50), comparisons=(PartComparison(part, 10.0, injected_ms, measured_ms),))

    assert list(outcome(cases._split(Schedule()), made).values()) == [passes, True]


def test_parts_that_do_not_sum_to_the_wall_time_fail() -> None:
    found = outcome(cases._split(Schedule()), trained(plain(50), wall_error=0.0011))

    assert found == {"wait + compute + host = wall: tf.data": False}


def test_at_least_40_waits_are_injected_into_every_kind() -> None:
    asked = Made(lambda _: TrainingResult([], 0.0, run_of(plain(2400))))
    for experiment in cases.experiments():
        list(experiment(cast("Trainings", asked)))
    split = [schedule for schedule in asked.asked if len(schedule.wait_ms) > 1]

    assert {schedule.kind for schedule in split} == {*ON_DEMAND, *AHEAD}
    assert sum(len(set(schedule.wait_ms) - {0}) for schedule in split) >= 40


# -- the verdict -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("share", "passes"), [(0.1, True), (0.3, False), (0.01, False)])
def test_a_wrong_verdict_fails(share: float, passes: bool) -> None:
    found = outcome(cases._verdict("tf.data", 3, 24, "MODERATELY"), trained(plain(100, share)))

    assert found["verdict: prefetch off: data 3, compute 24 ms"] is passes


@pytest.mark.parametrize(
    ("found", "passes"),
    [
        ((10.0, 10.9), True),
        ((10.0, 11.1), False),
        ((1.0, 1.29), True),
        ((1.0, 0.69), False),
        ((10.0, float("nan")), False),
    ],
)
def test_a_copy_passes_within_its_tolerance(found: tuple[float, float], passes: bool) -> None:
    (case,) = cases._copy("uint8", 40)(cast("Trainings", SimpleNamespace(copy=lambda *_: found)))

    assert case.passed is passes


def test_without_a_gpu_the_copy_is_skipped_with_its_reason() -> None:
    (case,) = cases._copy("uint8", 40)(cast("Trainings", SimpleNamespace(copy=lambda *_: "no GPU")))

    assert (case.group, case.skipped) == ("copy", "no GPU")


# -- switches -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("after_ms", "passes"), [(8.0, True), (9.0, False)])
def test_a_claim_about_equal_settings_fails(after_ms: float, passes: bool) -> None:
    noise = np.random.default_rng(0).normal(1, 0.02, 240)
    rows = make_steps(np.zeros(240), compute=np.repeat([8.0, after_ms], 120) * noise, host=0.1)
    switch = PipelineSwitched(0, "prefetch", "4", "8", 120, 121, 1.0, "script")

    found = outcome(cases._equal_settings, lambda _: TrainingResult([], 0.0, run_of(rows, switch)))

    assert list(found.values()) == [passes]


def test_a_run_without_a_comparison_fails() -> None:
    found = outcome(cases._switches, trained(plain(130)))

    assert [passed for name, passed in found.items() if name.startswith("switch")] == [False, False]


@pytest.mark.parametrize(("answers", "passes"), [(True, True), (False, False)])
def test_a_difference_that_is_not_claimed_fails(
    answers: bool, passes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = np.random.default_rng(0).normal(1, 0.01, 130)
    waits = np.concatenate([np.full(45, 8.0), np.full(45, 0.1), np.full(40, 8.0)])
    rows = make_steps(waits, compute=20.0 * noise, host=0.1)
    switches = [
        PipelineSwitched(0, "prefetch", "off", "4", 45, 46, 1.0, "script"),
        PipelineSwitched(0, "prefetch", "4", "off", 90, 91, 1.0, "script"),
    ]
    if not answers:
        monkeypatch.setattr(Comparison, "answer", "unclear")

    found = outcome(cases._switches, lambda _: TrainingResult([], 0.0, run_of(rows, *switches)))

    claims = [passed for name, passed in found.items() if name.startswith("switch: answer")]
    assert claims == [passes, passes]

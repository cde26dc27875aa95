"""The selftest's spikes over synthetic trainings: those that are found and named pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tests.cli.made_up import outcome, pause, run_of
from tests.judge.step_rows import make_steps, plain, restart
from tfwatch.checks import selftest_cases as cases
from tfwatch.checks.injected_schedule import Schedule, SlowStep, TrainingResult


def spiky(
    schedule: Schedule, *, lacking: int = 0, cause: str = "", unknown: int = 0
) -> TrainingResult:
    """Return the training that the schedule asks for.

    lacking: a step without its spike. cause: of a spike at the step `unknown`, which the schedule
    does not have.
    """
    rows = make_steps(np.full(schedule.steps, 2.0), compute=17.0, host=1.0)
    slow_steps = [replace(one, ms=one.ms or 80.0) for one in schedule.slow_steps]
    for one in slow_steps:
        rows[f"{one.part}_ms"][one.step - 1] += 0 if one.step == lacking else one.ms
    rows["wait_ms"][unknown - 1] += 100 if unknown else 0
    rows = restart(rows)
    names = {
        "callback": "SlowLogger",
        "garbage collection": "generation 2",
    }
    paused = [
        pause(rows, one.step, one.how, one.ms, names[one.how])
        for one in slow_steps
        if one.how in names
    ]
    made_up = [pause(rows, unknown, cause, 100.0)] if cause else []
    return TrainingResult([], 0.0, run_of(rows, *paused, *made_up), slow_steps)


def failed(**changes: Any) -> list[str]:
    found = outcome(cases._spikes, lambda schedule: spiky(schedule, **changes))
    return [name for name, passed in found.items() if not passed]


def test_spikes_that_are_found_and_named_pass() -> None:
    assert failed() == []


def test_a_spike_that_is_not_found_fails() -> None:
    assert failed(lacking=105) == ["spike: sleep: 30.5 ms in wait"]


def test_a_cause_that_was_not_there_fails() -> None:
    assert failed(unknown=210) == []
    assert failed(unknown=210, cause="CPU contention") == []
    assert failed(unknown=210, cause="garbage collection") == [
        "spike: wrong causes: 1881 plain steps"
    ]


def test_a_cause_of_the_machine_may_stand_for_a_sleep() -> None:
    sleep, collected = (
        SlowStep(51, "wait", "sleep", 60.0),
        SlowStep(51, "wait", "garbage collection", 60.0),
    )
    rows = plain(200)
    rows["wait_ms"][50] += 60
    run = run_of(restart(rows), pause(restart(rows), 51, "swap", 60.0))
    reported = cases._spikes_of(run)[51]

    assert [case.passed for case in cases._spike("", sleep, reported)] == [True, True]
    assert [case.passed for case in cases._spike("", collected, reported)] == [False, True]
    assert [case.passed for case in cases._spike("", sleep, None)] == [False]


def test_a_wrong_length_or_part_fails() -> None:
    rows = plain(200)
    rows["wait_ms"][50] += 80
    reported = cases._spikes_of(run_of(restart(rows)))[51]

    assert [
        case.passed for case in cases._spike("", SlowStep(51, "wait", "sleep", 60.0), reported)
    ] == [True, False]
    assert [
        case.passed for case in cases._spike("", SlowStep(51, "compute", "sleep", 80.0), reported)
    ] == [False, True]

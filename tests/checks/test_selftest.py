"""The selftest over synthetic trainings: right figures pass, wrong ones fail, and noise is tried
twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

from tests.judge.step_rows import make_steps, plain
from tests.runs.folders import add_steps, make_writer, read_back
from tfwatch.checks import selftest as room
from tfwatch.checks.selftest import FIT, Case, Schedule, TrainingResult
from tfwatch.core.events import PipelineSwitched

if TYPE_CHECKING:
    from tfwatch.checks.selftest import Experiment, Trainings
    from tfwatch.core.events import Event
    from tfwatch.core.rows import Rows


class _Made:
    """Trainings that come out as they are made up."""

    def __init__(self, rows: Rows, *events: Event) -> None:
        writer = make_writer(None)
        add_steps(writer, rows)
        for event in events:
            writer.event(event)
        self._result = TrainingResult([], read_back(writer))

    def train(self, _: Schedule) -> TrainingResult:
        return self._result


def outcome(experiment: Experiment, made: Trainings) -> dict[str, bool]:
    """Return by its name if each case passes."""
    return {case.name: case.passed for case in experiment(made)}


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
    assert room.part_case(part, FIT, 10.0, injected_ms, measured_ms).passed is passes


def test_parts_that_do_not_sum_to_the_wall_time_fail() -> None:
    assert room.sum_case(FIT, 1.0009).passed
    assert not room.sum_case(FIT, 1.0011).passed


def test_a_run_without_a_comparison_fails() -> None:
    assert not any(outcome(room._switch, _Made(plain(220))).values())


SWITCHES = [
    PipelineSwitched(0, "prefetch", "off", "4", 45, 46, 1.0, "script"),
    PipelineSwitched(0, "prefetch", "4", "8", 90, 91, 1.0, "script"),
    PipelineSwitched(0, "prefetch", "8", "off", 180, 181, 1.0, "script"),
]


@pytest.mark.parametrize("deeper_ms", [20.0, 23.0])
def test_a_speedup_passes_within_its_tolerance(deeper_ms: float) -> None:
    noise = np.random.default_rng(0).normal(1, 0.01, 220)
    waits = np.repeat([8.0, 0.1, 0.1, 8.0], [45, 45, 90, 40])
    compute = np.repeat([20.0, 20.0, deeper_ms, 20.0], [45, 45, 90, 40]) * noise

    found = outcome(room._switch, _Made(make_steps(waits, compute=compute, host=0.1), *SWITCHES))

    is_right = deeper_ms == 20.0
    assert list(found.values()) == [True, is_right, is_right]


# -- second tries and the table --------------------------------------------------------------------


def case(measured: float, name: str = "wait, 10 ms") -> Case:
    return Case(name, 10.0, measured, "ms", 0.3)


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        pytest.param([[case(10.1)]], (10.1, True), id="at once"),
        pytest.param([[case(10.5)], [case(10.2)]], (10.2, True), id="noise"),
        pytest.param([[case(10.5)], [case(10.6)]], (10.6, False), id="an error"),
        pytest.param([[case(10.5)], []], (10.5, False), id="nothing the second time"),
    ],
)
def test_a_failure_is_run_once_more(rounds: list[list[Case]], expected: tuple[float, bool]) -> None:
    left = iter([[case(10.0, "other"), *cases] for cases in rounds])

    _, found = room.run_until_passed(lambda _: iter(next(left)), cast("Trainings", None))

    assert (found.measured, found.passed) == expected


def test_each_case_is_a_line() -> None:
    cases = [
        case(10.1),
        Case("wait, 5 ms", float("nan"), float("nan"), "ms", 0.3),
    ]
    lines = [" ".join(line.split()) for line in room.table(cases)]

    assert lines == [
        "pass wait, 10 ms 10.00 ms 10.10 ms",
        "FAIL wait, 5 ms too few steps too few steps",
        "",
        "1 of 2 cases pass",
    ]

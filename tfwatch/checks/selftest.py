"""The cases of `tfwatch selftest`: are the numbers right on this machine?

Trainings with known delays are compared with Watch's figures for them: a `fit`, a loop, and the
switches of a `fit`. The table has a line for each case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from tfwatch.judge.effects.comparison import compare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.judge.effects.comparison import Comparison
    from tfwatch.runs.snapshot import Snapshot

PARTS = ("wait", "compute", "host")
#: `fit` over batches that are made on request, so that each delay is data wait in full; and a loop
#: without callbacks.
FIT, LOOP = "fit", "tfwatch.track"
#: The tolerance of each part: milliseconds, or this share of the injected figure where that is
#: more. Compute and callbacks have varying costs of their own.
_TOLERANCES = {"wait": (0.3, 0.02), "compute": (1.5, 0.05), "host": (1.0, 0.05)}
#: Percent of the wall clock.
_WALL_TOLERANCE = 0.1
_RATIO_TOLERANCE = 0.05


@dataclass(frozen=True, slots=True)
class Schedule:
    """One training of `steps` steps. `*_ms`: the sleeps in that part, of which each step draws one.

    kind: the way in which the training gets its batches. switches: (step, value): prefetch is
    switched to the value after that step.
    """

    wait_ms: tuple[float, ...] = (0.0,)
    compute_ms: tuple[float, ...] = (0.0,)
    host_ms: tuple[float, ...] = (0.0,)
    kind: str = FIT
    steps: int = 160
    switches: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """One comparison: what is injected, and what is measured, in `unit`."""

    name: str
    injected: float
    measured: float
    unit: str
    #: The error that passes. NaN, of too few steps, does not.
    tolerance: float

    @property
    def passed(self) -> bool:
        """True within the tolerance."""
        return abs(self.measured - self.injected) <= self.tolerance


def part_case(
    part: str, kind: str, slept_ms: float, injected_ms: float, measured_ms: float
) -> Case:
    """Return the case of sleeps of `slept_ms` in one part of the steps: the injected and the
    measured time, medians, NaN with too few steps."""
    least_ms, share = _TOLERANCES[part]
    name = f"{part}, {kind}, {slept_ms:g} ms"
    return Case(name, injected_ms, measured_ms, "ms", max(least_ms, share * injected_ms))


def sum_case(kind: str, share: float) -> Case:
    """Return the case of the parts' sum as a share of the time between two callbacks."""
    name = f"parts sum to the wall clock, {kind}"
    return Case(name, 100.0, 100 * share, "%", _WALL_TOLERANCE)


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """One training, and the cases of its delays: one for each sleep above 0 in a part that also has
    steps without, and one for the sum of the parts."""

    cases: list[Case]
    run: Snapshot


class Trainings(Protocol):
    """Trains what a case injects."""

    def train(self, schedule: Schedule) -> TrainingResult:
        """Train one schedule and compare its delays with Watch's figures."""


#: A training and the cases that it gives.
Experiment: TypeAlias = Callable[[Trainings], Iterator[Case]]


def _split(schedule: Schedule) -> Experiment:
    """Return the comparison of each part's delays with the time that is reported of it."""
    return lambda trainings: iter(trainings.train(schedule).cases)


def _switch(trainings: Trainings) -> Iterator[Case]:
    """Prefetch hides a delay shorter than the step's compute until it is switched off; a deeper one
    changes nothing."""
    schedule = Schedule((8.0,), (20.0,), steps=220, switches=((45, "4"), (90, "8"), (180, "off")))
    comparisons = _comparisons(trainings.train(schedule).run)
    for at, (value, ratio) in enumerate((("4", 28 / 20), ("8", 1.0), ("off", 20 / 28))):
        name = f"prefetch {value}, data 8, compute 20 ms: speedup"
        found = comparisons[at] if len(comparisons) > at else None
        measured = found.estimate.ratio if found and found.estimate else float("nan")
        yield Case(name, ratio, measured, "x", _RATIO_TOLERANCE * ratio)


def _comparisons(run: Snapshot) -> Sequence[Comparison]:
    """Return the comparisons of the steps before and after each switch."""
    rows = run.steps
    return compare(run.events, len(rows), lambda first, last: rows[max(first, 1) - 1 : last])


_DELAYS_MS = (0, 0, 1, 2, 5, 10, 20, 40)
#: In the order of the table.
EXPERIMENTS: tuple[Experiment, ...] = (
    _split(Schedule(_DELAYS_MS, (0, 0, 4, 12), (0, 0, 2, 6))),
    _split(Schedule(_DELAYS_MS, (0, 0, 4, 12), kind=LOOP)),
    _switch,
)


def run_until_passed(experiment: Experiment, trainings: Trainings) -> list[Case]:
    """Run an experiment, and one with a failure twice: noise does not fail twice, an error does."""
    first = list(experiment(trainings))
    if all(case.passed for case in first):
        return first
    again = {case.name: case for case in experiment(trainings)}
    return [case if case.passed else again.get(case.name, case) for case in first]


def table(cases: Sequence[Case]) -> list[str]:
    """Return a line for each case, and the number of cases that pass."""
    passed = sum(case.passed for case in cases)
    return [*map(_line, cases), "", f"{passed} of {len(cases)} cases pass"]


def _line(case: Case) -> str:
    figures = f"{_format(case.injected, case.unit):>13} {_format(case.measured, case.unit):>13}"
    return f"{'pass' if case.passed else 'FAIL'}  {case.name:<49}{figures}"


def _format(value: float, unit: str) -> str:
    return "too few steps" if value != value else f"{value:.2f} {unit}"

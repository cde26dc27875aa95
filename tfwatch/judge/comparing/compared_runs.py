"""Runs side by side: every figure of two sides of runs with its difference, and the spread between
equal runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from tfwatch.judge.comparing import intervals
from tfwatch.judge.comparing.intervals import (
    ALPHA,
    PARTS,
    STEP,
    Interval,
    Measured,
    RunSteps,
    Spread,
    assumed_share,
    estimate_spread,
    measure_runs,
)
from tfwatch.judge.comparing.run_to_compare import check_sides, differences
from tfwatch.judge.effects.before_after import t_quantile
from tfwatch.judge.effects.experiment import Estimate
from tfwatch.judge.steps.time_breakdown import PART_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tfwatch.core.events import EpochEnded
    from tfwatch.judge.comparing.run_to_compare import RunToCompare, SideDifference
    from tfwatch.judge.effects.experiment import Answer

Unit: TypeAlias = Literal["ms", "s", "ms/step", "bytes", ""]
Outcome: TypeAlias = Literal["passed", "failed", "inconclusive"]

#: The spread of a part between runs over that of a step, as a share of each; and the least one, as
#: a share of a step.
_PART_SPREAD, _LEAST_PART = 1.3, 0.001
#: The parts of a step have intervals that hold together.
_PART_ALPHA = ALPHA / len(PARTS)
#: The smallest difference of step times that is claimed, as a share: a smaller one is too small to
#: act on.
LEAST_CLAIM = 0.01
#: The fewest runs of both sides together, beyond one a side, that give a figure without quarters an
#: interval.
_LEAST_FREEDOM = 2
#: Parts of the time breakdown that are parts of a step: these have intervals of their own.
_OF_STEPS = frozenset({"compute_s", "data_wait_s", "copy_s", "host_s"})
#: Parts that a run pays once.
_ONCE = frozenset({"compile_s"})
#: Seconds of a run that go to a part at least, for a row.
_LEAST_SHARE = 0.005


@dataclass(frozen=True, slots=True)
class ComparedFigure:
    """One figure of both sides, the mean of their runs; None is n/a, for the reason in `missing`.

    low, high: the interval of the difference, after less before; None where one run of each side
    cannot show it.
    """

    name: str
    unit: Unit
    before: float | None
    after: float | None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    missing: str = ""

    @property
    def is_clear(self) -> bool:
        """True where the interval does not contain 0."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


@dataclass(frozen=True, slots=True)
class ComparedRuns:
    """Two sides of runs."""

    before: tuple[RunToCompare, ...]
    after: tuple[RunToCompare, ...]
    #: Step time before over after.
    estimate: Estimate
    figures: tuple[ComparedFigure, ...]
    #: Outside the steps, by part; and the length of the runs, where they have as many steps.
    time_spent: tuple[ComparedFigure, ...]
    losses: tuple[ComparedFigure, ...]
    changes: tuple[SideDifference, ...]
    #: Of step times, a share.
    spread: Spread
    #: Of each run that count.
    steps: int
    in_bursts: bool
    by_example: bool
    loss_epoch: int | None

    @property
    def answer(self) -> Answer:
        """The answer that the interval of step time proves; a difference below 1 % is never
        claimed."""
        answer = self.estimate.answer
        is_small = abs(math.log(self.estimate.ratio)) < LEAST_CLAIM
        return "unclear" if is_small and answer in ("faster", "slower") else answer

    def outcome(self, slower_share: float) -> Outcome:
        """Decide whether the side after is slower than that before by at most this share.

        All of the interval decides: a limit within it is inconclusive. A run after that failed or
        was killed fails.
        """
        if any(run.has_failed for run in self.after) or 1 / self.estimate.high - 1 > slower_share:
            return "failed"
        return "passed" if 1 / self.estimate.low - 1 <= slower_share else "inconclusive"


def compare_runs(
    before: Sequence[RunToCompare], after: Sequence[RunToCompare], by_example: bool = False
) -> ComparedRuns:
    """Compare two sides of runs.

    Raises:
        NotComparableError: the runs cannot be compared.
    """
    check_sides((before, after), by_example)
    runs = [*before, *after]
    alternating = intervals.alternate([[run.start_s for run in side] for side in (before, after)])
    same_host = len({run.host for run in runs}) == 1
    others = _others_share(before), _others_share(after)
    measured = _measure(runs, by_example)
    both = measured[: len(before)], measured[len(before) :]
    figures = _Figures(both, assumed_share(others, same_host), alternating)
    step, spread = figures.step()
    epoch = _last_common_epoch(runs, by_example)
    return ComparedRuns(
        before=tuple(before),
        after=tuple(after),
        estimate=Estimate(math.exp(-step.value), math.exp(-step.high), math.exp(-step.low)),
        figures=(*figures.all(step), _memory(before, after)),
        time_spent=_time_spent(before, after),
        losses=_losses(before, after, epoch),
        changes=tuple(differences(before, after)),
        spread=spread,
        steps=measured[0].steps,
        in_bursts=measured[0].in_bursts,
        by_example=by_example,
        loss_epoch=epoch,
    )


def _others_share(runs: Sequence[RunToCompare]) -> float | None:
    """Return the largest share of the cores that other programs used during any of the runs."""
    return max((share for one in runs if (share := one.others_share) is not None), default=None)


def _measure(runs: Sequence[RunToCompare], by_example: bool) -> list[RunSteps]:
    examples = [run.run.manifest.batch_size or 1 for run in runs] if by_example else None
    return measure_runs([run.rows for run in runs], examples)


class _Figures:
    """The figures of the steps of both sides, with the spread of each."""

    def __init__(
        self,
        sides: tuple[Sequence[RunSteps], Sequence[RunSteps]],
        share: float,
        alternating: bool,
    ) -> None:
        self._sides = sides
        self._share = share
        self._alternating = alternating

    def step(self) -> tuple[Interval, Spread]:
        """Return the difference of the logarithms of step times, and their spread."""
        sides = [[_log_of(run.figures[STEP]) for run in side] for side in self._sides]
        spread = estimate_spread(sides, self._share, self._alternating)
        return intervals.difference(sides[0], sides[1], spread), spread

    def all(self, step: Interval) -> list[ComparedFigure]:
        """Return the step time, and its parts. step: the difference of the logarithms of step
        times."""
        before, after = (fmean([run.figures[STEP].value for run in side]) for side in self._sides)
        low, high = (before * math.expm1(end) for end in (step.low, step.high))
        figures = [ComparedFigure(STEP, "ms", before, after, after - before, low, high)]
        return figures + [self._part(name, (before + after) / 2) for name in PARTS]

    def _part(self, name: str, step_ms: float) -> ComparedFigure:
        if name not in self._sides[0][0].figures:
            return ComparedFigure(
                name, "ms", None, None, missing="not timed in every run: a part of compute"
            )
        sides = [[run.figures[name] for run in side] for side in self._sides]
        means = [fmean([run.value for run in side]) for side in sides]
        assumed = _part_spread(self._share, max(means), step_ms)
        spread = estimate_spread(sides, assumed, self._alternating)
        estimate = intervals.difference(sides[0], sides[1], spread, _PART_ALPHA)
        return ComparedFigure(
            name, "ms", means[0], means[1], estimate.value, estimate.low, estimate.high
        )


def _part_spread(share: float, part_ms: float, step_ms: float) -> float:
    """Return the assumed spread of a part between runs, milliseconds, from that of step times, a
    share."""
    return max(_PART_SPREAD * share * part_ms, _LEAST_PART * step_ms)


def _log_of(measured: Measured) -> Measured:
    """Return the logarithm of a time and of its quarters; 1 ns for a time of 0."""
    return Measured(*(_log(measured.value), tuple(_log(one) for one in measured.quarters)))


def _log(value: float) -> float:
    return math.log(max(value, 1e-6))


def _memory(before: Sequence[RunToCompare], after: Sequence[RunToCompare]) -> ComparedFigure:
    missing = "no sample of the process"
    return _plain("peak memory", "bytes", before, after, lambda run: run.peak_bytes, missing)


def _time_spent(
    before: Sequence[RunToCompare], after: Sequence[RunToCompare]
) -> tuple[ComparedFigure, ...]:
    """Return the parts of the time outside the steps: seconds of those that a run pays once,
    milliseconds a step of others. With the length of the runs, where they have as many steps."""
    runs = [*before, *after]
    figures = [
        _time_row(name, before, after)
        for name in PART_NAMES
        if name not in _OF_STEPS
        and any(_seconds(run, name) >= _LEAST_SHARE * run.run.length_s for run in runs)
    ]
    if len({len(run.run.steps) for run in runs}) == 1:
        figures.append(_plain("whole run", "s", before, after, lambda run: run.run.length_s, ""))
    return tuple(figures)


def _seconds(run: RunToCompare, part: str) -> float:
    return float(getattr(run.judged.time_breakdown.total, part))


def _time_row(
    name: str, before: Sequence[RunToCompare], after: Sequence[RunToCompare]
) -> ComparedFigure:
    def spent(run: RunToCompare) -> float:
        steps = run.judged.time_breakdown.total.steps
        return _seconds(run, name) * (1.0 if name in _ONCE else 1e3 / max(steps, 1))

    unit: Unit = "s" if name in _ONCE else "ms/step"
    return _plain(PART_NAMES[name], unit, before, after, spent, "")


def _last_common_epoch(runs: Sequence[RunToCompare], by_example: bool) -> int | None:
    """Return the last epoch that every run ended, after the same number of steps; None without
    one."""
    epochs: list[Mapping[int, EpochEnded]] = [run.epochs for run in runs]
    common = [
        epoch
        for epoch in epochs[0]
        if all(epoch in other for other in epochs)
        and (by_example or len({other[epoch].step for other in epochs}) == 1)
    ]
    return max(common, default=None)


def _losses(
    before: Sequence[RunToCompare], after: Sequence[RunToCompare], epoch: int | None
) -> tuple[ComparedFigure, ...]:
    if epoch is None:
        return ()
    names = dict.fromkeys(name for run in (*before, *after) for name in run.epochs[epoch].metrics)

    def metric(name: str) -> Callable[[RunToCompare], float | None]:
        return lambda run: run.epochs[epoch].metrics.get(name)

    return tuple(
        _plain(name, "", before, after, metric(name), "not in every run") for name in names
    )


def _plain(
    name: str,
    unit: Unit,
    before: Sequence[RunToCompare],
    after: Sequence[RunToCompare],
    figure: Callable[[RunToCompare], float | None],
    missing: str,
) -> ComparedFigure:
    """Return a figure that has one value a run; its interval needs several runs of both sides."""
    sides = [[figure(run) for run in side] for side in (before, after)]
    known = [
        [value for value in side if value is not None and math.isfinite(value)] for side in sides
    ]
    if any(len(some) != len(every) for some, every in zip(known, sides, strict=True)):
        means = [
            fmean(side) if len(side) == len(every) else None
            for side, every in zip(known, sides, strict=True)
        ]
        return ComparedFigure(name, unit, means[0], means[1], missing=missing)
    low, high = _plain_interval(known)
    first, second = fmean(known[0]), fmean(known[1])
    why = "" if low is not None else "one value a run: two runs of each side give an interval"
    return ComparedFigure(name, unit, first, second, second - first, low, high, why)


def _plain_interval(sides: Sequence[Sequence[float]]) -> tuple[float | None, float | None]:
    freedom = sum(len(side) - 1 for side in sides)
    if freedom < _LEAST_FREEDOM or min(map(len, sides)) < 2:
        return None, None
    squares = sum(float(((np.array(side) - np.mean(side)) ** 2).sum()) for side in sides)
    half = math.sqrt(squares / freedom * sum(1 / len(side) for side in sides)) * t_quantile(
        1 - ALPHA / 2, freedom
    )
    value = fmean(sides[1]) - fmean(sides[0])
    return value - half, value + half

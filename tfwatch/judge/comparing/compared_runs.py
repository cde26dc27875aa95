"""Two sides of runs, compared: every figure with its difference, and the interval of it.

Runs differ in length, and slow down or speed up on their way: they begin cold, caches fill, the
machine grows hot. So each run counts with the same steps of its last setting: the first ones, up to
the length of the shortest run, without the first tenth.

A run is one observation, however many steps it has: two runs of the same program differ in memory
layout, in the work of other programs, in the frequency of the processor (Kalibera & Jones,
"Rigorous benchmarking in reasonable time", ISMM 2013). So the interval is Student's over the values
of runs, and its standard deviation is that between runs:

* `measured` by the runs themselves where there are enough of both sides and they alternate in time.
  Where all runs of a side were made before those of the other, anything that changed in between
  looks like their difference.
* else `assumed`: one run of each side cannot show it. To the assumption comes the change within the
  runs: the quarters of a run, less what all runs do at the same steps. What runs of the same side
  show is joined in, weighted by degrees of freedom (Smyth, "Linear models and empirical Bayes
  methods", Statistical Applications in Genetics and Molecular Biology 3, 2004).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import mean
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from tfwatch.core.knobs import PARTS
from tfwatch.core.rows import step_ms
from tfwatch.judge.comparing.run_to_compare import check_sides, differences
from tfwatch.judge.effects.comparison import parts_of_stretches
from tfwatch.judge.effects.interval import Estimate, t_quantile
from tfwatch.judge.steps.steady_steps import BURSTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from tfwatch.core.rows import Rows
    from tfwatch.judge.comparing.run_to_compare import RunToCompare, SideDifference, Sides
    from tfwatch.judge.effects.interval import Answer

    #: A row a run: the value of a figure over its steps, and that of each quarter of them.
    Values: TypeAlias = NDArray[np.float64]

Unit: TypeAlias = Literal["ms", "bytes", ""]
Outcome: TypeAlias = Literal["passed", "failed", "inconclusive"]

STEP = "step time"
#: The probability that an interval misses the truth; those of the parts hold together.
ALPHA = 0.05
_PART_ALPHA = ALPHA / len(PARTS)
#: The smallest difference of step times that is claimed, as a share: a smaller one is too small to
#: act on.
LEAST_CLAIM = 0.01

#: The share of the first steps that is left out.
_WARM_UP = 0.1
_QUARTERS = 4
#: Degrees of freedom from which the spread counts as measured, three runs of each side; those of
#: the assumed spread.
_ENOUGH, _FREEDOM = 4, 4.0
#: The assumed standard deviation between runs, as a share of a step: on a machine that does nothing
#: else, for each share of its cores that other programs use, for the difference of these shares
#: between the sides, and on another machine of the same kind.
_QUIET, _OTHERS, _APART, _OTHER_HOST = 0.03, 0.15, 0.5, 0.05
#: The spread of a part between runs over that of a step, as a share of each; and the least one, as
#: a share of a step.
_PART_SPREAD, _LEAST_PART = 1.3, 0.001


@dataclass(frozen=True, slots=True)
class Spread:
    """The standard deviation of one run's value around that of its settings, with degrees of
    freedom."""

    deviation: float
    freedom: float
    source: Literal["measured", "assumed"]


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

    sides: Sides
    #: Step time before over after.
    estimate: Estimate
    figures: tuple[ComparedFigure, ...]
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
    def lengths_s(self) -> tuple[float, float] | None:
        """The mean length of the runs of each side, seconds; None where they are not of the same
        work: other numbers of steps, or a run that did not finish."""
        runs = [one.run for side in self.sides for one in side]
        steps = {run.ended.steps if run.ended else None for run in runs}
        if len(steps) > 1 or any(not run.ended or run.ended.cause != "finished" for run in runs):
            return None
        before, after = (mean(one.run.length_s for one in side) for side in self.sides)
        return before, after

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
        has_failed = any(run.has_failed for run in self.sides[1])
        if has_failed or 1 / self.estimate.high - 1 > slower_share:
            return "failed"
        return "passed" if 1 / self.estimate.low - 1 <= slower_share else "inconclusive"


def compare_runs(before: Sequence[RunToCompare], after: Sequence[RunToCompare]) -> ComparedRuns:
    """Compare two sides of runs: by the example where their batch sizes differ, else by the step.

    Raises:
        NotComparableError: the runs cannot be compared.
    """
    sides = before, after
    check_sides(sides)
    runs = [*before, *after]
    sizes = [run.run.manifest.batch_size or 1 for run in runs]
    by_example = len(set(sizes)) > 1
    sizes = sizes if by_example else [1] * len(runs)
    steps = steps_in_common([run.rows for run in runs])
    of_steps = measure_steps(steps, sizes)
    both = {name: (of[: len(before)], of[len(before) :]) for name, of in of_steps.items()}
    share, alternating = assumed_share(sides), alternate(sides)
    first, second = (np.log(np.maximum(side, 1e-6)) for side in both[STEP])
    epoch = _last_common_epoch(runs, by_example)
    memory = _plain("peak memory", "bytes", sides, lambda run: run.peak_bytes)
    spread = estimate_spread(first, second, share, alternating)
    log = difference(first, second, spread)
    return ComparedRuns(
        sides=sides,
        estimate=_as_ratio(log),
        figures=(*_step_figures(both, log, share, alternating), memory),
        losses=_losses(sides, epoch),
        changes=tuple(differences(before, after)),
        spread=spread,
        steps=len(steps[0]),
        in_bursts=is_in_bursts(steps),
        by_example=by_example,
        loss_epoch=epoch,
    )


# -- steps -----------------------------------------------------------------------------------------


def steps_in_common(runs: Sequence[Rows]) -> list[Rows]:
    """Return the steady steps that count of each run, as many of all."""
    count = min(map(len, runs))
    return [rows[int(_WARM_UP * count) : count] for rows in runs]


def is_in_bursts(runs: Sequence[Rows]) -> bool:
    """Return whether batches come in bursts in some run: means count then, and no medians."""
    times = [step_ms(rows, np.float64) for rows in runs]
    return any(bool(one.mean() > BURSTS * np.median(one)) for one in times)


def measure_steps(steps: Sequence[Rows], sizes: Sequence[int]) -> dict[str, Values]:
    """Measure step time and its parts, milliseconds, over the size of each run; a copy that is not
    timed is a part of compute."""
    parts = parts_of_stretches(steps)
    figures = {name: [of_run[name] for of_run in parts] for name in parts[0]}
    figures[STEP] = [step_ms(rows, np.float64) for rows in steps]
    typical = np.mean if is_in_bursts(steps) else np.median
    return {
        name: np.array(
            [
                [typical(part) / size for part in (run, *np.array_split(run, _QUARTERS))]
                for run, size in zip(runs, sizes, strict=True)
            ]
        )
        for name, runs in figures.items()
    }


def _step_figures(
    of_steps: dict[str, tuple[Values, Values]],
    log: tuple[float, float, float],
    share: float,
    alternating: bool,
) -> list[ComparedFigure]:
    """Return the step time of both sides, and its parts. log: the difference of the logarithms of
    step times; share: their assumed spread."""
    before, after = (float(side[:, 0].mean()) for side in of_steps[STEP])
    low, high = (before * math.expm1(end) for end in log[1:])
    figures = [ComparedFigure(STEP, "ms", before, after, after - before, low, high)]
    for name in PARTS:
        if name not in of_steps:
            missing = "not timed in every run: a part of compute"
            figures.append(ComparedFigure(name, "ms", None, None, missing=missing))
            continue
        sides = of_steps[name]
        first_ms, second_ms = (float(side[:, 0].mean()) for side in sides)
        least_ms = _LEAST_PART * (before + after) / 2
        assumed = max(_PART_SPREAD * share * max(first_ms, second_ms), least_ms)
        change = difference(*sides, estimate_spread(*sides, assumed, alternating), _PART_ALPHA)
        figures.append(ComparedFigure(name, "ms", first_ms, second_ms, *change))
    return figures


# -- the interval ----------------------------------------------------------------------------------


def assumed_share(sides: Sides) -> float:
    """Return the assumed spread of step times between equal runs, as a share."""
    shares = ([run.others_share for run in side] for side in sides)
    used = ([share for share in side if share is not None] for side in shares)
    known = [max(side) for side in used if side]
    apart = max(known) - min(known) if len(known) > 1 else 0.0
    hosts = {run.host for side in sides for run in side}
    return math.hypot(
        _QUIET,
        _OTHERS * max(known, default=0.0),
        _APART * apart,
        _OTHER_HOST if len(hosts) > 1 else 0.0,
    )


def alternate(sides: Sides) -> bool:
    """Return whether the runs of two sides alternate in time: neither side ends before the other
    begins."""
    first, second = ([run.run.manifest.origin_wall_ns for run in side] for side in sides)
    return max(first) > min(second) and max(second) > min(first)


def estimate_spread(
    before: Values, after: Values, assumed: float, alternating: bool = True
) -> Spread:
    """Estimate the spread between runs."""
    freedom = len(before) + len(after) - 2
    if freedom >= _ENOUGH and alternating:
        return _measured(before, after)
    # The variance of a quarter of a run, less what all runs do at the same steps.
    quarters = np.concatenate([before, after])[:, 1:]
    apart = quarters - quarters.mean(axis=1, keepdims=True)
    apart = apart - apart.mean(axis=0)
    within = float((apart**2).sum()) / ((len(quarters) - 1) * (_QUARTERS - 1))
    prior = assumed**2 + within
    weight = _FREEDOM + freedom
    squares = _squares(before, after)
    return Spread(math.sqrt((_FREEDOM * prior + squares) / weight), weight, "assumed")


def difference(
    before: Values, after: Values, spread: Spread, alpha: float = ALPHA
) -> tuple[float, float, float]:
    """Return the mean of the runs after less that of those before, with the ends of its
    interval."""
    value = float(after[:, 0].mean() - before[:, 0].mean())
    half = t_quantile(1 - alpha / 2, spread.freedom) * spread.deviation
    half *= math.sqrt(1 / len(before) + 1 / len(after))
    return value, value - half, value + half


def estimate_of_times(before: Values, after: Values) -> Estimate:
    """Return the ratio of times, a row with one of each run, of two runs of each side and more that
    alternate."""
    logs = np.log(before), np.log(after)
    return _as_ratio(difference(*logs, _measured(*logs)))


def _measured(before: Values, after: Values) -> Spread:
    freedom = len(before) + len(after) - 2
    return Spread(math.sqrt(_squares(before, after) / freedom), freedom, "measured")


def _squares(before: Values, after: Values) -> float:
    return sum(float(side[:, 0].var() * len(side)) for side in (before, after))


def _as_ratio(logs: tuple[float, float, float]) -> Estimate:
    return Estimate(*(math.exp(-logs[n]) for n in (0, 2, 1)))


# -- figures with one value a run ------------------------------------------------------------------


def _plain(
    name: str, unit: Unit, sides: Sides, figure: Callable[[RunToCompare], float | None]
) -> ComparedFigure:
    """Return a figure that has one value a run; its interval needs several runs of both sides."""
    found = [[math.nan if (one := figure(run)) is None else one for run in side] for side in sides]
    before, after = (np.array(side, dtype=np.float64)[:, None] for side in found)
    first, second = (
        float(side.mean()) if np.isfinite(side).all() else None for side in (before, after)
    )
    if first is None or second is None:
        return ComparedFigure(name, unit, first, second, missing="not in every run")
    if min(len(before), len(after)) < 2:
        why = "one value a run: two runs of each side give an interval"
        return ComparedFigure(name, unit, first, second, second - first, missing=why)
    interval = difference(before, after, _measured(before, after))
    return ComparedFigure(name, unit, first, second, *interval)


def _last_common_epoch(runs: Sequence[RunToCompare], by_example: bool) -> int | None:
    """Return the last epoch that every run ended, after the same number of steps; None without
    one."""
    ended = [run.epochs for run in runs]
    common = [
        epoch
        for epoch in set[int](ended[0]).intersection(*ended)
        if by_example or len({one[epoch].step for one in ended}) == 1
    ]
    return max(common, default=None)


def _losses(sides: Sides, epoch: int | None) -> tuple[ComparedFigure, ...]:
    if epoch is None:
        return ()
    runs = [run for side in sides for run in side]
    names = dict.fromkeys(name for run in runs for name in run.epochs[epoch].metrics)

    def metric(name: str) -> Callable[[RunToCompare], float | None]:
        return lambda run: run.epochs[epoch].metrics.get(name)

    return tuple(_plain(name, "", sides, metric(name)) for name in names)

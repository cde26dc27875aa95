"""The interval of a figure, and of its difference between two sides of runs.

A run is one observation, however many steps it has: two runs of the same program differ in memory
layout, in the work of other programs, in the frequency of the processor (Kalibera & Jones,
"Rigorous benchmarking in reasonable time", ISMM 2013). So the interval is Student's over the values
of runs, and its standard deviation is that between runs:

* `MEASURED` by the runs themselves where there are enough of both sides and they alternate in time.
  Where all runs of a side were made before those of the other, anything that changed in between
  looks like their difference.
* else by `PAST` runs with the same settings on the same machine, from one to the next, where there
  are enough of them;
* else `ASSUMED`: one run of each side cannot show it. The assumption is `assumed_share`, measured
  on pairs of equal runs in processes of their own, and counts as `_FREEDOM` degrees of freedom.

To the last two comes the change within the runs: the quarters of a run, less what all runs do at
the same steps. A run that drifts by itself, or is disturbed in one quarter, may differ as much from
another one. And what runs of the same side show of the spread is joined in, weighted by degrees of
freedom (Smyth, "Linear models and empirical Bayes methods", Statistical Applications in Genetics
and Molecular Biology 3, 2004).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from tfwatch.judge.steps.quantiles import t_quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tfwatch.judge.comparing.measured_runs import Measured

    Side = Sequence[Measured]

Source: TypeAlias = Literal["measured", "past", "assumed"]

#: The probability that an interval misses the truth.
ALPHA = 0.05
#: Degrees of freedom from which the spread counts as measured: three runs of each side.
_ENOUGH = 4
#: The degrees of freedom of the assumed spread.
_FREEDOM = 4.0
#: The assumed standard deviation between runs, as a share of a step: on a machine that does nothing
#: else, for each share of its cores that other programs use, and on another machine of the same
#: kind.
_QUIET, _OTHERS, _OTHER_HOST = 0.03, 0.15, 0.05
#: And for the difference of these shares between the sides: a core for other programs is one less
#: for the training.
_APART = 0.5


@dataclass(frozen=True, slots=True)
class Spread:
    """The standard deviation of one run's value around that of its settings, with degrees of
    freedom."""

    deviation: float
    freedom: float
    source: Source


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with its interval."""

    value: float
    low: float
    high: float

    @property
    def is_clear(self) -> bool:
        """True where the interval does not contain 0."""
        return self.low > 0 or self.high < 0


def assumed_share(others: Sequence[float | None], same_host: bool = True) -> float:
    """Return the assumed spread of step times, as a share.

    others: the share of the cores that other programs used, the largest of the runs of each side;
    None: unknown.
    """
    known = [share for share in others if share is not None]
    apart = max(known) - min(known) if len(known) > 1 else 0.0
    return math.hypot(
        _QUIET, _OTHERS * max(known, default=0.0), _APART * apart, 0.0 if same_host else _OTHER_HOST
    )


def alternate(starts: Sequence[Sequence[float]]) -> bool:
    """Return whether the runs of two sides alternate in time: neither side ends before the other
    begins."""
    first, second = starts
    return max(first) > min(second) and max(second) > min(first)


def estimate_spread(
    sides: Sequence[Side],
    assumed: float,
    past: Sequence[Sequence[float]] = (),
    alternating: bool = True,
) -> Spread:
    """Estimate the spread between runs. past: values of equal runs of the past, each group in the
    order of time."""
    squares = sum(_squares([run.value for run in side]) for side in sides)
    freedom = sum(len(side) - 1 for side in sides)
    if freedom >= _ENOUGH and alternating:
        return Spread(math.sqrt(squares / freedom), freedom, "measured")
    base = _from_past(past) or Spread(assumed, _FREEDOM, "assumed")
    prior = _joined(base, _within([run for side in sides for run in side]))
    weight = prior.freedom + freedom
    return Spread(
        math.sqrt((prior.freedom * prior.deviation**2 + squares) / weight), weight, base.source
    )


def difference(before: Side, after: Side, spread: Spread, alpha: float = ALPHA) -> Interval:
    """Return the mean value of the runs after, less that of those before."""
    value = _mean(after) - _mean(before)
    return _around(value, spread, math.sqrt(1 / len(before) + 1 / len(after)), alpha)


def level(side: Side, spread: Spread, alpha: float = ALPHA) -> Interval:
    """Return the mean value of the runs of one side."""
    return _around(_mean(side), spread, math.sqrt(1 / len(side)), alpha)


def _around(value: float, spread: Spread, factor: float, alpha: float) -> Interval:
    half = t_quantile(1 - alpha / 2, spread.freedom) * spread.deviation * factor
    return Interval(value, value - half, value + half)


def _mean(side: Side) -> float:
    return sum(run.value for run in side) / len(side)


def _squares(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values)


def _from_past(groups: Sequence[Sequence[float]]) -> Spread | None:
    """Return the spread of runs of the past; None for too few. A change from one run on is in one
    difference only."""
    apart = [np.diff(group) for group in groups if len(group) > 1]
    count = sum(map(len, apart))
    if count < _ENOUGH:
        return None
    return Spread(math.sqrt(sum(float(one @ one) for one in apart) / 2 / count), count, "past")


def _within(runs: Side) -> Spread:
    """Return the deviation of a quarter of a run, less what all runs do at the same steps; of one
    run, its own."""
    quarters = np.array([run.quarters for run in runs])
    apart: NDArray[np.float64] = quarters - quarters.mean(axis=1, keepdims=True)
    count, size = quarters.shape
    if count > 1:
        apart = apart - apart.mean(axis=0)
    freedom = max(count - 1, 1) * (size - 1)
    return Spread(math.sqrt(float((apart**2).sum()) / freedom), freedom, "measured")


def _joined(base: Spread, within: Spread) -> Spread:
    """Return the sum of both as one, with Satterthwaite's degrees of freedom."""
    variances = base.deviation**2, within.deviation**2
    total = sum(variances)
    if not total:
        return base
    freedom = total**2 / (variances[0] ** 2 / base.freedom + variances[1] ** 2 / within.freedom)
    return Spread(math.sqrt(total), freedom, base.source)

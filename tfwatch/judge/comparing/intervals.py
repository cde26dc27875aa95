"""The typical step of runs over the steps that they have in common, and the interval of its
difference between two sides of runs.

Runs differ in length, and slow down or speed up on their way: they begin cold, caches fill, the
machine grows hot. So each run counts with the same steps of its last setting: the first ones, up to
the length of the shortest run, without the first tenth. The value of a run is that of all these
steps; the values of its quarters show its drift and bursts.

A run is one observation, however many steps it has: two runs of the same program differ in memory
layout, in the work of other programs, in the frequency of the processor (Kalibera & Jones,
"Rigorous benchmarking in reasonable time", ISMM 2013). So the interval is Student's over the values
of runs, and its standard deviation is that between runs:

* `MEASURED` by the runs themselves where there are enough of both sides and they alternate in time.
  Where all runs of a side were made before those of the other, anything that changed in between
  looks like their difference.
* else `ASSUMED`: one run of each side cannot show it. The assumption is `assumed_share`, measured
  on pairs of equal runs in processes of their own, and counts as `_FREEDOM` degrees of freedom.

To the assumption comes the change within the runs: the quarters of a run, less what all runs do at
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

from tfwatch.core.rows import step_ms
from tfwatch.judge.effects.before_after import t_quantile
from tfwatch.judge.steps.steady_steps import BURSTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from tfwatch.core.rows import Rows

    Times = NDArray[np.float64]

Source: TypeAlias = Literal["measured", "assumed"]

#: The fewest steady steps of a run that can be compared: ten in a quarter.
LEAST_STEPS = 45
#: The share of the first steps that is left out.
_WARM_UP = 0.1
QUARTERS = 4
STEP = "step time"
WAIT, COPY, COMPUTE, HOST = "data wait", "copy", "compute", "host"
PARTS = (WAIT, COPY, COMPUTE, HOST)

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
class Measured:
    """One figure of a run: of all its steps that count, and of each quarter of them."""

    value: float
    quarters: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class RunSteps:
    """The figures of a run by name; the copy is missing where it is not timed."""

    #: The steps that count.
    steps: int
    figures: Mapping[str, Measured]
    #: The figures are means, as batches come in bursts in some run; else medians.
    in_bursts: bool


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


def measure_runs(runs: Sequence[Rows], examples: Sequence[int] | None = None) -> list[RunSteps]:
    """Measure runs over the steps that they have in common.

    runs: the steady rows of each. examples: examples of a batch of each run, for
    figures of an example.
    """
    count = min(len(rows) for rows in runs)
    first = int(_WARM_UP * count)
    kept = [rows[first:count] for rows in runs]
    in_bursts = any(_is_in_bursts(rows) for rows in kept)
    timed = all(not np.isnan(rows["copy_ms"]).any() for rows in kept)
    return [
        RunSteps(
            len(rows), _figures(rows, examples[n] if examples else 1, in_bursts, timed), in_bursts
        )
        for n, rows in enumerate(kept)
    ]


def _is_in_bursts(rows: Rows) -> bool:
    times = step_ms(rows, np.float64)
    return bool(times.mean() > BURSTS * np.median(times))


def _figures(rows: Rows, examples: int, in_bursts: bool, timed: bool) -> dict[str, Measured]:
    return {
        name: _measured(times / examples, in_bursts) for name, times in _times(rows, timed).items()
    }


def _times(rows: Rows, timed: bool) -> dict[str, Times]:
    parts = {name: rows[f"{column}_ms"].astype(np.float64) for name, column in _COLUMNS.items()}
    if not timed:
        del parts[COPY]
    else:
        parts[COMPUTE] = parts[COMPUTE] - parts[COPY]
    return {STEP: step_ms(rows, np.float64), **parts}


_COLUMNS = {WAIT: "wait", COPY: "copy", COMPUTE: "compute", HOST: "host"}


def _measured(times: Times, in_bursts: bool) -> Measured:
    typical = np.mean if in_bursts else np.median
    quarters = np.array_split(times, QUARTERS)
    return Measured(float(typical(times)), tuple(float(typical(part)) for part in quarters))


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
    sides: Sequence[Sequence[Measured]], assumed: float, alternating: bool = True
) -> Spread:
    """Estimate the spread between runs."""
    squares = sum(_squares([run.value for run in side]) for side in sides)
    freedom = sum(len(side) - 1 for side in sides)
    if freedom >= _ENOUGH and alternating:
        return Spread(math.sqrt(squares / freedom), freedom, "measured")
    base = Spread(assumed, _FREEDOM, "assumed")
    prior = _joined(base, _within([run for side in sides for run in side]))
    weight = prior.freedom + freedom
    return Spread(
        math.sqrt((prior.freedom * prior.deviation**2 + squares) / weight), weight, base.source
    )


def difference(
    before: Sequence[Measured], after: Sequence[Measured], spread: Spread, alpha: float = ALPHA
) -> Interval:
    """Return the mean value of the runs after, less that of those before."""
    value, factor = _mean(after) - _mean(before), math.sqrt(1 / len(before) + 1 / len(after))
    half = t_quantile(1 - alpha / 2, spread.freedom) * spread.deviation * factor
    return Interval(value, value - half, value + half)


def _mean(side: Sequence[Measured]) -> float:
    return sum(run.value for run in side) / len(side)


def _squares(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values)


def _within(runs: Sequence[Measured]) -> Spread:
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

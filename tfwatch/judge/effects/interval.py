"""The interval of a difference between two settings of a run: of step times as a ratio, of a part
of the step in milliseconds.

An A/B test switches often and in random order. A switch by key happens once, or back and forth, so
whatever else changes at that moment looks like its effect. Two intervals are made, and the result
is the smallest one that contains both:

* Over all steps of both settings: the difference of their typical steps. Its error is that of batch
  means: neighboring steps are correlated, so a setting counts as a few batches (Kalibera & Jones,
  "Rigorous benchmarking in reasonable time", ISMM 2013). The median passes over a burst, in which
  another program takes a core for a while. Drift is not in its error.
* Over all blocks of steps in their order: the change at the switches of a level that wanders, below
  noise (the local level model; Harvey, "Forecasting, structural time series models and the Kalman
  filter", 1989). How fast the level wanders is not known. So the intervals for many speeds are
  averaged, each with its likelihood: where the steps stay on one level all of them count, and under
  drift, random walks and bursts mostly those next to a switch.

The screen compares again and again while steps come in, and a claim at any look is a claim. So both
intervals are widened until all looks together miss the truth in 5 of 100 switches at most.

Noise that jumps once, just at the switch, is taken for its effect: only an A/B test separates the
two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from tfwatch.core.bounds import LARGEST_RATIO, SMALLEST_RATIO

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Times: TypeAlias = NDArray[np.float64]
    #: The logarithm, or nothing at all: a difference on it is that of ratios, or of milliseconds.
    Scale: TypeAlias = Callable[[Any], Any]

Answer: TypeAlias = Literal["faster", "slower", "same", "unclear"]

#: An interval within this distance of 1 is no difference: it is too small to act on, and of 40
#: tests without a difference four gave 0.9 to 1.5 % on a machine that ran five of them together.
SAME = 0.03
#: The quantile at which the slowest quarter begins.
TOP = 0.75
#: A difference is clear once the log of its ratio is known to within this, or to within this share
#: of itself.
_PRECISE = 0.03
_PRECISE_SHARE = 0.125
#: The blocks of the shortest stretch, the fewest steps of one, and the most blocks in all.
_BLOCKS, _BLOCK_STEPS, _MOST_BLOCKS = 20, 3, 400
#: How far a level may wander from block to block: its variance over that of a block's noise.
_SPEEDS = np.concatenate([[0.0], np.geomspace(3e-4, 30, 26)])
#: The least variance, of steps that are all equal.
_LEAST_VARIANCE = 1e-24
#: The most batches of a stretch, and the fewest steps of one.
_BATCHES, _BATCH_STEPS = 8, 5
#: An interval of 95 % ends at this quantile.
_UPPER = 0.975
#: The widening of an interval for all looks together, every 20 steps from 60 to 600. With 1.0, 6.9
#: % of equal settings were claimed to differ at some look, 12 % at most of a kind of noise; with
#: 1.3, 2.5 and 7.5 %; with 1.4, 1.7 and 4.7 % (simulated).
_ALL_LOOKS = 1.4
#: Shorter steps count as this long: the logarithm of 0 is infinite.
_LEAST_MS = 1e-3


@dataclass(frozen=True, slots=True)
class Estimate:
    """A speedup with its interval; 0 to infinity where nothing is known yet."""

    ratio: float
    low: float
    high: float

    @property
    def answer(self) -> Answer:
        """The answer that the interval proves."""
        if self.low >= 1 - SAME and self.high <= 1 + SAME:
            return "same"
        if self.low > 1:
            return "faster"
        return "slower" if self.high < 1 else "unclear"

    @property
    def half_log(self) -> float:
        """Half the width of the interval, on the logarithm: about the smallest share that would
        show."""
        return math.log(self.high / self.low) / 2 if self.low > 0 else math.inf

    @property
    def is_clear(self) -> bool:
        """True where more rounds would not change the answer."""
        if self.answer == "same":
            return True
        precise = max(_PRECISE, _PRECISE_SHARE * abs(math.log(self.ratio)))
        return self.answer != "unclear" and self.half_log <= precise

    def event_fields(self) -> dict[str, float | None]:
        """Return the fields of an event; None for all where the interval is out of an event's
        bounds."""
        if self.low < SMALLEST_RATIO or self.high > LARGEST_RATIO:
            return {"ratio": None, "low": None, "high": None}
        return {"ratio": self.ratio, "low": self.low, "high": self.high}


UNKNOWN = Estimate(1.0, 0.0, math.inf)


@dataclass(frozen=True, slots=True)
class Change:
    """The change of a typical time, after less before, with its 95 % interval, milliseconds."""

    ms: float
    low_ms: float
    high_ms: float

    @property
    def is_proved(self) -> bool:
        """True where the interval holds no 0."""
        return self.low_ms > 0 or self.high_ms < 0


def estimate_ratio(stretches: Sequence[Times], in_bursts: bool = False) -> Estimate:
    """Return the ratio of the step times before over those after.

    stretches: milliseconds, at least 20 each in the run's order; the settings alternate, and the
    last one is that after. in_bursts: batches come in bursts, and the ratio is that of the means;
    else that of the medians.
    """
    found = _with_interval([np.maximum(one, _LEAST_MS) for one in stretches], in_bursts, np.log)
    return Estimate(*map(math.exp, found))


def estimate_change(stretches: Sequence[Times], in_bursts: bool = False) -> Change:
    """Return the change of a part of the step, arguments as of `estimate_ratio`."""
    less, low, high = _with_interval(stretches, in_bursts, np.asarray)
    return Change(-less, -high, -low)


def _with_interval(
    stretches: Sequence[Times], in_bursts: bool, scale: Scale
) -> tuple[float, float, float]:
    """Return the difference of the typical times, before less after, on a scale; with the ends of
    its interval."""
    arrays = [np.asarray(one, dtype=np.float64) for one in stretches]
    whole = _all_steps(arrays[-2::-2], arrays[::-2], in_bursts, scale)
    wandering = _of_level(*_blocks(arrays, in_bursts, scale))
    typical = whole[0]
    below = max(typical - at + half for at, half in (whole, wandering))
    above = max(at + half - typical for at, half in (whole, wandering))
    return typical, typical - _ALL_LOOKS * below, typical + _ALL_LOOKS * above


def _all_steps(
    before: list[Times], after: list[Times], in_bursts: bool, scale: Scale
) -> tuple[float, float]:
    """Return the difference of the typical times, and the half width of its interval by batch
    means."""
    typical = np.mean if in_bursts else np.median
    first, second = (typical(np.concatenate(side)) for side in (before, after))
    errors, freedom = [], 0.0
    for side in (before, after):
        batches = np.concatenate([scale(_batches(one, typical)) for one in side])
        errors.append(float(batches.var(ddof=1)) / len(batches))
        freedom += errors[-1] ** 2 / (len(batches) - 1)
    variance = sum(errors)
    # Welch and Satterthwaite's degrees of freedom.
    half = t_quantile(_UPPER, variance**2 / freedom) * math.sqrt(variance) if freedom > 0 else 0.0
    return float(scale(first) - scale(second)), half


def _batches(times: Times, typical: Callable[..., Any]) -> Times:
    count = min(_BATCHES, len(times) // _BATCH_STEPS)
    size = len(times) // count
    return np.asarray(typical(times[: count * size].reshape(count, size), axis=1))


def _blocks(stretches: list[Times], in_bursts: bool, scale: Scale) -> tuple[Times, Times]:
    """Return the typical time of each block of steps, on a scale, and 1.0 where it is of the
    setting after, else 0.0. Of a stretch the steps beside its later switch are whole blocks."""
    size = max(
        min(map(len, stretches)) // _BLOCKS, sum(map(len, stretches)) // _MOST_BLOCKS, _BLOCK_STEPS
    )
    *_, last = stretches
    times = [
        one[: len(one) // size * size] if one is last else one[len(one) % size :]
        for one in stretches
    ]
    levels = [scale(mean_of_rows(one.reshape(-1, size), in_bursts)) for one in times]
    is_after = [np.full(len(one), float(at % 2 == 0)) for at, one in enumerate(levels[::-1])]
    return np.concatenate(levels), np.concatenate(is_after[::-1])


def _of_level(levels: Times, is_after: Times) -> tuple[float, float]:
    """Return the difference of two settings, before less after, and the half width of its
    interval, where the level wanders.

    The steps from block to block have the covariance `speed` + 2 on the diagonal and -1 beside it,
    in units of the noise. Its eigenvectors are sines, so each speed takes one division.
    """
    count = len(levels) - 1
    steps, switches = (_sines(count) @ np.diff(one) for one in (levels, is_after))
    values = _SPEEDS[:, None] + 2 - 2 * np.cos(np.pi * np.arange(1, count + 1) / (count + 1))
    known = (switches**2 / values).sum(axis=1)
    change = (switches * steps / values).sum(axis=1) / known
    rest = ((steps - change[:, None] * switches) ** 2 / values).sum(axis=1)
    variance = np.maximum(rest / (count - 1), _LEAST_VARIANCE)
    restricted = (count - 1) * np.log(variance) + np.log(values).sum(axis=1) + np.log(known)
    weight = np.exp((restricted.min() - restricted) / 2)
    weight /= weight.sum()
    typical = float(weight @ change)
    error = math.sqrt(float(weight @ (variance / known + (change - typical) ** 2)))
    return -typical, t_quantile(_UPPER, count - 2) * error


@lru_cache(maxsize=8)
def _sines(count: int) -> Times:
    at = np.arange(1, count + 1)
    sines: Times = math.sqrt(2 / (count + 1)) * np.sin(np.pi * np.outer(at, at) / (count + 1))
    return sines


def mean_of_rows(blocks: Times, in_bursts: bool) -> Times:
    """Return the mean of each row; outside bursts the slowest quarter of a row counts as the
    fastest of that quarter."""
    if not in_bursts:
        at = int(TOP * (blocks.shape[1] - 1))
        blocks = np.minimum(blocks, np.partition(blocks, at, axis=1)[:, at, None])
    means: Times = blocks.mean(axis=1)
    return means


def t_quantile(share: float, freedom: float) -> float:
    """Return a quantile, above one half, of Student's t distribution with at least one degree of
    freedom.

    The expansion of Cornish and Fisher (Abramowitz & Stegun, 26.7.5) is within 1 % from 4 degrees
    on; below, the interpolation by 1 / `freedom` between it and the exact quantiles of 1 and 2
    degrees.
    """
    if freedom < 2:
        weight = (1 / max(freedom, 1.0) - 1 / 2) * 2
        return weight * math.tan(math.pi * (share - 0.5)) + (1 - weight) * t_quantile(share, 2)
    if freedom < 4:
        weight = (1 / freedom - 1 / 4) * 4
        return weight * (2 * share - 1) / math.sqrt(2 * share * (1 - share)) + (
            1 - weight
        ) * t_quantile(share, 4)
    z = NormalDist().inv_cdf(share)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / freedom**power for power, term in enumerate(terms, start=1))

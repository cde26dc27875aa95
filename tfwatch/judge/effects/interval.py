"""The interval of a difference between two settings of a run: of step times as a ratio, of a part
of the step in milliseconds.

An A/B test switches often and in random order. A switch by key happens once, or back and forth, so
whatever else changes at that moment looks like its effect. Two intervals are made, and the result
is the smallest one that contains both:

* Over all steps of both settings: the difference of their typical steps. Its error is that of batch
  means: neighboring steps are correlated, so a setting counts as a few batches (Kalibera & Jones,
  "Rigorous benchmarking in reasonable time", ISMM 2013). The median passes over a burst, in which
  another program takes a core for a while. Drift is not in its error.
* Over the blocks next to each switch: the mean change from the block before it to the block after
  it. Its error is that of the same change at every other place, where nothing was switched:
  placebos (Chernozhukov, Wüthrich & Zhu, "An exact and robust conformal inference method for
  counterfactual and synthetic controls", JASA 116, 2021). It is the t-interval of their root mean
  square, and no narrower than the largest of them, over the root of the number of switches. Drift,
  random walks and bursts change the placebos as much as they change a switch.

The screen compares again and again while steps come in, and a claim at any look is a claim. So both
intervals are widened until all looks together miss the truth in 5 of 100 switches at most.

Noise that jumps once, just at the switch, is taken for its effect: only an A/B test separates the
two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

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
#: A block next to a switch is this share of the shortest stretch. Of 4, 5, 6 and 8, fewer blocks
#: find a difference in noisy steps more often, and more blocks find it more often in a run that
#: drifts (simulated).
_BLOCKS = 5
#: Placebos begin this share of a block apart: overlapping ones estimate the error better.
_OVERLAP = 4
#: The most batches of a stretch, and the fewest steps of one.
_BATCHES, _BATCH_STEPS = 8, 5
#: A placebo shares a block with its neighbor, and so counts as less than one.
_PLACEBO_FREEDOM = 0.8
#: An interval of 95 % ends at this quantile.
_UPPER = 0.975
#: The widening of an interval for all looks together, every 10 steps from 60 to 600. With 1.0, 5.9
#: % of equal settings were claimed to differ at some look, and 14 % under drift; with 1.2, 2.9 and
#: 9 %; with 1.3, 1.2 and 5 % (simulated).
_ALL_LOOKS = 1.3
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
    near = _next_to_switches(arrays, in_bursts, scale)
    typical = whole[0]
    below = max(typical - at + half for at, half in (whole, near))
    above = max(at + half - typical for at, half in (whole, near))
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


def _next_to_switches(stretches: list[Times], in_bursts: bool, scale: Scale) -> tuple[float, float]:
    """Return the mean difference of the blocks next to each switch, before less after, and the half
    width of its interval by placebos."""
    size = min(map(len, stretches)) // _BLOCKS
    blocks = [np.concatenate([old[-size:], new[:size]]) for old, new in pairwise(stretches)]
    changes = [float(_changes(both, size, in_bursts, scale)[0]) for both in blocks]
    signs = [-1.0 if n % 2 else 1.0 for n in reversed(range(len(changes)))]
    at_switch = float(np.mean(np.multiply(signs, changes)))
    placebos = np.concatenate([_changes(one, size, in_bursts, scale) for one in stretches])
    error = math.sqrt(float((placebos**2).mean()))
    freedom = _PLACEBO_FREEDOM * (sum(map(len, stretches)) / size - len(stretches))
    half = max(t_quantile(_UPPER, freedom) * error, float(np.abs(placebos).max()))
    return at_switch, half / math.sqrt(len(changes))


def _changes(times: Times, size: int, in_bursts: bool, scale: Scale) -> Times:
    """Return each block's mean less that of the block after it, on a scale, at places a part of a
    block apart."""
    blocks = sliding_window_view(times, size)
    first = np.arange(0, len(times) - 2 * size + 1, max(1, size // _OVERLAP))
    changes: Times = scale(mean_of_rows(blocks[first], in_bursts)) - scale(
        mean_of_rows(blocks[first + size], in_bursts)
    )
    return changes


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

"""The statistics of a before/after: the ratio of the steps on both sides of one switch, with its 95
% interval.

The change of the data wait has an interval of its own, made in the same way from milliseconds in
place of logarithms. Where compute varies, it shows that the wait is gone before anything is known
of the whole step.

An A/B test switches often and in random order. A switch by key happens once, so whatever else
changes at that moment looks like its effect. Two intervals are made, and the result is the smallest
one that contains both:

* Over all steps of both sides: the ratio of their typical steps. Its error is that of batch means:
  neighboring steps are correlated, so a side counts as a few batches (Kalibera & Jones, "Rigorous
  benchmarking in reasonable time", ISMM 2013). The median passes over a burst, in which another
  program takes a core for a while. Drift is not in its error.
* Over the blocks next to the switch: the change from the block before it to the block after it. Its
  error is that of the same change at every other place of both sides, where nothing was switched:
  placebos (Chernozhukov, Wüthrich & Zhu, "An exact and robust conformal inference method for
  counterfactual and synthetic controls", JASA 116, 2021). It is the t-interval of their root mean
  square, and no narrower than the largest of them. Drift, random walks and bursts change the
  placebos as much as they change the switch.

The screen compares again and again while steps come in, and a claim at any look is a claim. So both
intervals are widened until all looks together miss the truth in 5 of 100 switches at most.

Noise that jumps once, just at the switch, is taken for its effect: only an A/B test separates the
two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tfwatch.core.knobs import KNOBS
from tfwatch.core.rows import step_ms
from tfwatch.judge.effects.experiment import TOP, Estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from numpy.typing import NDArray

    from tfwatch.core.rows import Rows

    Times: TypeAlias = NDArray[np.float64]
    #: The logarithm, or nothing at all: a difference on it is that of ratios, or of milliseconds.
    Scale: TypeAlias = Callable[[Any], Any]

#: A block next to the switch is this share of the shorter side. Of 4, 5, 6 and 8, fewer blocks find
#: a difference in noisy steps more often, and more blocks find it more often in a run that drifts
#: (simulated).
_BLOCKS = 5
#: Placebos begin this share of a block apart: overlapping ones estimate the error better.
_OVERLAP = 4
#: The most batches of a side, and the fewest steps of one.
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
class WaitChange:
    """The change of the typical data wait, after a switch less before it, with its 95 %
    interval."""

    ms: float
    low_ms: float
    high_ms: float

    @property
    def is_proved(self) -> bool:
        """True where the interval holds no 0."""
        return self.low_ms > 0 or self.high_ms < 0


@dataclass(frozen=True, slots=True)
class SwitchEffect:
    """The steps before a switch against those after it."""

    #: Of the step; its interval holds 1 where only compute changed, which the knob cannot move.
    estimate: Estimate
    #: The change of the data wait.
    wait: WaitChange


def measure_effect(
    before: Rows, after: Rows, knobs: Collection[str], accelerated: bool, in_bursts: bool = False
) -> SwitchEffect:
    """Measure a switch of knobs from its steady rows of `core.rows.STEP` on both sides, at least 20
    on each.

    accelerated: the steps run on a device beside the CPU. in_bursts: batches come in bursts on
    either side.
    """
    steps = [step_ms(side, np.float64) for side in (before, after)]
    estimate = compare_sides(steps[0], steps[1], in_bursts)
    fixed = [_unmoved_ms(side, knobs, accelerated) for side in (before, after)]
    fixed_ms = [float(np.median(side)) for side in fixed]
    wait = compare_waits(before["wait_ms"], after["wait_ms"], in_bursts)
    if estimate.answer not in ("faster", "slower") or min(fixed_ms) <= 0:
        return SwitchEffect(estimate, wait)
    moved = [step - part + sum(fixed_ms) / 2 for step, part in zip(steps, fixed, strict=True)]
    if compare_sides(moved[0], moved[1], in_bursts).answer == estimate.answer:
        return SwitchEffect(estimate, wait)
    low, high = min(estimate.low, 1.0), max(estimate.high, 1.0)
    return SwitchEffect(Estimate(estimate.ratio, low, high), wait)


def _unmoved_ms(rows: Rows, knobs: Collection[str], accelerated: bool) -> Times:
    """Return the part of each step that no knob of these can move; zeros where they may move all of
    it."""
    part: Times = rows["compute_ms"].astype(np.float64) - rows["dispatch_ms"]
    return (
        part
        if accelerated and not any(KNOBS[knob].moves_compute for knob in knobs)
        else np.zeros(len(rows))
    )


def compare_sides(before: Times, after: Times, in_bursts: bool = False) -> Estimate:
    """Return the ratio of the step times before over those after; both in milliseconds, at least 20
    in the run's order.

    in_bursts: batches come in bursts, and the ratio is that of the means; else that of the medians.
    """
    sides = [np.maximum(np.asarray(side, dtype=np.float64), _LEAST_MS) for side in (before, after)]
    ratio, low, high = _with_interval(sides[0], sides[1], in_bursts, np.log)
    return Estimate(math.exp(ratio), math.exp(low), math.exp(high))


def compare_waits(before: Times, after: Times, in_bursts: bool = False) -> WaitChange:
    """Return the change of the data waits, in milliseconds, at least 20 a side in the run's order.

    in_bursts: as in `compare_sides`.
    """
    sides = [np.asarray(side, dtype=np.float64) for side in (before, after)]
    less, low, high = _with_interval(sides[0], sides[1], in_bursts, np.asarray)
    return WaitChange(-less, -high, -low)


def _with_interval(
    before: Times, after: Times, in_bursts: bool, scale: Scale
) -> tuple[float, float, float]:
    """Return the difference of the typical times, before less after, on a scale; with the ends of
    its interval."""
    whole, near = (
        _all_steps(before, after, in_bursts, scale),
        _next_to_switch(before, after, in_bursts, scale),
    )
    typical = whole[0]
    below = max(typical - at + half for at, half in (whole, near))
    above = max(at + half - typical for at, half in (whole, near))
    return typical, typical - _ALL_LOOKS * below, typical + _ALL_LOOKS * above


def _all_steps(before: Times, after: Times, in_bursts: bool, scale: Scale) -> tuple[float, float]:
    """Return the difference of the typical times, and the half width of its interval by batch
    means."""
    typical = np.mean if in_bursts else np.median
    difference = float(scale(typical(before)) - scale(typical(after)))
    errors, freedom = [], 0.0
    for side in (before, after):
        count = min(_BATCHES, len(side) // _BATCH_STEPS)
        size = len(side) // count
        batches = scale(typical(side[: count * size].reshape(count, size), axis=1))
        errors.append(float(batches.var(ddof=1)) / count)
        freedom += errors[-1] ** 2 / (count - 1)
    variance = sum(errors)
    # Welch and Satterthwaite's degrees of freedom.
    return difference, t_quantile(_UPPER, variance**2 / freedom) * math.sqrt(
        variance
    ) if freedom > 0 else 0.0


def _next_to_switch(
    before: Times, after: Times, in_bursts: bool, scale: Scale
) -> tuple[float, float]:
    """Return the difference of the blocks next to the switch, and the half width of its interval by
    placebos."""
    size = min(len(before), len(after)) // _BLOCKS
    at_switch = float(
        _changes(np.concatenate([before[-size:], after[:size]]), size, in_bursts, scale)[0]
    )
    placebos = np.concatenate([_changes(side, size, in_bursts, scale) for side in (before, after)])
    error = math.sqrt(float((placebos**2).mean()))
    freedom = _PLACEBO_FREEDOM * ((len(before) + len(after)) / size - 2)
    return at_switch, max(t_quantile(_UPPER, freedom) * error, float(np.abs(placebos).max()))


def _changes(times: Times, size: int, in_bursts: bool, scale: Scale) -> Times:
    """Return each block's mean less that of the block after it, on a scale, at places a part of a
    block apart."""
    blocks = sliding_window_view(times, size)
    first = np.arange(0, len(times) - 2 * size + 1, max(1, size // _OVERLAP))
    changes: Times = scale(_means(blocks[first], in_bursts)) - scale(
        _means(blocks[first + size], in_bursts)
    )
    return changes


def _means(blocks: Times, in_bursts: bool) -> Times:
    """Return the mean of each row; outside bursts slow steps are cut as in
    `experiment.block_means`."""
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

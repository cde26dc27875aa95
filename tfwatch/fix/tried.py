"""A change that was tried, from which gain on it is kept, and the gain of a whole patch.

The interval of a change is that of the mean of its runs. One fresh run with the patch and one
without it differ from that mean by their own spread too: their ratio has a wider interval, the one
of a prediction (Hahn & Meeker, "Statistical intervals", 1991, 4.8).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.judge.effects.interval import Estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

#: A change is kept where the whole interval of its gain is above this: a smaller one is not worth a
#: changed line.
LEAST_GAIN = 1.02


@dataclass(frozen=True, slots=True)
class Tried:
    """A change that was tried. outcome: its gain with the 95 % interval, or why there is none.

    estimate: of the mean. fresh: the same gain with the interval of one fresh run of each side.
    """

    change: str
    outcome: str
    kept: bool
    estimate: Estimate | None = None
    fresh: Estimate | None = None


def clears(estimate: Estimate | None) -> bool:
    """Return whether a gain is worth a changed line."""
    return estimate is not None and estimate.low >= LEAST_GAIN


def in_fresh_runs(estimate: Estimate, half_log: float) -> Estimate:
    """Return a gain with the interval of one fresh run of each side. half_log: half the width of
    the interval that their own spread gives, on the logarithm."""
    return _with_halves(estimate.ratio, (estimate.half_log, half_log))


def twice_as_wide(estimate: Estimate) -> Estimate:
    """Return a gain with an interval twice as wide, on the logarithm."""
    return _with_halves(estimate.ratio, (2 * estimate.half_log,))


def product(gains: Sequence[Estimate]) -> Estimate:
    """Return the gain of several changes, one upon the other."""
    ratio = math.prod(one.ratio for one in gains)
    return _with_halves(ratio, [one.half_log for one in gains])


def _with_halves(ratio: float, half_logs: Sequence[float]) -> Estimate:
    wide = math.exp(math.hypot(*half_logs))
    return Estimate(ratio, ratio / wide, ratio * wide)

"""A change that was tried, and from which gain on it is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfwatch.judge.effects.interval import Estimate

#: A change is kept where the whole interval of its gain is above this: a smaller one is not worth a
#: changed line.
LEAST_GAIN = 1.02


@dataclass(frozen=True, slots=True)
class Tried:
    """A change that was tried. outcome: its gain with the 95 % interval, or why there is none."""

    change: str
    outcome: str
    kept: bool
    estimate: Estimate | None = None


def clears(estimate: Estimate | None) -> bool:
    """Return whether a gain is worth a changed line."""
    return estimate is not None and estimate.low >= LEAST_GAIN

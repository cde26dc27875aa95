"""Paths, scales and ticks of the page's charts: numbers only, the page's template draws them.

An SVG is stretched to the width of the page, so the text of a chart is HTML beside it, which stays
readable on a phone. No kept library makes such charts: pygal and svgwrite are no longer maintained,
and matplotlib takes a second to load and writes text, fonts and fixed sizes into its SVG.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Floats = NDArray[np.float64]

#: The coordinates of a plot: both axes run from 0 to this.
SIZE = 1000
#: Two columns belong together where the gap between them is at most this share of the plot: half a
#: pixel.
_GAP = 0.0005
#: The seconds between two ticks of a time axis.
_TIMES_S = (
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    14_400,
    21_600,
    43_200,
    86_400,
)


@dataclass(frozen=True, slots=True)
class Tick:
    """A label of an axis. at: percent of the axis."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear scale from `low` to `high`."""

    low: float
    high: float

    def shares(self, values: Floats) -> Floats:
        """Return the values as shares of the scale, cut to 0 and 1; NaN stays NaN."""
        span = self.high - self.low
        clipped: Floats = np.clip((values - self.low) / (span if span > 0 else 1.0), 0.0, 1.0)
        return clipped

    def percent(self, value: float) -> float:
        """Return a value as percent of the scale, 0 to 100."""
        return round(float(self.shares(np.array([value]))[0]) * 100, 2)


def areas(begins: Floats, ends: Floats, values: Floats) -> str:
    """Return the path of columns over the base line. All arguments are shares of the plot; NaN has
    no column."""
    return "".join(
        _area(begins[part], ends[part], values[part]) for part in _stretches(begins, ends, values)
    )


def line(xs: Floats, ys: Floats) -> str:
    """Return the path of a line through points, shares of the plot; a NaN interrupts it."""
    known = np.isfinite(ys)
    edges = np.flatnonzero(np.diff(known, prepend=False, append=False))
    parts = (slice(first, end) for first, end in edges.reshape(-1, 2).tolist())
    return "".join("M" + "L".join(_points(xs[part], ys[part])) for part in parts)


def ticks(scale: Scale, text: Callable[[float], str], most: int = 4) -> list[Tick]:
    """Return ticks at round values of a scale."""
    step = round_up((scale.high - scale.low) / most)
    first, last = math.ceil(scale.low / step - 1e-9), math.floor(scale.high / step + 1e-9)
    return [Tick(scale.percent(n * step), text(n * step)) for n in range(first, last + 1)]


def time_ticks(scale: Scale, most: int = 8) -> list[Tick]:
    """Return ticks of a time axis, seconds."""
    step = next((one for one in _TIMES_S if (scale.high - scale.low) / one <= most), None)
    step = step or 86_400 * math.ceil((scale.high - scale.low) / 86_400 / most)
    return [Tick(scale.percent(at), time_text(at)) for at in range(0, int(scale.high) + 1, step)]


def time_text(at_s: float) -> str:
    """Return `0`, `40 s`, `2:30`, `3 h`, `3 h 30`: a moment of a run."""
    whole = round(at_s)
    if whole < 60:
        return f"{whole} s" if whole else "0"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d}"
    hours, minutes = whole // 3600, whole % 3600 // 60
    return f"{hours} h {minutes:02d}" if minutes else f"{hours} h"


def round_up(value: float, more: Iterable[float] = ()) -> float:
    """Return the next round number: a power of ten times 1, 2, 2.5, 5 or one of `more`; 1 for 0 and
    less."""
    if not value > 0 or math.isinf(value):
        return 1.0
    power: float = 10.0 ** math.floor(math.log10(value))
    return next(
        power * times
        for times in sorted((1, 2, 2.5, 5, 10, *more))
        if power * times >= value * (1 - 1e-9)
    )


def _stretches(begins: Floats, ends: Floats, values: Floats) -> Iterator[slice]:
    """Yield the stretches of known columns without a gap."""
    known = np.flatnonzero(np.isfinite(values))
    if not len(known):
        return
    apart = (np.diff(known) > 1) | (begins[known[1:]] - ends[known[:-1]] > _GAP)
    for part in np.split(known, np.flatnonzero(apart) + 1):
        yield slice(int(part[0]), int(part[-1]) + 1)


def _area(begins: Floats, ends: Floats, values: Floats) -> str:
    edges = np.append(begins, ends[-1])
    tops = "".join(
        f"V{_y(value)}H{_x(edge)}" for value, edge in zip(values, edges[1:], strict=True)
    )
    return f"M{_x(edges[0])} {SIZE}{tops}V{SIZE}Z"


def _points(xs: Iterable[float], ys: Iterable[float]) -> list[str]:
    return [f"{_x(x)} {_y(y)}" for x, y in zip(xs, ys, strict=True)]


def _x(share: float) -> str:
    return f"{share * SIZE:.1f}".removesuffix(".0")


def _y(share: float) -> str:
    return f"{(1 - share) * SIZE:.0f}"

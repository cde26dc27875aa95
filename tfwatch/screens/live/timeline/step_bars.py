"""The step strip, stacked bars of a step's parts as cells.

Arrays along the time axis have one entry per column, n in total. Milliseconds are means per step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tfwatch.core.rows import Flag

if TYPE_CHECKING:
    from tfwatch.runs.sums import TimeColumns

Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]

#: The widths of a column, seconds; each is a multiple of `runs.sums.BUCKET_S`.
WIDTHS_S = (
    *(0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 40.0),
    *(60.0, 80.0, 120.0, 180.0, 240.0, 300.0, 480.0, 600.0, 900.0, 1200.0, 1800.0),
    *(3600.0, 7200.0, 14400.0, 86400.0),
)
#: A column whose steps take more than this many times its width contains a step longer than the
#: column.
_OVERFLOW = 2.0
#: The tops of the axis, times a power of ten; half of each is a round number.
_TOPS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
#: The axis shrinks only when the bars use less than this part of it: it must not jump between
#: frames.
_USED = 0.5
_HEADROOM = 1.08
_HARDLY_HIGHER = 1.5
#: An open step is drawn from this age on; beside finished ones from this many times their mean on.
OPEN_MS = 150.0
_STANDS_OUT = 3.0
#: Eighths of a cell: the resolution of block characters.
EIGHTHS = 8


#: The thinnest wait that is drawn, eighths; thicker below the share that counts as not starving.
_THINNEST, _THINNEST_NOT_STARVING = 2, 4
_NOT_STARVING = 0.05


class BarPart(IntEnum):
    """A part of a column, in stacking order from the base up; a copy is drawn as compute."""

    COMPUTE = 0
    MUTED = 1
    HOST = 2
    WAIT = 3
    STALL = 4
    NOTHING = 5


@dataclass(frozen=True, eq=False)
class Cells:
    """The strip as rows x n cells, the top row first."""

    #: A `BarPart` each, as `upper`.
    lower: Bytes
    upper: Bytes
    #: The eighths, 1 to 8, that `lower` fills from below.
    height: Bytes


def with_traces(bars: TimeColumns) -> TimeColumns:
    """Return the columns; one within a long step has the flags of the column of the step's
    start."""
    own = np.where(bars.steps > 0, np.arange(len(bars.steps)), 0)
    since = np.maximum.accumulate(own) if len(own) else own
    return replace(bars, flags=np.where(np.isfinite(bars.wait_ms), bars.flags[since], 0))


def with_open_step(bars: TimeColumns, since_s: float, now_s: float, part: BarPart) -> TimeColumns:
    """Add the step that is still open: its `part` lasts since `since_s`.

    It fills the columns without other steps, and the newest one where it is much longer than the
    steps there. A step younger than `OPEN_MS` is not drawn: the newest column would flicker.
    """
    lasted_ms = (now_s - since_s) * 1e3
    if lasted_ms < OPEN_MS:
        return bars
    ends = np.append(bars.start_s[1:], bars.end_s)
    lasts = (ends > since_s) & (bars.start_s <= now_s)
    newest = lasts & (bars.start_s == bars.start_s[lasts].max(initial=-np.inf))
    longer = ~(bars.total_ms * _STANDS_OUT >= lasted_ms)
    filled = lasts & ((bars.steps == 0) | (newest & longer))
    if not filled.any():
        return bars
    computes = part in (BarPart.COMPUTE, BarPart.MUTED)
    return replace(
        bars,
        steps=np.where(filled, 0, bars.steps),
        wait_ms=np.where(filled, lasted_ms if part == BarPart.WAIT else 0.0, bars.wait_ms),
        host_ms=np.where(filled, lasted_ms if part == BarPart.HOST else 0.0, bars.host_ms),
        compute_ms=np.where(filled, lasted_ms if computes else 0.0, bars.compute_ms),
        flags=np.where(filled, Flag.COMPILE if part == BarPart.MUTED else 0, bars.flags),
    )


def next_top(bars: TimeColumns, current: float | None) -> float | None:
    """Return the axis' top, milliseconds, given the last frame's; None before the first steady
    step.

    95 % of the steps lie below it, and so do columns that are hardly higher: cut, they would look
    flat. A stall counts as one step, however many columns it fills, and the steps that share its
    column do not count.
    """
    total = bars.total_ms
    counts = np.isfinite(total) & (bars.steps > 0) & ~bars.is_traced
    if (counts & (bars.flags == 0)).any():
        counts &= bars.flags == 0
    walls = total * bars.steps > _OVERFLOW * 1e3 * np.diff(bars.start_s, append=bars.end_s)
    if 2 * bars.steps[counts & ~walls].sum() > bars.steps[counts].sum():
        counts &= ~walls
    if not counts.any():
        return current
    usual = _weighted_quantile(total[counts], bars.steps[counts], 0.95)
    needed = max(usual * _HEADROOM, float(total[counts & (total <= usual * _HARDLY_HIGHER)].max()))
    if current is not None and current * _USED <= needed <= current:
        return current
    return nice_top(needed)


def nice_top(needed: float) -> float:
    """Return the smallest round top that is at least `needed`."""
    if needed <= 0:
        return 1.0
    power = 10.0 ** np.floor(np.log10(needed))
    return next(float(top * power) for top in _TOPS if top * power >= needed * (1 - 1e-9))


def stack(bars: TimeColumns, top_ms: float | None, rows: int, fine: bool) -> Cells:
    """Stack compute, host and data wait to `rows` rows of cells.

    `fine` cells show two parts, split at an eighth; others one. Without a top every column has full
    height. A wait higher than the top is a stall. No cell can show three parts, so host time takes
    whole rows, and a thin one is drawn as compute; so is a wait of an eighth, which would flicker.
    """
    units = EIGHTHS if fine else 1
    ceiling = rows * units
    per_ms = ceiling / (top_ms or 1e-9)
    compute, host, wait = (
        np.where(np.isnan(part), 0.0, part)
        for part in (bars.compute_ms, bars.host_ms, bars.wait_ms)
    )
    total = compute + host + wait
    top = np.maximum(np.rint(total * per_ms), total > 0)
    work = np.rint((compute + host) * per_ms)
    thinnest = np.where(wait < _NOT_STARVING * total, _THINNEST_NOT_STARVING, _THINNEST)
    thin = (work == 0) | (top - work < thinnest * units / EIGHTHS)
    work = np.where(thin & (wait <= compute + host), top, work)
    thick = np.minimum(_whole_rows(host * per_ms / units) * units, work)
    bounds = np.minimum(np.stack([work - thick, work, top]), ceiling).astype(np.int64)
    kinds = np.stack(
        [
            np.where(bars.is_traced, BarPart.MUTED, BarPart.COMPUTE),
            np.full(len(top), BarPart.HOST),
            np.where(wait * per_ms > ceiling, BarPart.STALL, BarPart.WAIT),
            np.full(len(top), BarPart.NOTHING),
        ]
    ).astype(np.uint8)
    return Cells(*_cut(bounds, kinds, rows, units))


def _whole_rows(thickness: Floats) -> Floats:
    """Round thicknesses to whole rows; draw a thin part in all columns or in none."""
    there = np.sort(thickness[thickness > 0])
    # The median of few values by hand: numpy's takes longer than the rest of the strip.
    thin = not len(there) or float(there[(len(there) - 1) // 2] + there[len(there) // 2]) < 1.0
    whole: Floats = (
        np.floor(thickness) if thin else np.maximum(np.rint(thickness), thickness > 0.25)
    )
    return whole


def _cut(
    bounds: NDArray[np.int64], kinds: Bytes, rows: int, units: int
) -> tuple[Bytes, Bytes, Bytes]:
    """Cut columns whose parts end at `bounds` (3 x n) into cells of two parts: the one at the
    bottom, and the one at the top.

    A thin wait that ends within a cell fills it to the top: it is never hidden.
    """
    base = np.arange(rows - 1, -1, -1)[:, None] * units
    first, second, third = np.clip(bounds[:, None, :] - base, 0, units)
    lower = (first == 0).astype(np.int8) + (second == 0) + (third == 0)
    upper = (first < units).astype(np.int8) + (second < units) + (third < units)
    is_wait_hidden = (upper == 3) & (lower < 2) & (third > second)
    upper = np.where(is_wait_hidden, 2, upper)
    height = np.where(lower == 0, first, np.where(lower == 1, second, third))
    height = np.where(lower >= upper, units, height) * (EIGHTHS // units)
    column = np.arange(bounds.shape[1])[None, :]
    return kinds[lower, column], kinds[upper, column], height.astype(np.uint8)


def _weighted_quantile(values: Floats, weights: NDArray[np.int64], share: float) -> float:
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, share * reached[-1])])

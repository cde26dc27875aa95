"""The bars of a timeline: stacked step time over time as rows of cells, gauges and shades.

The step strip: stacked bars of data wait, host and compute over time, as rows of cells.

Arrays along the time axis have one entry a column, n in all. Milliseconds are means a step.

The lanes below the step strip: shares as shades, cores in use and the GPU as gauges.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tfwatch.core.rows import Flag, Rows, step_ms

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]

#: Widths a column may have, seconds; each is a multiple of the pyramid's finest bucket.
WIDTHS_S = (
    *(0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 40.0),
    *(60.0, 80.0, 120.0, 180.0, 240.0, 300.0, 480.0, 600.0, 900.0, 1200.0, 1800.0, 3600.0, 7200.0, 14400.0, 86400.0),
)
#: Steps that take so many times the width of the column that they began in hold one longer than the column is.
_OVERFLOW = 2.0
#: Tops that the axis may have, times a power of ten; each reads well when halved.
_TOPS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
#: The axis shrinks only when less than this part of it is used: it does not jump from frame to frame.
_USED = 0.5
_HEADROOM = 1.08
#: An open step is drawn from this age on, and beside finished ones when it is so many times as long as their mean.
OPEN_MS = 150.0
_STANDS_OUT = 3.0
#: Eighths of a cell: what block characters can show.
EIGHTHS = 8


#: The thinnest wait that is drawn, eighths; thicker where it is less than the share at which nothing starves.
_THINNEST, _FED_THINNEST = 2, 4
_FED = 0.05


class Part(IntEnum):
    """What a piece of a column stands for, from the base up; also the order in which parts stack."""

    COMPUTE = 0
    MUTED = 1
    HOST = 2
    WAIT = 3
    STALL = 4
    NOTHING = 5


@dataclass(frozen=True, eq=False)
class Bars:
    """What n columns show; NaN where nothing ran.

    starts_s: where each begins, seconds since the clock origin; end_s: where the last one ends.
    steps: how many began in each. muted: a compile or retrace, which does not count.
    """

    starts_s: Floats
    end_s: float
    steps: NDArray[np.int64]
    wait_ms: Floats
    host_ms: Floats
    compute_ms: Floats
    muted: Bools
    flagged: Bools

    @property
    def total_ms(self) -> Floats:
        """Mean step time of each column."""
        return self.wait_ms + self.host_ms + self.compute_ms

    @property
    def share(self) -> Floats:
        """Data wait over step time, 0 to 1; NaN where nothing ran."""
        total = self.total_ms
        share: Floats = np.divide(self.wait_ms, total, out=np.full(len(total), np.nan), where=total > 0)
        return share


@dataclass(frozen=True, eq=False)
class Cells:
    """The strip as rows x n cells, the top row first.

    lower, upper: a `Part` each. height: how much of the cell `lower` fills from below, 1 to 8 eighths.
    clipped: the columns that are higher than the axis.
    """

    lower: Bytes
    upper: Bytes
    height: Bytes
    clipped: Bools


def column_width(target_s: float, columns: int) -> float:
    """The narrowest column, seconds, with which `columns` of them show at least `target_s`."""
    return next((width for width in WIDTHS_S if width * columns >= target_s), WIDTHS_S[-1])


def bars_of_time(
    starts_s: Floats,
    width_s: float,
    steps: NDArray[np.int64],
    parts_ms: tuple[Floats, Floats, Floats],
    flags: NDArray[np.uint16],
) -> Bars:
    """Bars over columns of equal time; `parts_ms` is data wait, host and compute.

    A column without a step of its own in which a long one lasts is as muted as the one where that began.
    """
    ran = np.isfinite(parts_ms[0])
    own = np.where(steps > 0, np.arange(len(steps)), 0)
    since = np.maximum.accumulate(own) if len(own) else own
    muted = ran & _has(flags[since], Flag.COMPILE | Flag.RETRACE)
    end_s = float(starts_s[-1]) + width_s if len(starts_s) else 0.0
    return Bars(starts_s, end_s, steps, *parts_ms, muted=muted, flagged=flags != 0)


def bars_of_steps(rows: Rows, columns: int) -> Bars:
    """One bar a step, the last `columns` of `rows`; fewer steps stand at the right."""
    rows = rows[-columns:]
    wait, host, compute = (rows[name].astype(np.float64) for name in ("wait_ms", "host_ms", "compute_ms"))
    starts = rows["start_ns"] / 1e9
    end_s = float(starts[-1] + step_ms(rows[-1], np.float64) / 1e3) if len(rows) else 0.0
    muted = _has(rows["flags"], Flag.COMPILE | Flag.RETRACE)
    bars = Bars(starts, end_s, np.ones(len(rows), np.int64), wait, host, compute, muted, rows["flags"] != 0)
    return padded(bars, columns - len(rows), 0)


def padded(bars: Bars, before: int, after: int) -> Bars:
    """The bars with empty columns of no length before and after them."""
    first_s = float(bars.starts_s[0]) if len(bars.starts_s) else 0.0
    pad = (before, after)
    starts = np.pad(bars.starts_s, pad, constant_values=(first_s, bars.end_s))
    wait, host, compute = (
        np.pad(part, pad, constant_values=np.nan) for part in (bars.wait_ms, bars.host_ms, bars.compute_ms)
    )
    muted, flagged = (np.pad(values, pad) for values in (bars.muted, bars.flagged))
    return Bars(starts, bars.end_s, np.pad(bars.steps, pad), wait, host, compute, muted, flagged)


def with_open_step(bars: Bars, since_s: float, now_s: float, part: Part) -> Bars:
    """The bars with the step that has not ended: `part` of it lasts since `since_s`.

    It fills the columns in which nothing else began, and the newest one when it stands out from the steps there.
    A step younger than `OPEN_MS` is not drawn: the newest column would flicker.
    """
    lasted_ms = (now_s - since_s) * 1e3
    if lasted_ms < OPEN_MS:
        return bars
    ends = np.append(bars.starts_s[1:], bars.end_s)
    lasts = (ends > since_s) & (bars.starts_s <= now_s)
    newest = lasts & (bars.starts_s == bars.starts_s[lasts].max(initial=-np.inf))
    longer = ~(bars.total_ms * _STANDS_OUT >= lasted_ms)
    filled = lasts & ((bars.steps == 0) | (newest & longer))
    if not filled.any():
        return bars
    return replace(
        bars,
        steps=np.where(filled, 0, bars.steps),
        wait_ms=np.where(filled, lasted_ms if part == Part.WAIT else 0.0, bars.wait_ms),
        host_ms=np.where(filled, lasted_ms if part == Part.HOST else 0.0, bars.host_ms),
        compute_ms=np.where(filled, lasted_ms if part in (Part.COMPUTE, Part.MUTED) else 0.0, bars.compute_ms),
        muted=np.where(filled, part == Part.MUTED, bars.muted),
    )


def next_top(bars: Bars, current: float | None) -> float | None:
    """The axis' top, milliseconds, given the one of the last frame; None while no step was steady.

    Nineteen of twenty steps lie below it: a stall is one step, however many columns it fills, and the steps that
    share its column do not count either.
    """
    total = bars.total_ms
    counts = np.isfinite(total) & (bars.steps > 0) & ~bars.muted
    if (counts & ~bars.flagged).any():
        counts &= ~bars.flagged
    walls = total * bars.steps > _OVERFLOW * 1e3 * np.diff(bars.starts_s, append=bars.end_s)
    if 2 * bars.steps[counts & ~walls].sum() > bars.steps[counts].sum():
        counts &= ~walls
    if not counts.any():
        return current
    needed = _weighted_quantile(total[counts], bars.steps[counts], 0.95) * _HEADROOM
    if current is not None and current * _USED <= needed <= current:
        return current
    return nice_top(needed)


def nice_top(needed: float) -> float:
    """The smallest top of an axis that holds `needed`."""
    if needed <= 0:
        return 1.0
    power = 10.0 ** np.floor(np.log10(needed))
    return next(float(top * power) for top in _TOPS if top * power >= needed * (1 - 1e-9))


def stack(bars: Bars, top_ms: float | None, rows: int, fine: bool) -> Cells:
    """Stack compute, host and data wait to `rows` rows of cells.

    `fine` cells hold two parts, split at an eighth; others one. Without a top every column has full height.
    A wait that alone passes the top is a stall. No cell can show three parts, hence: host time takes whole rows,
    a thin one is drawn as compute, and so is a wait of an eighth, for it would come and go.
    """
    units = EIGHTHS if fine else 1
    ceiling = rows * units
    per_ms = ceiling / (top_ms or 1e-9)
    compute, host, wait = (
        np.where(np.isnan(part), 0.0, part) for part in (bars.compute_ms, bars.host_ms, bars.wait_ms)
    )
    total = compute + host + wait
    top = np.maximum(np.rint(total * per_ms), total > 0)
    work = np.rint((compute + host) * per_ms)
    thinnest = np.where(wait < _FED * total, _FED_THINNEST, _THINNEST) * units / EIGHTHS
    thin = (work == 0) | (top - work < thinnest)
    work = np.where(thin & (wait <= compute + host), top, work)
    thick = np.minimum(_whole_rows(host * per_ms / units) * units, work)
    bounds = np.minimum(np.stack([work - thick, work, top]), ceiling).astype(np.int64)
    stalled = wait * per_ms > ceiling
    kinds = np.stack(
        [
            np.where(bars.muted, Part.MUTED, Part.COMPUTE),
            np.full(len(top), Part.HOST),
            np.where(stalled, Part.STALL, Part.WAIT),
            np.full(len(top), Part.NOTHING),
        ]
    ).astype(np.uint8)
    lower, upper, height = _cut(bounds, kinds, rows, units)
    return Cells(lower, upper, height, np.asarray(top > ceiling, dtype=np.bool_))


def _whole_rows(thickness: Floats) -> Floats:
    """Thicknesses, in rows, as whole rows: whether a thin part is drawn is decided for all columns together."""
    there = np.sort(thickness[thickness > 0])
    # The median of so few by hand: numpy's takes longer than the rest of a frame's strip.
    thin = not len(there) or float(there[(len(there) - 1) // 2] + there[len(there) // 2]) < 1.0
    whole: Floats = np.floor(thickness) if thin else np.maximum(np.rint(thickness), thickness > 0.25)
    return whole


def _cut(bounds: NDArray[np.int64], kinds: Bytes, rows: int, units: int) -> tuple[Bytes, Bytes, Bytes]:
    """Cut columns whose parts end at `bounds` (3 x n) into cells of the two largest parts each."""
    base = np.arange(rows - 1, -1, -1)[:, None] * units
    first, second, third = np.clip(bounds[:, None, :] - base, 0, units)
    cell = (first * (units + 1) + second) * (units + 1) + third
    low, high, height = (of[cell] for of in _every_cell(units))
    column = np.arange(bounds.shape[1])[None, :]
    return kinds[low, column], kinds[high, column], height


@lru_cache
def _every_cell(units: int) -> tuple[NDArray[np.intp], NDArray[np.intp], Bytes]:
    """The lower and the upper part and the height of a cell, by where its first three parts end: of each 0 to `units`.

    At [(first * (units + 1) + second) * (units + 1) + third]; where parts end below the ones before them, nothing is
    meant.
    """
    ends = np.full((5, (units + 1) ** 3), units)
    ends[0] = 0
    ends[1:4] = np.indices((units + 1,) * 3).reshape(3, -1)
    whole = filled = ends[1:] - ends[:-1]
    # The smallest of three goes, but never the wait; of equals, host before compute before nothing.
    order = np.array([1, 0, 99, 2])[:, None]
    while (crowded := (filled > 0).sum(axis=0) > 2).any():
        rank = np.where(filled > 0, filled * 4 + order, 1000)
        gone = (np.arange(4)[:, None] == rank.argmin(axis=0)) & crowded
        filled = np.where(gone, 0, filled)
    there = filled > 0
    low, high = there.argmax(axis=0), _highest(there)
    at_low, at_high = (np.take_along_axis(filled, at[None], axis=0)[0] for at in (low, high))
    gone_above = _highest(whole > 0) > high
    height = np.where(low == high, units, np.where(gone_above, at_low, units - at_high))
    return low, high, (height * (EIGHTHS // units)).astype(np.uint8)


def _highest(there: Bools) -> NDArray[np.intp]:
    at: NDArray[np.intp] = len(there) - 1 - there[::-1].argmax(axis=0)
    return at


def mean_share(bars: Bars) -> float | None:
    """Data wait over step time of all steady steps of the bars; None where there is none."""
    counts = (bars.steps > 0) & np.isfinite(bars.total_ms) & ~bars.flagged
    total = float((bars.total_ms * bars.steps)[counts].sum())
    return float((bars.wait_ms * bars.steps)[counts].sum()) / total if total > 0 else None


def _has(flags: NDArray[np.uint16], wanted: Flag) -> Bools:
    return np.asarray((flags & np.uint16(wanted)) != 0, dtype=np.bool_)


def _weighted_quantile(values: Floats, weights: NDArray[np.int64], share: float) -> float:
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, share * reached[-1])])


#: Where a starving share changes its shade: the verdict's lines, and half.
_SHADES = (0.05, 0.2, 0.5)


def gauge(values: Floats, steps: int) -> NDArray[np.int64]:
    """Shares 0 to 1 as levels 1 to `steps`: nothing is a thin line, and only what is missing is level 0."""
    known = np.isfinite(values)
    levels = np.rint(np.clip(np.where(known, values, 0.0), 0.0, 1.0) * steps).astype(np.int64)
    levels = np.where(known, np.maximum(levels, 1), 0)
    return levels


def stacked(levels: NDArray[np.int64], rows: int, steps: int) -> NDArray[np.int64]:
    """Levels of a gauge of `rows` rows, each `steps` high, as rows x n levels of each row, the top row first."""
    base = np.arange(rows - 1, -1, -1)[:, None] * steps
    of_rows: NDArray[np.int64] = np.clip(levels[None, :] - base, 0, steps)
    return of_rows


def shade(share: Floats) -> NDArray[np.int64]:
    """Starving shares as shades 0 to 3; what is not known is 0."""
    shades: NDArray[np.int64] = np.sum([share >= line for line in _SHADES], axis=0, dtype=np.int64)
    return shades


def sample_columns(at_s: Floats, values: Floats, starts_s: Floats, hold_s: float) -> Floats:
    """The mean of the samples in each column; in a column without any, the sample that covers it.

    A sample is of the time since the one before it, at most `hold_s` seconds: nothing is known yet of the columns
    after the last one. `at_s` rises.
    """
    out = np.full(len(starts_s), np.nan)
    since_s = np.maximum(at_s - hold_s, np.concatenate([[-np.inf], at_s[:-1]]))
    known = np.isfinite(values)
    at_s, values, since_s = at_s[known], values[known], since_s[known]
    if not len(at_s) or not len(starts_s):
        return out
    following = np.searchsorted(at_s, starts_s, side="right")
    held = following < len(at_s)
    held[held] = since_s[following[held]] <= starts_s[held] + 1e-9
    out[held] = values[following[held]]
    column = np.searchsorted(starts_s, at_s, side="left") - 1
    inside = column >= 0
    counts = np.bincount(column[inside], minlength=len(out))
    sums = np.bincount(column[inside], weights=values[inside], minlength=len(out))
    out[counts > 0] = sums[counts > 0] / counts[counts > 0]
    return out

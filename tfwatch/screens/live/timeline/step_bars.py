"""The step strip, stacked bars of a step's parts as cells, and the gauges of the lanes below.

Arrays along the time axis have one entry per column, n in total. Milliseconds are means per step.
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

#: The widths of a column, seconds; each is a multiple of the pyramid's finest bucket.
WIDTHS_S = (
    *(0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 40.0),
    *(
        60.0,
        80.0,
        120.0,
        180.0,
        240.0,
        300.0,
        480.0,
        600.0,
        900.0,
        1200.0,
        1800.0,
        3600.0,
        7200.0,
        14400.0,
        86400.0,
    ),
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
    """A part of a column, in stacking order from the base up."""

    COMPUTE = 0
    MUTED = 1
    HOST = 2
    COPY = 3
    WAIT = 4
    STALL = 5
    NOTHING = 6


@dataclass(frozen=True, eq=False)
class Bars:
    """The values of n columns; NaN where no step ran."""

    #: The start of each, seconds since the clock origin.
    starts_s: Floats
    #: The end of the last.
    end_s: float
    #: The number of steps that start in each.
    steps: NDArray[np.int64]
    wait_ms: Floats
    host_ms: Floats
    compute_ms: Floats
    #: A compile or retrace, which is not counted.
    muted: Bools
    flagged: Bools
    #: A part of `compute_ms`; NaN: not timed in this column, None: in none.
    copy_ms: Floats | None = None

    @property
    def known_copy_ms(self) -> Floats:
        """The copy of each column; 0 where it is not timed, and is compute."""
        if self.copy_ms is None:
            return np.zeros(len(self.compute_ms))
        known: Floats = np.where(np.isnan(self.copy_ms), 0.0, self.copy_ms)
        return known

    @property
    def own_compute_ms(self) -> Floats:
        """Compute without the copy."""
        return self.compute_ms if self.copy_ms is None else self.compute_ms - self.known_copy_ms

    def parts_of(self, column: int) -> dict[str, float]:
        """Return the parts of a column by name, which add up; without a copy that is not timed."""
        wait, host, compute = (
            float(part[column]) for part in (self.wait_ms, self.host_ms, self.compute_ms)
        )
        copy = float("nan") if self.copy_ms is None else float(self.copy_ms[column])
        if np.isnan(copy):
            return {"wait": wait, "host": host, "compute": compute}
        return {"wait": wait, "copy": copy, "host": host, "compute": compute - copy}

    @property
    def total_ms(self) -> Floats:
        """The mean step time of each column."""
        return self.wait_ms + self.host_ms + self.compute_ms

    @property
    def share(self) -> Floats:
        """Data wait as a share of step time, 0 to 1; NaN where no step ran."""
        total = self.total_ms
        share: Floats = np.divide(
            self.wait_ms, total, out=np.full(len(total), np.nan), where=total > 0
        )
        return share


@dataclass(frozen=True, eq=False)
class Cells:
    """The strip as rows x n cells, the top row first."""

    #: A `BarPart` each, as `upper`.
    lower: Bytes
    upper: Bytes
    #: The eighths, 1 to 8, that `lower` fills from below.
    height: Bytes
    #: The columns higher than the axis.
    clipped: Bools


def column_width(target_s: float, columns: int) -> float:
    """Return the narrowest width, seconds, with which `columns` columns show at least
    `target_s`."""
    return next((width for width in WIDTHS_S if width * columns >= target_s), WIDTHS_S[-1])


def bars_of_time(
    starts_s: Floats,
    end_s: float,
    steps: NDArray[np.int64],
    parts_ms: tuple[Floats, Floats, Floats],
    flags: NDArray[np.uint16],
    copy_ms: Floats | None = None,
) -> Bars:
    """Make bars of stretches of time, the last of which ends at `end_s`.

    parts_ms: data wait, host and compute, which contains the copy.

    A column within a long step is muted where the column of the step's start is.
    """
    ran = np.isfinite(parts_ms[0])
    own = np.where(steps > 0, np.arange(len(steps)), 0)
    since = np.maximum.accumulate(own) if len(own) else own
    muted = ran & _has(flags[since], Flag.COMPILE | Flag.RETRACE)
    return Bars(starts_s, end_s, steps, *parts_ms, muted=muted, flagged=flags != 0, copy_ms=copy_ms)


def bars_of_steps(rows: Rows, columns: int) -> Bars:
    """Make one bar per step of the last `columns` of `rows`, aligned to the right."""
    rows = rows[-columns:]
    wait, host, compute = (
        rows[name].astype(np.float64) for name in ("wait_ms", "host_ms", "compute_ms")
    )
    starts = rows["start_ns"] / 1e9
    end_s = float(starts[-1] + step_ms(rows[-1], np.float64) / 1e3) if len(rows) else 0.0
    muted = _has(rows["flags"], Flag.COMPILE | Flag.RETRACE)
    is_timed = bool(np.isfinite(rows["copy_ms"]).any())
    copy = rows["copy_ms"].astype(np.float64) if is_timed else None
    bars = Bars(
        starts,
        end_s,
        np.ones(len(rows), np.int64),
        wait,
        host,
        compute,
        muted,
        rows["flags"] != 0,
        copy,
    )
    return padded(bars, columns - len(rows), 0)


def padded(bars: Bars, before: int, after: int) -> Bars:
    """Add empty columns without length before and after the bars."""
    first_s = float(bars.starts_s[0]) if len(bars.starts_s) else 0.0
    pad = (before, after)
    starts = np.pad(bars.starts_s, pad, constant_values=(first_s, bars.end_s))
    wait, host, compute = (
        np.pad(part, pad, constant_values=np.nan)
        for part in (bars.wait_ms, bars.host_ms, bars.compute_ms)
    )
    copy = None if bars.copy_ms is None else np.pad(bars.copy_ms, pad, constant_values=np.nan)
    muted, flagged = (np.pad(values, pad) for values in (bars.muted, bars.flagged))
    return Bars(
        starts, bars.end_s, np.pad(bars.steps, pad), wait, host, compute, muted, flagged, copy
    )


def with_open_step(bars: Bars, since_s: float, now_s: float, part: BarPart) -> Bars:
    """Add the step that is still open: its `part` lasts since `since_s`.

    It fills the columns without other steps, and the newest one where it is much longer than the
    steps there. A step younger than `OPEN_MS` is not drawn: the newest column would flicker.
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
        wait_ms=np.where(filled, lasted_ms if part == BarPart.WAIT else 0.0, bars.wait_ms),
        host_ms=np.where(filled, lasted_ms if part == BarPart.HOST else 0.0, bars.host_ms),
        compute_ms=np.where(
            filled, lasted_ms if part in (BarPart.COMPUTE, BarPart.MUTED) else 0.0, bars.compute_ms
        ),
        muted=np.where(filled, part == BarPart.MUTED, bars.muted),
        copy_ms=None if bars.copy_ms is None else np.where(filled, np.nan, bars.copy_ms),
    )


def next_top(bars: Bars, current: float | None) -> float | None:
    """Return the axis' top, milliseconds, given the last frame's; None before the first steady
    step.

    95 % of the steps lie below it, and so do columns that are hardly higher: cut, they would look
    flat. A stall counts as one step, however many columns it fills, and the steps that share its
    column do not count.
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


def stack(bars: Bars, top_ms: float | None, rows: int, fine: bool) -> Cells:
    """Stack compute, host, copy and data wait to `rows` rows of cells.

    `fine` cells show two parts, split at an eighth; others one. Without a top every column has full
    height. A wait higher than the top is a stall. No cell can show three parts, so host time takes
    whole rows, a copy at least one, and a thin one of either is drawn as compute; so is a wait of
    an eighth, which would flicker.
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
    thinnest = (
        np.where(wait < _NOT_STARVING * total, _THINNEST_NOT_STARVING, _THINNEST) * units / EIGHTHS
    )
    thin = (work == 0) | (top - work < thinnest)
    work = np.where(thin & (wait <= compute + host), top, work)
    thick = np.minimum(_whole_rows(host * per_ms / units) * units, work)
    ends, between = [work - thick, work, top], [BarPart.HOST]
    if bars.copy_ms is not None:
        copied = np.minimum(_copy_units(bars.known_copy_ms * per_ms, units), work)
        ends = [np.maximum(work - copied - thick, 0), work - copied, work, top]
        between = [BarPart.HOST, BarPart.COPY]
    bounds = np.minimum(np.stack(ends), ceiling).astype(np.int64)
    stalled = wait * per_ms > ceiling
    kinds = np.stack(
        [
            np.where(bars.muted, BarPart.MUTED, BarPart.COMPUTE),
            *(np.full(len(top), part) for part in between),
            np.where(stalled, BarPart.STALL, BarPart.WAIT),
            np.full(len(top), BarPart.NOTHING),
        ]
    ).astype(np.uint8)
    lower, upper, height = _cut(bounds, kinds, rows, units)
    return Cells(lower, upper, height, np.asarray(top > ceiling, dtype=np.bool_))


def _copy_units(thickness: Floats, units: int) -> Floats:
    """Round the copy's units; a row at least where it is drawn, so that it never shares a cell with
    two others."""
    drawn = _whole_rows(thickness / units) > 0
    rounded: Floats = np.where(drawn, np.maximum(np.rint(thickness), units), 0.0)
    return rounded


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
    """Cut columns whose parts end at `bounds` (3 or 4 x n) into cells that show their two largest
    parts."""
    base = np.arange(rows - 1, -1, -1)[:, None] * units
    cell, *others = np.clip(bounds[:, None, :] - base, 0, units)
    for end in others:
        cell = cell * (units + 1) + end
    low, high, height = (of[cell] for of in _every_cell(units, len(bounds)))
    column = np.arange(bounds.shape[1])[None, :]
    return kinds[low, column], kinds[high, column], height


@lru_cache
def _every_cell(units: int, count: int) -> tuple[NDArray[np.intp], NDArray[np.intp], Bytes]:
    """Return the lower part, the upper part and the height of every cell, by the ends of its first
    `count` parts.

    The index of three is (first * (units + 1) + second) * (units + 1) + third, with ends from 0 to
    `units`; entries whose ends do not rise have no meaning.
    """
    ends = np.full((count + 2, (units + 1) ** count), units)
    ends[0] = 0
    ends[1:-1] = np.indices((units + 1,) * count).reshape(count, -1)
    whole = filled = ends[1:] - ends[:-1]
    # Drop the smallest of three, but never the wait; of equals, host before copy before compute
    # before nothing.
    order = np.array([2, *range(count - 2), 99, 3])[:, None]
    while (crowded := (filled > 0).sum(axis=0) > 2).any():
        rank = np.where(filled > 0, filled * 4 + order, 1000)
        gone = (np.arange(count + 1)[:, None] == rank.argmin(axis=0)) & crowded
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


def _has(flags: NDArray[np.uint16], wanted: Flag) -> Bools:
    return np.asarray((flags & np.uint16(wanted)) != 0, dtype=np.bool_)


def _weighted_quantile(values: Floats, weights: NDArray[np.int64], share: float) -> float:
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, share * reached[-1])])


def gauge(values: Floats, steps: int) -> NDArray[np.int64]:
    """Return shares 0 to 1 as levels 1 to `steps`: 0 is a thin line, and only a missing value is
    level 0."""
    known = np.isfinite(values)
    levels = np.rint(np.clip(np.where(known, values, 0.0), 0.0, 1.0) * steps).astype(np.int64)
    levels = np.where(known, np.maximum(levels, 1), 0)
    return levels


def stacked(levels: NDArray[np.int64], rows: int, steps: int) -> NDArray[np.int64]:
    """Split the levels of a gauge into `rows` rows of `steps` levels, the top row first."""
    base = np.arange(rows - 1, -1, -1)[:, None] * steps
    of_rows: NDArray[np.int64] = np.clip(levels[None, :] - base, 0, steps)
    return of_rows


def sample_columns(at_s: Floats, values: Floats, starts_s: Floats, hold_s: float) -> Floats:
    """Return the mean of the samples in each column; a column without samples gets the one that
    covers it.

    A sample covers the time since the one before it, at most `hold_s` seconds; columns after the
    last sample are unknown. `at_s` rises.
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

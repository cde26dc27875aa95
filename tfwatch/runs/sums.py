"""Sums over the steps, in buckets of time and by epoch.

They make the cost of drawing a stretch, and of a time breakdown, independent of the number of
steps.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tfwatch.core.rows import EPOCH, Flag, step_ms
from tfwatch.runs.buffers import GrowingRows

if TYPE_CHECKING:
    from tfwatch.core.rows import Rows

#: The smallest bucket, one column of the live screen.
BUCKET_S = 0.25
#: The length of each level's buckets over that of the level below.
FACTOR = 16
LEVELS = 4
#: From so many buckets in a column on, columns may have a bucket more or less.
_FINE = 32
_PARTS = ("wait_ms", "compute_ms", "host_ms", "copy_ms")
#: The number of small additions that wait before they are added to the coarser levels, which are
#: seldom read.
_MOST_WAITING = 64
_SUMS = ("index", "steps", "parts", "flags")

#: Steps longer than a bucket; they fill columns in which no step begins.
_LONG = np.dtype([("begin_s", "<f8"), ("end_s", "<f8"), ("means", "<f8", (len(_PARTS),))])

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.uint16]


@dataclass(frozen=True, eq=False)
class TimeColumns:
    """Means over the steps in each of n columns of time; NaN in columns without steps.

    end_s: the end of the last column.

    start_s: the start of each column, seconds since the clock origin; steps: the number of steps
    that begin in it.
    wait_ms, compute_ms, host_ms: means, ms/step. copy_ms: of the timed copies, which compute
    contains; NaN without any.
    flags: the `core.rows.Flag` bits of all its steps.
    """

    start_s: Floats
    end_s: float
    steps: Ints
    wait_ms: Floats
    compute_ms: Floats
    host_ms: Floats
    copy_ms: Floats
    flags: Flags

    @property
    def share(self) -> Floats:
        """Data wait as a share of step time, 0 to 1."""
        total = self.wait_ms + self.compute_ms + self.host_ms
        share: Floats = np.divide(
            self.wait_ms, total, out=np.full(len(total), np.nan), where=total > 0
        )
        return share


class Pyramid:
    """Sums of all added rows, in levels of buckets. It takes 100 bytes for each second of the
    run."""

    def __init__(self) -> None:
        # The smallest buckets hold few sums, which need less precision.
        self._levels = [
            _Level(BUCKET_S * FACTOR**n, np.float64 if n else np.float32) for n in range(LEVELS)
        ]
        self._waiting: list[_Sums] = []
        self._long = GrowingRows(_LONG)
        self.end_s = 0.0
        #: A judgement reads in a thread of its own while rows come.
        self._lock = threading.Lock()

    def add(self, rows: Rows) -> None:
        """Add plausible rows of `core.rows.STEP`, in the order of their start."""
        if not len(rows):
            return
        if (rows["start_ns"][1:] < rows["start_ns"][:-1]).any():
            rows = rows[np.argsort(rows["start_ns"], kind="stable")]
        start_s = rows["start_ns"] / 1e9
        end_s = start_s + step_ms(rows) / 1e3
        index = np.asarray(start_s / BUCKET_S, dtype=np.int64)
        sums = _Sums(
            index, np.ones(len(rows), dtype=np.int64), _parts(rows), rows["flags"]
        ).merged()
        with self._lock:
            self._levels[0].add(sums)
            self._waiting.append(sums)
            if max(len(self._waiting), len(sums.index)) >= _MOST_WAITING:
                self._add_waiting()
            self._add_long(rows, start_s, end_s)
            self.end_s = max(self.end_s, float(end_s[-1]))

    def columns(self, end_s: float, width_s: float, count: int) -> TimeColumns:
        """Return `count` columns of `width_s` seconds, the last of which contains `end_s`.

        width_s: at least `BUCKET_S`. The edges of columns are edges of buckets.
        """
        with self._lock:
            return self._columns(self._level_for(width_s), end_s, width_s, count)

    def _columns(self, level: _Level, end_s: float, width_s: float, count: int) -> TimeColumns:
        if level is not self._levels[0]:
            self._add_waiting()
        first = int(end_s / width_s) - count + 1
        edges = np.rint((first + np.arange(count + 1)) * (width_s / level.width_s)).astype(np.int64)
        buckets = level.window(int(edges[0]), int(edges[-1] - edges[0]))
        firsts = edges[:-1] - edges[0]
        steps = np.add.reduceat(buckets.steps, firsts)
        parts = np.add.reduceat(buckets.parts, firsts, axis=1)
        flags = np.bitwise_or.reduceat(buckets.flags, firsts)
        bounds: Floats = edges * level.width_s
        means: Floats = np.where(steps > 0, parts / np.maximum(steps, 1), np.nan)
        self._cover(bounds, steps, means)
        wait, compute, host, copy = means
        # A sum of 0 is of no copy, or of batches that were on the device already: there is nothing
        # to show of either.
        copy = np.where(copy > 0, copy, np.nan)
        return TimeColumns(bounds[:-1], float(bounds[-1]), steps, wait, compute, host, copy, flags)

    def _level_for(self, width_s: float) -> _Level:
        """Return the coarsest level whose buckets divide a column, else one fine enough to hide
        uneven shares."""
        dividing = next(
            (level for level in reversed(self._levels) if _divides(level.width_s, width_s)), None
        )
        fine = (level for level in reversed(self._levels) if level.width_s * _FINE <= width_s)
        return dividing or next(fine, self._levels[0])

    def _add_waiting(self) -> None:
        """Add the waiting sums to the coarser levels: one call for many costs as much as for
        one."""
        if not self._waiting:
            return
        sums = _Sums(
            *(np.concatenate([getattr(one, of) for one in self._waiting], axis=-1) for of in _SUMS)
        )
        self._waiting.clear()
        if (sums.index[1:] < sums.index[:-1]).any():
            order = np.argsort(sums.index, kind="stable")
            sums = _Sums(
                sums.index[order], sums.steps[order], sums.parts[:, order], sums.flags[order]
            )
        for level in self._levels[1:]:
            sums = replace(sums, index=sums.index // FACTOR).merged()
            level.add(sums)

    def _add_long(self, rows: Rows, start_s: Floats, end_s: Floats) -> None:
        at = np.flatnonzero(end_s - start_s > BUCKET_S)
        if len(at):
            long = np.empty(len(at), dtype=_LONG)
            long["begin_s"], long["end_s"] = start_s[at], end_s[at]
            long["means"] = _parts(rows[at]).T
            self._long.extend(long)

    def _cover(self, bounds: Floats, steps: Ints, means: Floats) -> None:
        """Fill the columns that lie within a long step."""
        long = self._long.rows
        # Each step ends before the next one begins, so only the last one that begins before the
        # view can reach into it.
        first, end = (
            bisect_left(range(len(long)), at, key=lambda n: long["begin_s"][n])
            for at in (bounds[0], bounds[-1])
        )
        long = long[max(first - 1, 0) : end]
        empty = np.flatnonzero(steps == 0)
        newest = np.searchsorted(long["begin_s"], bounds[empty + 1]) - 1
        lasts = newest >= 0
        lasts[lasts] = long["end_s"][newest[lasts]] > bounds[empty[lasts]]
        means[:, empty[lasts]] = long["means"][newest[lasts]].T


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums over the steps of n buckets: their number, their parts (4 x n) in milliseconds, and
    their flags."""

    index: Ints
    steps: Ints
    parts: Floats
    flags: Flags

    def merged(self) -> _Sums:
        """Return the sums with neighbours of the same bucket merged; `index` must be sorted."""
        firsts = np.flatnonzero(np.diff(self.index, prepend=-1))
        steps, parts = (
            np.add.reduceat(self.steps, firsts),
            np.add.reduceat(self.parts, firsts, axis=1),
        )
        return _Sums(self.index[firsts], steps, parts, np.bitwise_or.reduceat(self.flags, firsts))


class _Level:
    """The buckets of one width, starting with bucket 0."""

    def __init__(self, width_s: float, kind: type[np.floating[Any]]) -> None:
        self.width_s = width_s
        self._steps = np.zeros(64, dtype=np.uint32)
        self._parts = np.zeros((len(_PARTS), 64), dtype=kind)
        self._flags = np.zeros(64, dtype=np.uint16)

    def add(self, sums: _Sums) -> None:
        """Add sums to the buckets; each bucket occurs once."""
        self._grow(int(sums.index[-1]) + 1)
        self._steps[sums.index] += sums.steps.astype(np.uint32)
        self._parts[:, sums.index] += sums.parts
        self._flags[sums.index] |= sums.flags

    def window(self, first: int, count: int) -> _Sums:
        """Return buckets [first, first + count), with zeros where there are none."""
        low, high = max(first, 0), min(first + count, len(self._flags))
        steps, flags = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.uint16)
        parts = np.zeros((len(_PARTS), count))
        if low < high:
            steps[low - first : high - first] = self._steps[low:high]
            parts[:, low - first : high - first] = self._parts[:, low:high]
            flags[low - first : high - first] = self._flags[low:high]
        return _Sums(np.arange(first, first + count), steps, parts, flags)

    def _grow(self, needed: int) -> None:
        have = len(self._flags)
        if needed > have:
            size = max(needed, 2 * have)
            self._steps, self._parts, self._flags = (
                _extend(array, size) for array in (self._steps, self._parts, self._flags)
            )


def _extend(array: NDArray[Any], size: int) -> NDArray[Any]:
    """Return the array with zeros added along its last axis; they take no memory before they are
    written to."""
    bigger = np.zeros((*array.shape[:-1], size), dtype=array.dtype)
    bigger[..., : array.shape[-1]] = array
    return bigger


def _parts(rows: Rows) -> Floats:
    """Return wait, compute, host and copy, 4 x rows; a copy that is not timed is 0."""
    parts = np.empty((len(_PARTS), len(rows)))
    for at, name in enumerate(_PARTS):
        parts[at] = rows[name]
    parts[-1][np.isnan(parts[-1])] = 0.0
    return parts


def _divides(part: float, whole: float) -> bool:
    return part <= whole and abs(whole / part - round(whole / part)) < 1e-9


#: The number of small additions that wait: rows arrive in every frame, but the sums are read once a
#: second.
_MOST_EPOCH_ROWS = 64
_TRACED = int(Flag.COMPILE | Flag.RETRACE)
_EPOCH_SUMS = (
    "steps",
    "traced",
    "calls",
    "copies",
    "wait_ms",
    "compute_ms",
    "host_ms",
    "copy_ms",
    "traced_ms",
)
_FIRST = ("first_ns", "first_wait_ms")


class EpochSums:
    """Sums over the steps of each epoch."""

    def __init__(self) -> None:
        self._closed = GrowingRows(EPOCH)
        self._open: Rows = np.empty(0, dtype=EPOCH)
        self._waiting: list[Rows] = []
        #: A judgement reads in a thread of its own while rows come.
        self._lock = threading.Lock()

    @property
    def rows(self) -> Rows:
        """Rows of `core.rows.EPOCH`; later steps do not change them."""
        with self._lock:
            self._sum_waiting()
            return np.concatenate([self._closed.rows, self._open])

    def add(self, rows: Rows) -> None:
        """Add plausible rows of `core.rows.STEP`, in the order of their start."""
        with self._lock:
            self._waiting.append(rows)
            if max(len(self._waiting), len(rows)) >= _MOST_EPOCH_ROWS:
                self._sum_waiting()

    def _sum_waiting(self) -> None:
        waiting, self._waiting = [rows for rows in self._waiting if len(rows)], []
        if not waiting:
            return
        rows = np.concatenate(waiting) if len(waiting) > 1 else waiting[0]
        sums = _sum_up(rows)
        if len(self._open) and self._open["epoch"][0] == sums["epoch"][0]:
            _prepend(self._open[0], sums)
        else:
            self._closed.extend(self._open)
        self._closed.extend(sums[:-1])
        self._open = sums[-1:].copy()


def _sum_up(rows: Rows) -> Rows:
    """Return one row for each stretch of steps of one epoch."""
    firsts = np.flatnonzero(np.diff(rows["epoch"], prepend=rows["epoch"][0] ^ 1))
    lasts = np.append(firsts[1:], len(rows)) - 1
    traced = (rows["flags"] & _TRACED) != 0
    out = np.zeros(len(firsts), dtype=EPOCH)
    out["epoch"], out["steps"] = rows["epoch"][firsts], lasts - firsts + 1
    out["traced"] = np.add.reduceat(traced.astype(np.uint32), firsts)
    out["calls"] = np.add.reduceat((rows["host_ms"] > 0).astype(np.uint32), firsts)
    is_timed = ~np.isnan(rows["copy_ms"])
    copies = np.where(is_timed, rows["copy_ms"], 0)
    compute = rows["compute_ms"] - copies
    parts = (rows["wait_ms"], compute, rows["host_ms"], copies, np.where(traced, compute, 0))
    for name, values in zip(
        ("wait_ms", "compute_ms", "host_ms", "copy_ms", "traced_ms"), parts, strict=True
    ):
        out[name] = np.add.reduceat(values, firsts, dtype=np.float64)
    out["copies"] = np.add.reduceat(is_timed.astype(np.uint32), firsts)
    out["first_ns"], out["last_ns"] = rows["start_ns"][firsts], rows["start_ns"][lasts]
    out["end_ns"] = _after(rows[lasts], "wait_ms", "compute_ms", "host_ms")
    out["first_wait_ms"], out["last_host_ms"] = rows["wait_ms"][firsts], rows["host_ms"][lasts]
    return out


def _after(rows: Rows, *parts: str) -> NDArray[np.uint64]:
    took_ms = np.sum([rows[part] for part in parts], axis=0, dtype=np.float64)
    return rows["start_ns"] + (took_ms * 1e6).astype(np.uint64)


def _prepend(before: np.void, sums: Rows) -> None:
    for name in _EPOCH_SUMS:
        sums[name][0] += before[name]
    for name in _FIRST:
        sums[name][0] = before[name]

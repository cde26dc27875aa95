"""Sums over the steps, in buckets of time and by epoch.

They make the cost of drawing a stretch, and of a time breakdown, independent of the number of
steps.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tfwatch.core.rows import EPOCH, Flag, step_ms
from tfwatch.runs.buffers import GrowingRows

if TYPE_CHECKING:
    from tfwatch.core.rows import Rows

#: The width of a bucket, one column of the live screen.
BUCKET_S = 0.25
_PARTS = ("wait_ms", "compute_ms", "host_ms", "copy_ms")

#: Steps longer than a bucket; they fill columns in which no step begins.
_LONG = np.dtype([("begin_s", "<f8"), ("end_s", "<f8"), ("means", "<f8", (len(_PARTS),))])

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.uint16]

_TRACED = int(Flag.COMPILE | Flag.RETRACE)


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
    def total_ms(self) -> Floats:
        """The mean step time of each column."""
        return self.wait_ms + self.compute_ms + self.host_ms

    @property
    def is_traced(self) -> NDArray[np.bool_]:
        """True where a step is traced or compiled, which is not counted."""
        traced: NDArray[np.bool_] = (self.flags & np.uint16(_TRACED)) != 0
        return traced


class TimeSums:
    """Sums of all added rows up to the end of each bucket: those of a column are a difference of
    two. They take at most 200 bytes for each second of the run."""

    def __init__(self) -> None:
        #: The numbers of the buckets in which steps begin; -1 stands before the first.
        self._buckets = np.full(1, -1)
        #: The number of all steps up to the end of each, and their parts, milliseconds.
        self._sums = np.zeros((1, 1 + len(_PARTS)))
        #: Of its own steps.
        self._flags = np.zeros(1, dtype=np.uint16)
        self._count = 1
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
        with self._lock:
            self._add(np.asarray(start_s / BUCKET_S, dtype=np.int64), _values(rows), rows["flags"])
            self._add_long(rows, start_s, end_s)
            self.end_s = max(self.end_s, float(end_s[-1]))

    def _add(self, bucket: Ints, values: Floats, flags: Flags) -> None:
        """Add steps in the order of their buckets; the last known bucket may go on in them."""
        at = int(np.searchsorted(self._buckets[: self._count], bucket[0]))
        later = slice(at, self._count)
        if at < self._count:
            own = np.diff(self._sums[at - 1 : self._count], axis=0).T
            bucket = np.concatenate([self._buckets[later], bucket])
            values = np.concatenate([own, values], axis=1)
            flags = np.concatenate([self._flags[later], flags])
        if (bucket[1:] < bucket[:-1]).any():
            order = np.argsort(bucket, kind="stable")
            bucket, values, flags = bucket[order], values[:, order], flags[order]
        begins = np.flatnonzero(np.diff(bucket, prepend=-1))
        self._count = at + len(begins)
        added = slice(at, self._count)
        self._buckets, self._sums, self._flags = (
            _with_room(array, self._count) for array in (self._buckets, self._sums, self._flags)
        )
        self._buckets[added] = bucket[begins]
        self._sums[added] = np.add.reduceat(values, begins, axis=1).cumsum(axis=1).T
        self._sums[added] += self._sums[at - 1]
        self._flags[added] = np.bitwise_or.reduceat(flags, begins)

    def columns(self, end_s: float, width_s: float, count: int) -> TimeColumns:
        """Return `count` columns of `width_s` seconds, the last of which contains `end_s`.

        width_s: at least `BUCKET_S`. The edges of columns are edges of buckets.
        """
        with self._lock:
            return self._columns(end_s, width_s, count)

    def _columns(self, end_s: float, width_s: float, count: int) -> TimeColumns:
        first = int(end_s / width_s) - count + 1
        edges = np.rint((first + np.arange(count + 1)) * (width_s / BUCKET_S)).astype(np.int64)
        at = np.maximum(np.searchsorted(self._buckets[: self._count], edges), 1)
        sums = np.diff(self._sums[at - 1], axis=0).T
        steps = np.rint(sums[0]).astype(np.int64)
        flags = np.append(self._flags[at[0] : at[-1]], np.uint16(0))
        flags = np.bitwise_or.reduceat(flags, at[:-1] - at[0])
        flags[steps == 0] = 0
        bounds: Floats = edges * BUCKET_S
        means: Floats = np.where(steps > 0, sums[1:] / np.maximum(steps, 1), np.nan)
        self._cover(bounds, steps, means)
        wait, compute, host, copy = means
        # A sum of 0 is of no copy, or of batches that were on the device already: there is nothing
        # to show of either.
        copy = np.where(copy > _LEAST_MS, copy, np.nan)
        return TimeColumns(bounds[:-1], float(bounds[-1]), steps, wait, compute, host, copy, flags)

    def _add_long(self, rows: Rows, start_s: Floats, end_s: Floats) -> None:
        at = np.flatnonzero(end_s - start_s > BUCKET_S)
        if len(at):
            long = np.empty(len(at), dtype=_LONG)
            long["begin_s"], long["end_s"] = start_s[at], end_s[at]
            long["means"] = _values(rows[at])[1:].T
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


#: A smaller mean is what adding up left of 0.
_LEAST_MS = 1e-6


def _with_room(array: NDArray[Any], count: int) -> NDArray[Any]:
    """Return an array that holds so many; one that is full doubles."""
    if count <= len(array):
        return array
    bigger = np.zeros((max(count, 2 * len(array)), *array.shape[1:]), dtype=array.dtype)
    bigger[: len(array)] = array
    return bigger


def _values(rows: Rows) -> Floats:
    """Return 1, wait, compute, host and copy, 5 x rows; a copy that is not timed is 0."""
    values = np.ones((1 + len(_PARTS), len(rows)))
    for at, name in enumerate(_PARTS, 1):
        values[at] = rows[name]
    values[-1][np.isnan(values[-1])] = 0.0
    return values


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
        #: A judgement reads in a thread of its own while rows come.
        self._lock = threading.Lock()

    @property
    def rows(self) -> Rows:
        """Rows of `core.rows.EPOCH`; later steps do not change them."""
        with self._lock:
            return np.concatenate([self._closed.rows, self._open])

    def add(self, rows: Rows) -> None:
        """Add plausible rows of `core.rows.STEP`, in the order of their start."""
        if not len(rows):
            return
        sums = _sum_up(rows)
        with self._lock:
            if len(self._open) and self._open["epoch"][0] == sums["epoch"][0]:
                for name in _EPOCH_SUMS:
                    sums[name][0] += self._open[name][0]
                for name in _FIRST:
                    sums[name][0] = self._open[name][0]
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
    last_ms = step_ms(rows[lasts], np.float64)
    out["end_ns"] = rows["start_ns"][lasts] + (last_ms * 1e6).astype(np.uint64)
    out["first_wait_ms"], out["last_host_ms"] = rows["wait_ms"][firsts], rows["host_ms"][lasts]
    return out

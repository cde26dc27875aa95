"""Sums over the steps in buckets of time, so that any stretch of a run is drawn at the same cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tfwatch.runs.growing import Growing

if TYPE_CHECKING:
    from tfwatch.core.rows import Rows

#: The finest bucket, one column of the live screen.
BUCKET_S = 0.25
#: Each level's buckets are this many times as long as those of the level below.
FACTOR = 16
LEVELS = 4
_COLUMNS = ("wait_ms", "dispatch_ms", "compute_ms", "host_ms")

#: Steps longer than a bucket, which fill columns that no step begins in.
_LONG = np.dtype([("begin_s", "<f8"), ("end_s", "<f8"), ("means", "<f8", (len(_COLUMNS),))])

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.uint16]


@dataclass(frozen=True, eq=False)
class Columns:
    """Means over the steps that lie in each of n columns of time; NaN where there is none.

    start_s: where each column begins, seconds since the clock origin; steps: how many began in it.
    wait_ms, dispatch_ms, compute_ms, host_ms: mean milliseconds a step. share: data wait over step time, 0 to 1.
    flags: the `core.rows.Flag` bits of all its steps.
    """

    start_s: Floats
    width_s: float
    steps: Ints
    wait_ms: Floats
    dispatch_ms: Floats
    compute_ms: Floats
    host_ms: Floats
    share: Floats
    flags: Flags


class Pyramid:
    """Grows with the rows handed to `add`; answers `columns`. Memory: 150 bytes for each second of the run."""

    def __init__(self) -> None:
        self._levels = [_Level(BUCKET_S * FACTOR**n) for n in range(LEVELS)]
        self._long = Growing(_LONG)
        self.end_s = 0.0

    def add(self, rows: Rows) -> None:
        """Take plausible rows of `core.rows.STEP` in, in the order of their start."""
        if not len(rows):
            return
        if (rows["start_ns"][1:] < rows["start_ns"][:-1]).any():
            rows = rows[np.argsort(rows["start_ns"], kind="stable")]
        start_s = rows["start_ns"] / 1e9
        end_s = start_s + (rows["wait_ms"] + rows["compute_ms"] + rows["host_ms"]) / 1e3
        index, sums, flags = _Level.sum_up(
            np.asarray(start_s / BUCKET_S, dtype=np.int64), _columns(rows), rows["flags"]
        )
        self._levels[0].add(index, sums, flags)
        for level in self._levels[1:]:
            index, sums, flags = _Level.sum_up(index // FACTOR, sums, flags)
            level.add(index, sums, flags)
        self._add_long(rows, start_s, end_s)
        self.end_s = max(self.end_s, float(end_s[-1]))

    def columns(self, end_s: float, width_s: float, count: int) -> Columns:
        """The `count` columns of `width_s` seconds whose last one holds `end_s`.

        `width_s` is a multiple of `BUCKET_S`.
        """
        level = next(lv for lv in reversed(self._levels) if _divides(lv.width_s, width_s))
        ratio = round(width_s / level.width_s)
        first = int(end_s / width_s) - count + 1
        sums, flags = level.window(first * ratio, count * ratio)
        sums = sums.reshape(len(sums), count, ratio).sum(axis=2)
        flags = np.bitwise_or.reduce(flags.reshape(count, ratio), axis=1)
        starts: Floats = (first + np.arange(count, dtype=np.float64)) * width_s
        steps, parts = sums[0].astype(np.int64), sums[1:]
        means: Floats = np.where(steps > 0, parts / np.maximum(steps, 1), np.nan)
        self._cover(starts, width_s, steps, means)
        with np.errstate(invalid="ignore", divide="ignore"):
            total = means[0] + means[2] + means[3]
            share = np.where(total > 0, means[0] / total, np.nan)
        wait, dispatch, compute, host = means
        return Columns(starts, width_s, steps, wait, dispatch, compute, host, share, flags)

    def _add_long(self, rows: Rows, start_s: Floats, end_s: Floats) -> None:
        at = np.flatnonzero(end_s - start_s > BUCKET_S)
        if len(at):
            long = np.empty(len(at), dtype=_LONG)
            long["begin_s"], long["end_s"] = start_s[at], end_s[at]
            long["means"] = _columns(rows[at])[1:].T
            self._long.extend(long)

    def _cover(self, starts: Floats, width_s: float, steps: Ints, means: Floats) -> None:
        """Fill the columns in which no step began but a long one lasts."""
        long = self._long.rows
        empty = np.flatnonzero(steps == 0)
        newest = np.searchsorted(long["begin_s"], starts[empty] + width_s) - 1
        lasts = newest >= 0
        lasts[lasts] = long["end_s"][newest[lasts]] > starts[empty[lasts]]
        means[:, empty[lasts]] = long["means"][newest[lasts]].T


class _Level:
    """One level: count and sums (5 x buckets) and flags (buckets), from bucket 0 on."""

    def __init__(self, width_s: float) -> None:
        self.width_s = width_s
        self._sums = np.zeros((1 + len(_COLUMNS), 64))
        self._flags = np.zeros(64, dtype=np.uint16)

    @staticmethod
    def sum_up(index: Ints, sums: Floats, flags: Flags) -> tuple[Ints, Floats, Flags]:
        """One of each: buckets, from a rising `index`, their sums and their flags."""
        firsts = np.flatnonzero(np.diff(index, prepend=-1))
        return index[firsts], np.add.reduceat(sums, firsts, axis=1), np.bitwise_or.reduceat(flags, firsts)

    def add(self, buckets: Ints, sums: Floats, flags: Flags) -> None:
        """Add to buckets, each named once."""
        self._grow(int(buckets[-1]) + 1)
        self._sums[:, buckets] += sums
        self._flags[buckets] |= flags

    def window(self, first: int, count: int) -> tuple[Floats, Flags]:
        """Buckets [first, first + count), zeros where there are none."""
        sums, flags = np.zeros((len(self._sums), count)), np.zeros(count, dtype=np.uint16)
        low, high = max(first, 0), min(first + count, len(self._flags))
        if low < high:
            sums[:, low - first : high - first] = self._sums[:, low:high]
            flags[low - first : high - first] = self._flags[low:high]
        return sums, flags

    def _grow(self, needed: int) -> None:
        have = len(self._flags)
        if needed > have:
            size = max(needed, 2 * have)
            sums, flags = np.zeros((len(self._sums), size)), np.zeros(size, dtype=np.uint16)
            sums[:, :have], flags[:have] = self._sums, self._flags
            self._sums, self._flags = sums, flags


def _columns(rows: Rows) -> Floats:
    """Ones and the parts, 5 x rows: what the sums are made of."""
    columns = np.empty((1 + len(_COLUMNS), len(rows)))
    columns[0] = 1
    for at, name in enumerate(_COLUMNS, 1):
        columns[at] = rows[name]
    return columns


def _divides(part: float, whole: float) -> bool:
    return part <= whole and abs(whole / part - round(whole / part)) < 1e-9

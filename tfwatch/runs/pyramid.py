"""Sums over the steps in buckets of time, so that any stretch of a run is drawn at the same cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tfwatch.core.rows import Rows

#: The finest bucket, one column of the live screen.
BUCKET_S = 0.25
#: Each level's buckets are this many times as long as those of the level below.
FACTOR = 16
LEVELS = 4
_COLUMNS = ("wait_ms", "dispatch_ms", "compute_ms", "host_ms")

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Columns:
    """Means over the steps that lie in each of n columns of time; NaN where there is none.

    start_s: where each column begins, seconds since the clock origin; steps: how many began in it.
    wait_ms, dispatch_ms, compute_ms, host_ms: mean milliseconds a step. share: data wait over step time, 0 to 1.
    flags: the `core.rows.Flag` bits of all its steps.
    """

    start_s: Floats
    width_s: float
    steps: NDArray[np.int64]
    wait_ms: Floats
    dispatch_ms: Floats
    compute_ms: Floats
    host_ms: Floats
    share: Floats
    flags: NDArray[np.uint16]


class Pyramid:
    """Grows with the rows handed to `add`; answers `columns`."""

    def __init__(self) -> None:
        self._levels = [_Level(BUCKET_S * FACTOR**n) for n in range(LEVELS)]
        self._long: list[tuple[float, float, float, float, float, float]] = []
        self.end_s = 0.0

    def add(self, rows: Rows) -> None:
        """Take rows of `core.rows.STEP` in, in the order of their start."""
        if not len(rows):
            return
        start_s = rows["start_ns"] / 1e9
        total_ms = rows["wait_ms"] + rows["compute_ms"] + rows["host_ms"]
        for level in self._levels:
            level.add(start_s, rows)
        for at in np.flatnonzero(total_ms > BUCKET_S * 1e3):
            parts = [float(rows[name][at]) for name in _COLUMNS]
            self._long.append((float(start_s[at]), float(start_s[at] + total_ms[at] / 1e3), *parts))  # type: ignore[arg-type]
        self.end_s = float(start_s[-1] + total_ms[-1] / 1e3)

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
        with np.errstate(invalid="ignore"):
            means: Floats = np.where(steps > 0, parts / np.maximum(steps, 1), np.nan)
        self._cover(starts, width_s, steps, means)
        with np.errstate(invalid="ignore", divide="ignore"):
            total = means[0] + means[2] + means[3]
            share = np.where(total > 0, means[0] / total, np.nan)
        wait, dispatch, compute, host = means
        return Columns(starts, width_s, steps, wait, dispatch, compute, host, share, flags)

    def _cover(self, starts: Floats, width_s: float, steps: NDArray[np.int64], means: Floats) -> None:
        """Fill the columns in which no step began but a long one lasts."""
        for begin, end, *parts in reversed(self._long):
            if end <= starts[0]:
                break
            inside = (steps == 0) & (starts + width_s > begin) & (starts < end)
            means[:, inside] = np.array(parts)[:, None]


class _Level:
    """One level: count and sums (5 x buckets) and flags (buckets), from bucket 0 on."""

    def __init__(self, width_s: float) -> None:
        self.width_s = width_s
        self._sums = np.zeros((1 + len(_COLUMNS), 64))
        self._flags = np.zeros(64, dtype=np.uint16)

    def add(self, start_s: Floats, rows: Rows) -> None:
        index = (start_s / self.width_s).astype(np.int64)
        self._grow(int(index[-1]) + 1)
        firsts = np.flatnonzero(np.diff(index, prepend=-1))
        buckets = index[firsts]
        self._sums[0, buckets] += np.diff(firsts, append=len(rows))
        for at, name in enumerate(_COLUMNS, 1):
            self._sums[at, buckets] += np.add.reduceat(rows[name].astype(np.float64), firsts)
        self._flags[buckets] |= np.bitwise_or.reduceat(rows["flags"], firsts)

    def window(self, first: int, count: int) -> tuple[Floats, NDArray[np.uint16]]:
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
            self._sums = np.pad(self._sums, ((0, 0), (0, size - have)))
            self._flags = np.pad(self._flags, (0, size - have))


def _divides(part: float, whole: float) -> bool:
    return part <= whole and abs(whole / part - round(whole / part)) < 1e-9

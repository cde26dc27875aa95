"""The GPU lanes of a timeline, on the time axis of the steps above them."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core.events import GpusFound
from tfwatch.judge.machine import find_gpus

if TYPE_CHECKING:
    from tfwatch.core.rows import Rows
    from tfwatch.runs.snapshot import Snapshot
    from tfwatch.screens.basics.glyphs import Glyphs
    from tfwatch.screens.live.timeline.step_bars import Bars, Floats

#: The longest time that one sample covers: samples come twice a second, and a late one covers the
#: gap before it.
_HOLD_S = 2.0
#: The most samples to average: a long view uses every n-th.
_SAMPLES = 4000


def sample_gpu(snapshot: Snapshot, bars: Bars) -> Floats:
    """Return the GPU's use in each of the bars' columns, 0 to 1, of all programs; NaN without
    samples."""
    seen = _thinned(_in_view(snapshot.samples, bars))
    # The GPU's figures are older than their sample by its delay.
    late_s = np.nan_to_num(seen["gpu_late_ms"]).astype(np.float64) / 1e3
    at_s = seen["at_ns"] / 1e9 - late_s
    order = np.argsort(at_s, kind="stable")
    return _columns(seen["gpu_busy"][order], at_s[order], bars, snapshot.now_s)


def sample_gpus(snapshot: Snapshot, bars: Bars) -> dict[str, Floats]:
    """Return the same for each GPU of a strategy over several, by device."""
    gpus = find_gpus(snapshot.events.of(GpusFound))
    seen = _in_view(snapshot.gpus, bars)
    of_each = {
        name: _thinned(seen[seen["gpu"] == n]) for n, name in enumerate(gpus.names if gpus else ())
    }
    return {
        name: _columns(own["busy"], own["at_ns"] / 1e9, bars, snapshot.now_s)
        for name, own in of_each.items()
    }


def _in_view(rows: Rows, bars: Bars) -> Rows:
    """Return the samples of the bars' time; a search in numpy would copy the whole column first."""
    first, end = (
        bisect_left(range(len(rows)), at_s * 1e9, key=lambda at: int(rows["at_ns"][at]))
        for at_s in (bars.starts_s[0] - _HOLD_S, bars.end_s + _HOLD_S)
    )
    between: Rows = rows[first:end]
    return between


def _thinned(rows: Rows) -> Rows:
    thinned: Rows = rows[:: max(1, len(rows) // _SAMPLES)]
    return thinned


def _columns(values: Floats, at_s: Floats, bars: Bars, now_s: float) -> Floats:
    means = sample_columns(at_s, values.astype(np.float64), bars.starts_s, _HOLD_S)
    means[(bars.starts_s < 0) | (bars.starts_s > now_s)] = np.nan
    return means


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
    if not len(at_s):
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


def gauge(shares: Floats, glyphs: Glyphs) -> str:
    """Draw shares, 0 to 1, as a row of levels: 0 is a thin line, and only a missing one is
    blank."""
    known = np.isfinite(shares)
    full = len(glyphs.levels) - 1
    levels = np.rint(np.clip(np.where(known, shares, 0.0), 0.0, 1.0) * full)
    levels = np.where(known, np.maximum(levels, 1), 0).astype(np.int64)
    return "".join(glyphs.levels[level] for level in levels.tolist())

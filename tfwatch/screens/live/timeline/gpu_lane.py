"""The GPU lanes of a timeline, on the time axis of the steps above them."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core import units
from tfwatch.core.events import GpusFound
from tfwatch.judge.machine import extremes, find_gpus
from tfwatch.screens.basics.glyphs import COMPUTE_COLOUR, QUIET_COLOUR
from tfwatch.screens.live.timeline.painting import LIMIT, NUMBER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from tfwatch.core.rows import Rows
    from tfwatch.judge.machine import GpuFigures
    from tfwatch.runs.snapshot import Snapshot
    from tfwatch.screens.basics.glyphs import Glyphs
    from tfwatch.screens.live.timeline.painting import Line
    from tfwatch.screens.live.timeline.step_bars import Bars, Floats

#: The longest time that one sample covers: samples come twice a second, and a late one covers the
#: gap before it.
_HOLD_S = 2.0
#: The most samples to average: a long view uses every n-th.
_SAMPLES = 4000
_GIBI = 2**30


@dataclass(frozen=True, eq=False)
class Sampled:
    """Means over n columns; NaN without samples."""

    #: GPU use, 0 to 1, of all programs; None where no sensor reads a GPU.
    busy: Floats | None
    #: The same of each GPU of a strategy over several, by device.
    gpus: Mapping[str, Floats] = field(default_factory=dict)


def sampled(snapshot: Snapshot, bars: Bars, has_gpu: bool) -> Sampled:
    """Average the samples over the bars' columns.

    has_gpu: a sensor reads a GPU now.
    """
    first_s, end_s = bars.starts_s[0] - _HOLD_S, bars.end_s + _HOLD_S
    seen = _thinned(rows_between(snapshot.samples, first_s, end_s))
    if not has_gpu and not np.isfinite(seen["gpu_busy"]).any():
        return Sampled(None)
    # The GPU's figures are older than their sample by its delay.
    late_s = np.nan_to_num(seen["gpu_late_ms"]).astype(np.float64) / 1e3
    busy = _columns(seen["gpu_busy"], seen["at_ns"] / 1e9 - late_s, bars, snapshot.now_s)
    return Sampled(busy, _sampled_gpus(snapshot, bars))


def _sampled_gpus(snapshot: Snapshot, bars: Bars) -> dict[str, Floats]:
    gpus = find_gpus(snapshot.events.of(GpusFound))
    if gpus is None or len(gpus.names) < 2:
        return {}
    seen = rows_between(snapshot.gpus, bars.starts_s[0] - _HOLD_S, bars.end_s + _HOLD_S)
    of_each = {name: _thinned(seen[seen["gpu"] == n]) for n, name in enumerate(gpus.names)}
    return {
        name: _columns(own["busy"], own["at_ns"] / 1e9, bars, snapshot.now_s)
        for name, own in of_each.items()
    }


def rows_between(rows: Rows, first_s: float, end_s: float) -> Rows:
    """Return the samples of a time; a search in numpy would copy the whole column first."""
    first, end = (
        bisect_left(range(len(rows)), at_s * 1e9, key=lambda at: int(rows["at_ns"][at]))
        for at_s in (first_s, end_s)
    )
    between: Rows = rows[first:end]
    return between


def _thinned(rows: Rows) -> Rows:
    thinned: Rows = rows[:: max(1, len(rows) // _SAMPLES)]
    return thinned


def _columns(values: Floats, at_s: Floats, bars: Bars, now_s: float) -> Floats:
    order = np.argsort(at_s, kind="stable")
    means = sample_columns(at_s[order], values.astype(np.float64)[order], bars.starts_s, _HOLD_S)
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


def gauge(values: Floats, steps: int) -> NDArray[np.int64]:
    """Return shares 0 to 1 as levels 1 to `steps`: 0 is a thin line, and only a missing value is
    level 0."""
    known = np.isfinite(values)
    levels = np.rint(np.clip(np.where(known, values, 0.0), 0.0, 1.0) * steps).astype(np.int64)
    return np.where(known, np.maximum(levels, 1), 0)


def stacked(levels: NDArray[np.int64], rows: int, steps: int) -> NDArray[np.int64]:
    """Split the levels of a gauge into `rows` rows of `steps` levels, the top row first."""
    base = np.arange(rows - 1, -1, -1)[:, None] * steps
    of_rows: NDArray[np.int64] = np.clip(levels[None, :] - base, 0, steps)
    return of_rows


def gpu_lines(busy: Floats, rows: int, glyphs: Glyphs) -> list[Line]:
    """Draw the GPU's use as a gauge of `rows` rows."""
    steps = len(glyphs.levels) - 1
    lines = stacked(gauge(busy, rows * steps), rows, steps).tolist()
    return [(("".join(glyphs.levels[level] for level in line), COMPUTE_COLOUR),) for line in lines]


def gpu_figures_beside(now: GpuFigures | None, rows: int, room: int) -> list[Line]:
    """Return the GPU's use, its power and the training's share; one line per row."""
    if now is None or now.busy is None:
        return [((f" {units.MISSING}", QUIET_COLOUR),), *[()] * (rows - 1)]
    busy = f" {units.percent(now.busy)}"
    power = units.watts(now.power_w) if now.power_w is not None else ""
    ours = f"{now.ours * 100:.0f} ours" if now.ours is not None else ""
    style = LIMIT if now.is_shared else NUMBER
    if rows == 1:
        return [((_fitting([(busy, power, ours), (busy, ours), (busy,)], room, ", "), style),)]
    more = _fitting([(power, ours), (power,)], room - 1, ", ")
    return [((busy, style),), ((f" {more}", style),), *[()] * (rows - 2)]


def _fitting(choices: Sequence[Sequence[str]], room: int, joint: str) -> str:
    """Return the first choice that fits, its parts joined, else the last."""
    texts = [joint.join(filter(None, parts)) for parts in choices]
    return next((text for text in texts if len(text) <= room), texts[-1])


def shown_gpus(lanes: Sequence[GpuFigures], rows: int) -> tuple[GpuFigures, ...]:
    """Return the GPUs that have a row: all where there is room, else the busiest and the idlest, or
    only the idlest."""
    busiest = extremes(lanes)
    if len(lanes) <= rows or busiest is None:
        return tuple(lanes[:rows])
    return busiest if rows > 1 else busiest[1:]


def gpu_lane_figures(lane: GpuFigures, lanes: Sequence[GpuFigures], room: int) -> Line:
    """Return ` 93 %  41 GB busiest`: a GPU's use and memory, and whether it is an extreme."""
    named = zip(("busiest", "idlest"), extremes(lanes) or (), strict=False)
    word = next((word for word, one in named if one is lane), "")
    busy = f" {units.MISSING if lane.busy is None else units.percent(lane.busy):>5}"
    memory = "" if lane.memory_bytes is None else f"{lane.memory_bytes / _GIBI:.0f} GB"
    return ((_fitting([(busy, memory, word), (busy, word), (busy,)], room, " "), NUMBER),)

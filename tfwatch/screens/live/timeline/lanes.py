"""The GPU lanes of a timeline, on the time axis of the steps above them."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core import units
from tfwatch.core.events import GpusFound
from tfwatch.judge.findings.gpus import (
    COUNTERS_DIFFER,
    extremes,
    find_gpus,
    others_share,
)
from tfwatch.judge.findings.machine_remark import OTHERS_FROM
from tfwatch.screens.live.timeline import step_bars

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from tfwatch.core.rows import Rows
    from tfwatch.judge.findings.gpus import GpuLane
    from tfwatch.judge.findings.machine import GpuFigures
    from tfwatch.runs.snapshot import Snapshot
    from tfwatch.screens.basics.glyphs import Glyphs
    from tfwatch.screens.live.timeline.rows import Line, Piece
    from tfwatch.screens.live.timeline.step_bars import Bars, Floats

#: The longest time that one sample covers: samples come twice a second, and a late one covers the
#: gap before it.
_HOLD_S = 2.0
#: The columns that are compared at a time to see other programs on the GPU.
_BLOCK = 8
#: The most samples to average: a long view uses every n-th.
_SAMPLES = 4000


@dataclass(frozen=True, eq=False)
class Sampled:
    """Means over n columns; NaN without samples."""

    #: GPU use, 0 to 1, of all programs; None where no sensor reads a GPU.
    busy: Floats | None
    #: GPU use of the training.
    ours: Floats
    #: Both of each GPU of a strategy over several, by device.
    gpus: Mapping[str, tuple[Floats, Floats]] = field(default_factory=dict)


def sampled(snapshot: Snapshot, bars: Bars, has_gpu: bool) -> Sampled:
    """Average the samples over the bars' columns.

    has_gpu: a sensor reads a GPU now.
    """
    samples = snapshot.samples
    first, last = (bars.starts_s[0] - _HOLD_S) * 1e9, (bars.end_s + _HOLD_S) * 1e9
    low, high = count_before(samples, first), count_before(samples, last)
    seen = samples[low : high : max(1, (high - low) // _SAMPLES)]
    at_s = seen["at_ns"] / 1e9
    if not has_gpu and not np.isfinite(seen["gpu_busy"]).any():
        return Sampled(None, np.full(len(bars.starts_s), np.nan))
    # The GPU's figures are older than their sample by its delay.
    gpu_s = at_s - np.nan_to_num(seen["gpu_late_ms"]).astype(np.float64) / 1e3
    busy, ours = (
        _columns(seen, name, gpu_s, bars, snapshot.now_s)
        for name in ("gpu_busy", "gpu_process_busy")
    )
    lanes = _sampled_gpus(snapshot, bars)
    return Sampled(busy if has_gpu or np.isfinite(busy).any() else None, ours, lanes)


def _sampled_gpus(snapshot: Snapshot, bars: Bars) -> dict[str, tuple[Floats, Floats]]:
    gpus = find_gpus(snapshot.events.of(GpusFound))
    if gpus is None or len(gpus.names) < 2:
        return {}
    rows, count = snapshot.gpus, len(gpus.names)
    first, last = (bars.starts_s[0] - _HOLD_S) * 1e9, (bars.end_s + _HOLD_S) * 1e9
    seen = rows[count_before(rows, first) : count_before(rows, last)]
    every = max(1, len(seen) // count // _SAMPLES)
    lanes = {}
    for index, device in enumerate(gpus.names):
        own = seen[seen["gpu"] == index][::every]
        at_s = own["at_ns"] / 1e9
        busy, ours = (
            _columns(own, name, at_s, bars, snapshot.now_s) for name in ("busy", "process_busy")
        )
        lanes[device] = busy, ours
    return lanes


def count_before(samples: Rows, at_ns: float) -> int:
    """Count the samples before a moment; a search in numpy would copy the whole column first."""
    return bisect_left(range(len(samples)), at_ns, key=lambda at: int(samples["at_ns"][at]))


def _columns(seen: Rows, name: str, at_s: Floats, bars: Bars, now_s: float) -> Floats:
    order = np.argsort(at_s, kind="stable")
    means = step_bars.sample_columns(
        at_s[order], seen[name].astype(np.float64)[order], bars.starts_s, _HOLD_S
    )
    means[(bars.starts_s < 0) | (bars.starts_s > now_s)] = np.nan
    return means


# -- the GPU ---------------------------------------------------------------------------------------


def gpu_lines(busy: Floats, ours: Floats, rows: int, glyphs: Glyphs) -> list[Line]:
    """Draw the GPU's use as a gauge of `rows` rows, the training's share below the other programs'
    share."""
    steps = len(glyphs.levels) - 1
    total = step_bars.gauge(busy, rows * steps)
    # Where no other program is seen, or the training's share is unknown, the total is drawn as the
    # training's.
    own = np.where(
        _has_others(busy, ours), np.minimum(step_bars.gauge(ours, rows * steps), total), total
    )
    pairs = zip(
        step_bars.stacked(total, rows, steps).tolist(),
        step_bars.stacked(own, rows, steps).tolist(),
        strict=True,
    )
    return [
        _joined(_gpu_cell(*levels, glyphs) for levels in zip(*pair, strict=True)) for pair in pairs
    ]


def _has_others(busy: Floats, ours: Floats) -> NDArray[np.bool_]:
    """Return the columns in which other programs are seen; a single column says too little about
    bursts."""
    seen = busy - ours > COUNTERS_DIFFER
    for begin in range(0, len(seen), _BLOCK):
        block = slice(begin, begin + _BLOCK)
        seen[block] &= others_share(busy[block], ours[block]) is not None
    return seen


def _gpu_cell(total: int, own: int, glyphs: Glyphs) -> Piece:
    """Draw one cell; of three parts (training, others, nothing) drop the smaller of the first
    two."""
    full = len(glyphs.levels) - 1
    if glyphs.fine and total == full and 0 < own < full:
        return glyphs.levels[own], "gpu.others"
    if 2 * own >= total:
        return glyphs.levels[total], "gpu"
    return glyphs.levels[total] if glyphs.fine or 2 * total < full else glyphs.others, "others"


def _joined(row: Iterable[Piece]) -> Line:
    return tuple(
        ("".join([char for char, _ in run]), role) for role, run in groupby(row, key=itemgetter(1))
    )


def gpu_figures_beside(
    now: GpuFigures | None, was: float | None, rows: int, room: int
) -> list[Line]:
    """Return the GPU's use, before the last switch too, its power and the training's share; one
    line per row."""
    if now is None or now.busy is None:
        return [((f" {units.MISSING}", "quiet"),), *[()] * (rows - 1)]
    busy = f" {units.percent(now.busy)}"
    before = f"  (was {was * 100:.0f})" if was is not None else ""
    power = units.watts(now.power_w) if now.power_w is not None else ""
    ours = f"{now.ours * 100:.0f} ours" if now.ours is not None else ""
    others = now.others is not None and now.others > OTHERS_FROM
    role = "middling" if others else "number"
    if rows == 1:
        texts = [
            ", ".join(part for part in parts if part)
            for parts in ((busy, power, ours), (busy, ours), (busy,))
        ]
        return [((next((text for text in texts if len(text) <= room), busy), role),)]
    if len(busy + before) > room:
        before = before[1:]
    more = [joint.join(part for part in (power, ours) if part) for joint in (", ", " ")]
    fitting = next((text for text in more if len(text) < room), power)
    return [((busy, role), (before, "quiet")), ((f" {fitting}", role),), *[()] * (rows - 2)]


# -- the GPUs of a strategy ------------------------------------------------------------------------

_GIBI = 2**30


def shown_gpus(lanes: Sequence[GpuLane], rows: int) -> tuple[GpuLane, ...]:
    """Return the GPUs that have a row: all where there is room, else the busiest and the idlest, or
    only the idlest."""
    busiest = extremes(lanes)
    if len(lanes) <= rows or busiest is None:
        return tuple(lanes[:rows])
    return busiest if rows > 1 else busiest[1:]


def gpu_lane_figures(lane: GpuLane, lanes: Sequence[GpuLane], room: int) -> Line:
    """Return ` 93 %  41 GB busiest`: a GPU's use and memory, and whether it is an extreme."""
    named = zip(("busiest", "idlest"), extremes(lanes) or (), strict=False)
    word = next((word for word, one in named if one is lane), "")
    busy = f" {units.MISSING if lane.busy is None else units.percent(lane.busy):>5}"
    memory = "" if lane.memory_bytes is None else f"{lane.memory_bytes / _GIBI:.0f} GB"
    texts = [
        " ".join(filter(None, parts)) for parts in ((busy, memory, word), (busy, word), (busy,))
    ]
    return ((next((text for text in texts if len(text) <= room), busy), "number"),)

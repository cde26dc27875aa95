"""The lanes of a timeline that samples fill: the GPU and the CPU, on the time axis of the steps above them."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.analysis.findings.machine_remark import OTHERS_FROM
from tfwatch.core import units
from tfwatch.widgets.timeline import step_bars

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tfwatch.analysis.findings.machine import GpuFigures
    from tfwatch.core.rows import Rows
    from tfwatch.runs.reader import Snapshot
    from tfwatch.widgets.basics.glyphs import Glyphs
    from tfwatch.widgets.timeline.rows import Figures, Line, Piece
    from tfwatch.widgets.timeline.step_bars import Bars, Floats

#: Samples come twice a second: one that comes late is still of the time since the one before it, up to so long.
_HOLD_S = 2.0
#: More samples than these are thinned out: an hour and more in few columns.
_SAMPLES = 4000


@dataclass(frozen=True, eq=False)
class Sampled:
    """Means over n columns; NaN where nothing was read.

    cores: in use. busy, ours: of the GPU, 0 to 1, of all programs and of the one that trains; `busy` is None where
    no sensor reads a GPU and none did in these columns.
    """

    cores: Floats
    busy: Floats | None
    ours: Floats


def sampled(snapshot: Snapshot, bars: Bars, has_gpu: bool) -> Sampled:
    """What the samples say of the bars' columns; samples outside the view are not looked at.

    has_gpu: a sensor reads one now.
    """
    samples = snapshot.samples
    first, last = (bars.starts_s[0] - _HOLD_S) * 1e9, (bars.end_s + _HOLD_S) * 1e9
    low, high = before(samples, first), before(samples, last)
    seen = samples[low : high : max(1, (high - low) // _SAMPLES)]
    at_s = seen["at_ns"] / 1e9
    cores = _columns(seen, "cpu_cores", at_s, bars, snapshot.now_s)
    if not has_gpu and not np.isfinite(seen["gpu_busy"]).any():
        return Sampled(cores, None, np.full(len(cores), np.nan))
    # The GPU's figures are older than their row by so much.
    gpu_s = at_s - np.nan_to_num(seen["gpu_late_ms"]).astype(np.float64) / 1e3
    busy, ours = (_columns(seen, name, gpu_s, bars, snapshot.now_s) for name in ("gpu_busy", "gpu_process_busy"))
    return Sampled(cores, busy if has_gpu or np.isfinite(busy).any() else None, ours)


def before(samples: Rows, at_ns: float) -> int:
    """How many samples came before a moment: a search in numpy would copy the whole column first."""
    return bisect_left(range(len(samples)), at_ns, key=lambda at: int(samples["at_ns"][at]))


def _columns(seen: Rows, name: str, at_s: Floats, bars: Bars, now_s: float) -> Floats:
    order = np.argsort(at_s, kind="stable")
    means = step_bars.sample_columns(at_s[order], seen[name].astype(np.float64)[order], bars.starts_s, _HOLD_S)
    means[(bars.starts_s < 0) | (bars.starts_s > now_s)] = np.nan
    return means


# -- the GPU ----------------------------------------------------------------------------------------


def gpu_lines(busy: Floats, ours: Floats, rows: int, glyphs: Glyphs) -> list[Line]:
    """How busy the GPU was, a gauge of `rows` rows: what the training uses below what other programs use."""
    steps = len(glyphs.levels) - 1
    total = step_bars.gauge(busy, rows * steps)
    # Where the training's share is not known the whole is drawn as one.
    own = np.where(np.isfinite(ours), np.minimum(step_bars.gauge(ours, rows * steps), total), total)
    pairs = zip(
        step_bars.stacked(total, rows, steps).tolist(), step_bars.stacked(own, rows, steps).tolist(), strict=True
    )
    return [_joined(_gpu_cell(*levels, glyphs) for levels in zip(*pair, strict=True)) for pair in pairs]


def _gpu_cell(total: int, own: int, glyphs: Glyphs) -> Piece:
    """One cell; of three parts (ours, others', nothing) the smaller of the first two goes."""
    full = len(glyphs.levels) - 1
    if glyphs.fine and total == full and 0 < own < full:
        return glyphs.levels[own], "gpu.others"
    if 2 * own >= total:
        return glyphs.levels[total], "gpu"
    return glyphs.levels[total] if glyphs.fine or 2 * total < full else glyphs.others, "others"


def _joined(row: Iterable[Piece]) -> Line:
    return tuple(("".join([char for char, _ in run]), role) for role, run in groupby(row, key=itemgetter(1)))


def gpu_figures_beside(now: GpuFigures | None, was: float | None, rows: int, room: int) -> list[Line]:
    """How busy it is and was before the last switch; its watts and whose work it does. One line a row of the lane."""
    if now is None or now.busy is None:
        return [((f" {units.MISSING}", "quiet"),), *[()] * (rows - 1)]
    busy = f" {units.percent(now.busy)}"
    before = f"  (was {was * 100:.0f})" if was is not None else ""
    power = units.watts(now.power_w) if now.power_w is not None else ""
    ours = f"{now.ours * 100:.0f} ours" if now.ours is not None else ""
    others = now.others is not None and now.others > OTHERS_FROM
    role = "middling" if others else "number"
    if rows == 1:
        texts = [", ".join(part for part in parts if part) for parts in ((busy, power, ours), (busy, ours), (busy,))]
        return [((next((text for text in texts if len(text) <= room), busy), role),)]
    more = ", ".join(part for part in (power, ours) if part)
    return [((busy, role), (before, "quiet")), ((f" {more}", role),), *[()] * (rows - 2)]


# -- the CPU ----------------------------------------------------------------------------------------


def cpu_line(cores: Floats, all_cores: int, glyphs: Glyphs) -> Line:
    """Cores in use, of all of them, a gauge a column."""
    levels = step_bars.gauge(cores / max(all_cores, 1), len(glyphs.levels) - 1)
    return (("".join(glyphs.levels[level] for level in levels.tolist()), "cpu"),)


def cpu_figure(figures: Figures, wide: bool) -> Line:
    """How many cores are in use, and whether they are the device that trains."""
    if figures.cores is None:
        return ((f" {units.MISSING}", "quiet"),)
    used = f" {figures.cores:.1f} of {figures.all_cores}"
    if wide:
        used += " cores" if figures.accelerated else " (device)"
    return ((used, "number"),)

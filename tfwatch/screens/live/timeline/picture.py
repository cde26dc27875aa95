"""The picture of a timeline: its place on the time axis, the strip of steps, the rows below it, and
the figures beside them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core import units
from tfwatch.core.rows import Phase
from tfwatch.runs.liveness import Life
from tfwatch.runs.sums import BUCKET_S
from tfwatch.screens.basics.text import (
    COMPUTE_COLOUR,
    HOST_COLOUR,
    MUTED_COLOUR,
    QUIET_COLOUR,
    STALL_COLOUR,
    WAIT_COLOUR,
    clock,
)
from tfwatch.screens.live.timeline import step_bars
from tfwatch.screens.live.timeline.lanes import (
    NUMBER,
    axis_line,
    gauge,
    gpu_lanes,
    joined,
    mark_line,
)
from tfwatch.screens.live.timeline.step_bars import BarPart, Bars, Cells

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.judge.steps.steady_steps import Breakdown
    from tfwatch.judge.view import RunView
    from tfwatch.runs.snapshot import Snapshot
    from tfwatch.screens.live.timeline.lanes import Label, Line, Piece

# -- the place on the time axis --------------------------------------------------------------------


class Zoom(IntEnum):
    """The zoom level: the part of the run in view."""

    SECONDS = 0
    MINUTES = 1
    HOUR = 2
    ALL = 3


#: The least seconds that a zoom level shows.
_SPAN_S = {Zoom.SECONDS: 18.0, Zoom.MINUTES: 300.0, Zoom.HOUR: 3600.0}
_OPEN_PARTS = {
    Phase.WAIT: BarPart.WAIT,
    Phase.COMPUTE: BarPart.COMPUTE,
    Phase.HOST: BarPart.HOST,
    Phase.COMPILE: BarPart.MUTED,
}


@dataclass(frozen=True, slots=True)
class View:
    """A place on the time axis."""

    zoom: Zoom = Zoom.SECONDS
    #: The moment of the newest column; None follows the run.
    end_s: float | None = None


def bars_in_view(snapshot: Snapshot, view: View, columns: int) -> Bars:
    """Return the `columns` bars of a view."""
    width, end_s = width_s(snapshot, view, columns), _end_s(snapshot, view, columns)
    bars = step_bars.bars_of_time(snapshot.time_sums.columns(end_s, width, columns))
    return _with_open_step(snapshot, bars)


def _with_open_step(snapshot: Snapshot, bars: Bars) -> Bars:
    """Add the unfinished step; of a process that does not respond, until its last sign of life."""
    pulse, life = snapshot.pulse, snapshot.life
    if pulse is None or life not in (Life.RUNNING, Life.NOT_RESPONDING):
        return bars
    part = _OPEN_PARTS.get(pulse.phase)
    until_s = snapshot.now_s if life is Life.RUNNING else pulse.now_ns / 1e9
    return (
        bars
        if part is None
        else step_bars.with_open_step(bars, pulse.since_ns / 1e9, until_s, part)
    )


def width_s(snapshot: Snapshot, view: View, columns: int) -> float:
    """Return the width of a column in seconds.

    A run that is over fills all columns; another would shift in each frame.
    """
    if view.zoom is Zoom.ALL and snapshot.life.is_over:
        return max(snapshot.now_s / columns, BUCKET_S)
    return step_bars.column_width(_SPAN_S.get(view.zoom, snapshot.now_s + BUCKET_S), columns)


def _end_s(snapshot: Snapshot, view: View, columns: int) -> float:
    if view.zoom is Zoom.ALL:
        return (columns - 0.5) * width_s(snapshot, view, columns)
    return snapshot.now_s if view.end_s is None else view.end_s


def frozen(snapshot: Snapshot, view: View) -> View:
    """Return the view with a fixed end."""
    return view if view.end_s is not None else replace(view, end_s=snapshot.now_s)


def moved(snapshot: Snapshot, view: View, columns: int, by: int) -> View:
    """Move the view by `by` halves of its width, to the past where negative."""
    shift_s = by * columns / 2 * width_s(snapshot, view, columns)
    end_s = _end_s(snapshot, view, columns) + shift_s
    return replace(view, end_s=_clamped(snapshot, view, columns, end_s))


def _clamped(snapshot: Snapshot, view: View, columns: int, end_s: float) -> float:
    """Return the nearest end that keeps the window within the run."""
    first_end_s = (columns - 0.5) * width_s(snapshot, view, columns)
    return min(max(end_s, first_end_s), snapshot.now_s)


def around(snapshot: Snapshot, view: View, columns: int, at_s: float) -> View:
    """Return a view with a moment in the middle."""
    end_s = at_s + columns // 2 * width_s(snapshot, view, columns)
    return View(view.zoom, _clamped(snapshot, view, columns, end_s))


def zoomed(snapshot: Snapshot, view: View, columns: int) -> View:
    """Return the view at the next zoom, without spans longer than the run; its middle stays."""
    longest_s = max(snapshot.now_s, _SPAN_S[Zoom.SECONDS] + 1)
    levels = [zoom for zoom in Zoom if _SPAN_S.get(zoom, 0.0) < longest_s]
    zoom = next((level for level in levels if level > view.zoom), Zoom.SECONDS)
    if view.end_s is None:
        return replace(view, zoom=zoom)
    at_s = view.end_s - columns // 2 * width_s(snapshot, view, columns)
    return around(snapshot, replace(view, zoom=zoom), columns, at_s)


def span_words(snapshot: Snapshot, view: View, columns: int) -> str:
    """Return `last 23 s`, or `the whole run, 11:40`: the time that the view shows."""
    if view.zoom is Zoom.ALL:
        return f"the whole run, {units.seconds(snapshot.now_s)}"
    shown_s = round(width_s(snapshot, view, columns) * columns)
    return f"last {shown_s} s" if shown_s < 120 else f"last {round(shown_s / 60)} min"


# -- the layout ------------------------------------------------------------------------------------

GUTTER = 7
WIDE, _NARROW = 20, 14
#: The smallest width with a wide legend.
_WIDE_FROM = 90
#: The smallest height with a row for the GPU, for two of several, and for the time axis.
_GPU_FROM, _TWO_GPUS_FROM, _AXIS_FROM = 6, 7, 11
_COLOURS = {
    BarPart.COMPUTE: COMPUTE_COLOUR,
    BarPart.MUTED: MUTED_COLOUR,
    BarPart.HOST: HOST_COLOUR,
    BarPart.WAIT: WAIT_COLOUR,
    BarPart.STALL: STALL_COLOUR,
}


#: The parts without colours: compute, muted, host, wait, stall, nothing.
_TEXTURES = "█▞░▒▒ "


@dataclass(frozen=True, eq=False)
class Scene:
    """The data of one picture."""

    run: RunView
    view: View
    bars: Bars
    labels: Sequence[Label]
    top_ms: float | None
    #: A cell may show two parts, split at an eighth; else parts differ by texture.
    is_fine: bool


@dataclass(frozen=True, slots=True)
class TimelineLayout:
    """Columns and rows of a timeline of a given size; without GPUs it has no row for them."""

    columns: int
    legend: int
    strip_rows: int
    has_axis: bool
    gpu_rows: int


def lay_out(width: int, height: int, gpus: int = 0) -> TimelineLayout:
    """Return the layout for `width` x `height` cells and a number of GPUs."""
    legend = WIDE if width >= _WIDE_FROM else _NARROW
    has_axis = height >= _AXIS_FROM
    gpu_rows = min(gpus, 1 + (height >= _TWO_GPUS_FROM)) if height >= _GPU_FROM else 0
    rows = max(height - 1 - has_axis - gpu_rows, 1)
    return TimelineLayout(max(width - GUTTER - legend, 1), legend, rows, has_axis, gpu_rows)


def draw(scene: Scene, width: int, height: int) -> list[Line]:
    """Draw all rows, from the top: the strip, why, the GPU, the time axis."""
    snapshot, bars = scene.run.snapshot, scene.bars
    lanes = gpu_lanes(snapshot, scene.run.situation.machine, bars, width >= _WIDE_FROM)
    layout = lay_out(width, height, len(lanes))
    rows, is_fine = layout.strip_rows, scene.is_fine
    cells = step_bars.stack(bars, scene.top_ms, rows, is_fine)
    charts = strip_lines(cells, is_fine)
    parts = scene.run.situation.split
    is_stale = snapshot.life.is_stale or scene.run.situation.is_stalled
    sees_wait = snapshot.manifest.sees_data_wait
    is_wide = layout.legend >= WIDE
    legend = legend_lines(parts, is_fine, rows, is_wide, is_stale, sees_wait=sees_wait)
    axis = axis_texts(scene.top_ms, rows)
    lines = [_beside(*parts) for parts in zip(axis, charts, legend, strict=True)]
    lines.append(_beside("why", mark_line(scene.labels, layout.columns), ()))
    for name, shares, figures, style in lanes[: layout.gpu_rows]:
        chart = ((gauge(shares), COMPUTE_COLOUR),)
        lines.append(_beside(name, chart, ((f" {figures}", style),)))
    if layout.has_axis:
        lines.append(_beside("", axis_line(bars, snapshot), ()))
    return lines[:height]


def _beside(label: str, chart: Line, right: Line) -> Line:
    gutter = f"{label:>{GUTTER - 1}} " if label[:1].isdigit() else f"{label:<{GUTTER}}"
    return ((gutter, QUIET_COLOUR), *chart, *right)


# -- the strip -------------------------------------------------------------------------------------


def strip_lines(cells: Cells, is_fine: bool) -> list[Line]:
    """Draw the stacked bars."""
    size = len(BarPart)
    if is_fine:  # one index per cell: three would need a tuple and its hash for each
        pairs = cells.lower.astype(np.int64) * size + cells.upper
        at, looks = pairs * step_bars.EIGHTHS + cells.height - 1, _CELLS
    else:
        looks = [(_TEXTURES[part], _COLOURS.get(part, "")) for part in BarPart]
        at = cells.lower.astype(np.int64)
    return [joined([looks[index] for index in indices]) for indices in at.tolist()]


def _fine(lower: BarPart, upper: BarPart, height: int) -> Piece:
    if lower == BarPart.NOTHING:
        return " ", ""
    if height == step_bars.EIGHTHS or lower == upper:
        return "█", _COLOURS[lower]
    behind = f" on {_COLOURS[upper]}" if upper != BarPart.NOTHING else ""
    return " ▁▂▃▄▅▆▇"[height], _COLOURS[lower] + behind


#: Every cell of two parts, by both and the height of the lower one.
_CELLS: list[Piece] = [
    _fine(a, b, h) for a in BarPart for b in BarPart for h in range(1, step_bars.EIGHTHS + 1)
]


def axis_texts(top_ms: float | None, rows: int) -> list[str]:
    """Return the text left of each row of the strip: the top with its unit, the middle, 0."""
    texts = [""] * rows
    if top_ms is None:
        return texts
    in_seconds = top_ms >= 1000
    top = top_ms / 1e3 if in_seconds else top_ms
    texts[-1] = "0"
    if rows >= 5 and rows % 2:
        texts[rows // 2] = f"{top / 2:g}"
    texts[0] = f"{top:g} {'s' if in_seconds else 'ms'}"
    return texts


def legend_lines(
    parts: Breakdown | None,
    is_fine: bool,
    rows: int,
    is_wide: bool,
    is_stale: bool,
    *,
    sees_wait: bool,
) -> list[Line]:
    """Return the legend with the means of the newest steady steps, in `rows` lines; the step is
    the last to be dropped.

    is_stale: the figures are not current. sees_wait: the data wait is measured.
    """
    wait, host, compute, step = (
        (parts.wait.mean, parts.host.mean, parts.compute.mean, parts.step.mean)
        if parts
        else (None,) * 4
    )
    solid = "█" if is_fine else ""
    copy = parts.copy.mean if parts and parts.copy else None
    entries = [
        (" ", "", "step", step),
        (solid or _TEXTURES[BarPart.WAIT], WAIT_COLOUR, "wait", wait if sees_wait else None),
        *([("█", COMPUTE_COLOUR, "copy", copy)] * (copy is not None)),
        ("█", COMPUTE_COLOUR, "compute", compute),
        (solid or _TEXTURES[BarPart.HOST], HOST_COLOUR, "host", host),
    ]
    figures, cells = QUIET_COLOUR if is_stale else NUMBER, 9 if is_wide else 5
    lines: list[Line] = [
        (
            (" ", ""),
            (glyph, style),
            (f" {name if is_wide else name[:4]:<{cells}}", QUIET_COLOUR),
            (_figure(value), figures),
        )
        for glyph, style, name, value in entries
    ]
    if rows > len(lines):
        lines.insert(0, (("   mean ms", QUIET_COLOUR),))
    return [*lines, *[()] * rows][:rows]


def _figure(value: float | None) -> str:
    if value is None:
        return f"{units.MISSING:>6}"
    return f"{value:6.1f}" if value < 10_000 else f"{value / 1e3:5.1f}s"


# -- the frame's titles ----------------------------------------------------------------------------


def title_words(scene: Scene, live: RunView | None, columns: int) -> tuple[str, str]:
    """Return the texts at both ends of the frame. live: the newest view where the picture is
    frozen, else None."""
    run = scene.run.snapshot
    left = span_words(run, scene.view, columns)
    if live:
        at = clock(run, min(run.now_s, scene.bars.end_s))
        left = f"FROZEN at {at}, space: {'end' if live.is_over else 'live'}"
    return left, "z zoom  ← → look back"

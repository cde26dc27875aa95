"""The picture of a timeline: the strip of steps, the rows below it, and the figures beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core import units
from tfwatch.screens.live.timeline import step_bars
from tfwatch.screens.live.timeline.lanes import (
    NUMBER,
    axis_line,
    gauge,
    gpu_lanes,
    joined,
    mark_line,
)
from tfwatch.screens.live.timeline.step_bars import BarPart, Cells
from tfwatch.screens.text import (
    COMPUTE_COLOUR,
    HOST_COLOUR,
    MUTED_COLOUR,
    QUIET_COLOUR,
    STALL_COLOUR,
    WAIT_COLOUR,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.geometry import Size

    from tfwatch.judge.steps.steady_steps import Breakdown
    from tfwatch.judge.view import RunView
    from tfwatch.runs.sums import TimeColumns
    from tfwatch.screens.live.timeline.lanes import Label, Line, Piece

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


def draw(
    run: RunView,
    bars: TimeColumns,
    labels: Sequence[Label],
    top_ms: float | None,
    size: Size,
    *,
    is_fine: bool,
) -> list[Line]:
    """Draw all rows, from the top: the strip, why, the GPU, the time axis.

    top_ms: of the axis. is_fine: a cell may show two parts, split at an eighth; else parts differ
    by texture.
    """
    snapshot, (width, height) = run.snapshot, size
    lanes = gpu_lanes(snapshot, run.situation.machine, bars, width >= _WIDE_FROM)
    layout = lay_out(width, height, len(lanes))
    rows = layout.strip_rows
    charts = strip_lines(step_bars.stack(bars, top_ms, rows, is_fine), is_fine)
    parts = run.situation.split
    is_stale = snapshot.life.is_stale or run.situation.is_stalled
    sees_wait = snapshot.manifest.sees_data_wait
    is_wide = layout.legend >= WIDE
    single = run.situation.regime.single_steps
    # Beside stalls the usual step: one callback of 1.5 s in the last 2 s made a step of 36.8 ms.
    typical = "median" if run.finding.kind == "stall" else "mean"
    heading = f"{single}: 1 step" if single and not parts else f"{typical:>7} ms"
    legend = legend_lines(
        parts, is_fine, rows, is_wide, is_stale, heading, sees_wait=sees_wait, typical=typical
    )
    axis = axis_texts(top_ms, rows)
    lines = [_beside(*parts) for parts in zip(axis, charts, legend, strict=True)]
    lines.append(_beside("why", mark_line(labels, layout.columns), ()))
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
    heading: str,
    *,
    sees_wait: bool,
    typical: str,
) -> list[Line]:
    """Return the legend of the newest steady steps, in `rows` lines; the step is the last to be
    dropped.

    is_stale: the figures are not current. heading: theirs, or why there are none. sees_wait: the
    data wait is measured. typical: the `mean` or the `median` of each part.
    """
    wait, host, compute, step, copy = (
        getattr(getattr(parts, name, None), typical, None)
        for name in ("wait", "host", "compute", "step", "copy")
    )
    solid = "█" if is_fine else ""
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
        lines.insert(0, ((heading, QUIET_COLOUR),))
    return [*lines, *[()] * rows][:rows]


def _figure(value: float | None) -> str:
    if value is None:
        return f"{units.MISSING:>6}"
    return f"{value:6.1f}" if value < 10_000 else f"{value / 1e3:5.1f}s"

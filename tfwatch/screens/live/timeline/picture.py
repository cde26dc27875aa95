"""The picture of a timeline: the strip of steps, the marks, the GPU, the time axis, and the figures
beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core import units
from tfwatch.core.events import PipelineSwitched, without_experiments
from tfwatch.core.rows import Phase
from tfwatch.runs.liveness import Life
from tfwatch.screens.basics.glyphs import (
    COMPUTE_COLOUR,
    HOST_COLOUR,
    MUTED_COLOUR,
    QUIET_COLOUR,
    STALL_COLOUR,
    WAIT_COLOUR,
)
from tfwatch.screens.basics.text import clock, single_width
from tfwatch.screens.live.timeline import gpu_lane, step_bars
from tfwatch.screens.live.timeline.legend import legend_lines
from tfwatch.screens.live.timeline.marks import (
    Kind,
    Label,
    clip_labels,
    marks_in_view,
    overlong,
    place,
)
from tfwatch.screens.live.timeline.painting import ALARM, LIMIT, NUMBER, SWITCH, joined
from tfwatch.screens.live.timeline.step_bars import BarPart, Cells
from tfwatch.screens.live.timeline.window import (
    Zoom,
    column_of,
    looks_back,
    span_words,
    tick_texts,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tfwatch.core.events import Paused
    from tfwatch.judge.machine import GpuFigures
    from tfwatch.runs.snapshot import Snapshot
    from tfwatch.screens.basics.glyphs import Glyphs
    from tfwatch.screens.live.timeline.gpu_lane import Sampled
    from tfwatch.screens.live.timeline.legend import Figures
    from tfwatch.screens.live.timeline.painting import Line, Piece
    from tfwatch.screens.live.timeline.step_bars import Bars
    from tfwatch.screens.live.timeline.window import View

GUTTER = 7
WIDE, _NARROW = 20, 14
#: The smallest width with a wide legend.
_WIDE_FROM = 90
#: The smallest height with two rows for the GPU.
_TWO_ROWS_FROM = 11
#: The smallest height with two of several GPUs; with all of them this much beside their rows: the
#: strip has six.
_TWO_GPUS_FROM, _ALL_FROM = 7, 9
#: The heading of figures from before an overlong step.
BEFORE = "before"
_WORDS = {
    Phase.STARTING: "starting",
    Phase.COMPILE: "compiling the first step",
    Phase.WAIT: "waiting for the first batch",
    Phase.COMPUTE: "running the first step",
}
_COLOURS = {
    BarPart.COMPUTE: COMPUTE_COLOUR,
    BarPart.MUTED: MUTED_COLOUR,
    BarPart.HOST: HOST_COLOUR,
    BarPart.WAIT: WAIT_COLOUR,
    BarPart.STALL: STALL_COLOUR,
}
_MARK_STYLES = {
    Kind.SWITCH: SWITCH,
    Kind.LIMIT: LIMIT,
    Kind.STALL: ALARM,
    Kind.FAILED: ALARM,
    Kind.OPEN: ALARM,
}


@dataclass(frozen=True, slots=True)
class TimelineLayout:
    """Columns and rows of a timeline of a given size. gpu_rows: rows of the GPU lane; 0 without
    one."""

    columns: int
    legend: int
    strip_rows: int
    has_axis: bool
    gpu_rows: int = 0


def lay_out(width: int, height: int, compact: bool, gpus: int = 0) -> TimelineLayout:
    """Return the layout for `width` x `height` cells; the strip keeps at least three rows while it
    can.

    gpus: their number; a row for each of several where there is room.
    """
    legend = WIDE if width >= _WIDE_FROM else _NARROW
    has_axis = not compact and height >= 8
    gpu_rows = 0 if not gpus or height < 6 else _gpu_rows(height, compact, gpus)
    rows = height - 1 - has_axis - gpu_rows
    return TimelineLayout(max(width - GUTTER - legend, 1), legend, max(rows, 1), has_axis, gpu_rows)


def _gpu_rows(height: int, compact: bool, gpus: int) -> int:
    """Return the rows of the GPU lane: two for one GPU; for several all of them, or two."""
    if gpus == 1:
        return 1 if compact or height < _TWO_ROWS_FROM else 2
    if height >= _ALL_FROM + gpus and not compact:
        return gpus
    return 1 if height < _TWO_GPUS_FROM else 2


# -- the rows --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Scene:
    """The data of one picture. `limits`: the run's stretches of heat and swapping."""

    snapshot: Snapshot
    view: View
    bars: Bars
    sampled: Sampled
    limits: Sequence[Paused]
    top_ms: float | None
    glyphs: Glyphs
    figures: Figures
    cursor: int | None

    @property
    def has_own_figures(self) -> bool:
        """True where the figures are those of the bars in view."""
        return self.snapshot.life.is_over or looks_back(self.snapshot, self.view)


def draw(scene: Scene, layout: TimelineLayout) -> list[Line]:
    """Draw all rows, from the top: the strip, why, the GPU, the time axis."""
    snapshot, bars, glyphs = scene.snapshot, scene.bars, scene.glyphs
    cells = step_bars.stack(bars, scene.top_ms, layout.strip_rows, glyphs.fine)
    charts = strip_lines(bars, cells, glyphs, _rules(scene))
    if not snapshot.steps_total:
        middle = layout.strip_rows // 2
        charts[middle] = message_line(single_width(first_words(snapshot)), charts[middle])
    axis = axis_texts(scene.top_ms, layout.strip_rows)
    when, is_wide = _when(scene), layout.legend >= WIDE
    is_stale = snapshot.life.is_stale or when == BEFORE
    legend = legend_lines(scene.figures.means, glyphs, layout.strip_rows, is_wide, when, is_stale)
    lines = [_beside(*parts) for parts in zip(axis, charts, legend, strict=True)]
    limits, median_ms = scene.limits, scene.figures.median_ms
    marks = marks_in_view(snapshot, bars, limits, scene.top_ms, median_ms, glyphs.to)
    labels = place(marks, bars.starts_s, bars.end_s)
    hint = " ? explains marks" if is_wide else " ? explains"
    lines.append(_beside("why", mark_line(labels, layout.columns), ((hint, QUIET_COLOUR),)))
    lines.extend(_gpu_lane(scene, layout))
    if layout.has_axis:
        lines.append(_beside("", axis_line(bars, tick_texts(snapshot, scene.view, bars)), ()))
    return lines


def _when(scene: Scene) -> str:
    """Return the heading of the figures: the moment they describe."""
    if scene.has_own_figures:
        return "run" if scene.view.zoom is Zoom.ALL else "in view"
    if scene.view.end_s is not None:
        return "then"
    if scene.snapshot.life is not Life.RUNNING:
        return "last"
    return BEFORE if overlong(scene.snapshot, scene.figures.median_ms) else "now"


def _beside(label: str, chart: Line, right: Line) -> Line:
    gutter = f"{label:>{GUTTER - 1}} " if label[:1].isdigit() else f"{label:<{GUTTER}}"
    return ((gutter, QUIET_COLOUR), *chart, *right)


def _rules(scene: Scene) -> dict[int, Piece]:
    """Return the vertical lines behind the bars, by their columns."""
    bars, glyphs = scene.bars, scene.glyphs
    switches = without_experiments(scene.snapshot.events.of(PipelineSwitched))
    seen = [at_s for one in switches if bars.starts_s[0] <= (at_s := one.at_ns / 1e9) <= bars.end_s]
    rules = {column_of(bars, at_s): (glyphs.switched, SWITCH) for at_s in seen}
    return rules if scene.cursor is None else {**rules, scene.cursor: (glyphs.cursor, NUMBER)}


def strip_lines(bars: Bars, cells: Cells, glyphs: Glyphs, rules: dict[int, Piece]) -> list[Line]:
    """Draw the stacked bars. `rules`: vertical lines behind them, by their columns."""
    fine, size = glyphs.fine, len(BarPart)
    if fine:  # one index per cell: three would need a tuple and its hash for each
        pairs = cells.lower.astype(np.int64) * size + cells.upper
        at = pairs * step_bars.EIGHTHS + cells.height - 1
    textures = (glyphs.compute, glyphs.muted, glyphs.host, glyphs.wait, glyphs.wait, " ")
    looks = _CELLS if fine else [*zip(textures, map(_colour, BarPart), strict=True)]
    lines = []
    for y, indices in enumerate((at if fine else cells.lower).tolist()):
        row = [looks[index] for index in indices]
        for column, rule in rules.items():
            if cells.lower[y, column] == BarPart.NOTHING:
                row[column] = rule
        lines.append(row)
    _write_clips(lines[0], bars, cells)
    return [joined(row) for row in lines]


def _colour(part: BarPart) -> str:
    return _COLOURS.get(part, "")


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


def _write_clips(row: list[Piece], bars: Bars, cells: Cells) -> None:
    is_blank = cells.lower[0] == BarPart.NOTHING
    for column, text, on_bar in clip_labels(bars.total_ms, cells.clipped, is_blank):
        behind = _colour(BarPart(int(cells.lower[0, column])))
        style = f"bold auto on {behind}" if on_bar else ALARM
        row[column : column + len(text)] = [(char, style) for char in text]


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


def _gpu_lane(scene: Scene, layout: TimelineLayout) -> list[Line]:
    seen, count, figures = scene.sampled, layout.gpu_rows, scene.figures
    if not count or seen.busy is None:
        return []
    if len(figures.gpus) > 1:
        return [_lane_of(one, scene, layout) for one in gpu_lane.shown_gpus(figures.gpus, count)]
    charts = gpu_lane.gpu_lines(seen.busy, count, scene.glyphs)
    beside = gpu_lane.gpu_figures_beside(figures.gpu, count, layout.legend)
    return [_beside(*parts) for parts in zip(("GPU", "busy"), charts, beside, strict=False)]


def _lane_of(gpu: GpuFigures, scene: Scene, layout: TimelineLayout) -> Line:
    """Draw one of several GPUs."""
    busy = scene.sampled.gpus.get(gpu.device, np.full(layout.columns, np.nan))
    (chart,) = gpu_lane.gpu_lines(busy, 1, scene.glyphs)
    beside = gpu_lane.gpu_lane_figures(gpu, scene.figures.gpus, layout.legend)
    return _beside(gpu.device, chart, beside)


def mark_line(labels: Sequence[Label], columns: int) -> Line:
    """Draw the labels of the marks, each at its column."""
    row: list[Piece] = [(" ", "")] * columns
    for label in labels:
        style = _MARK_STYLES.get(label.kind, QUIET_COLOUR)
        text = single_width(label.text)
        row[label.column : label.column + len(text)] = [(char, style) for char in text]
    return joined(row)


def axis_line(bars: Bars, texts: Iterable[tuple[float, str]]) -> Line:
    """Draw times below their columns; the newest has priority."""
    columns = len(bars.starts_s)
    row = [" "] * columns
    for at_s, text in reversed(list(texts)):
        column = int(np.searchsorted(bars.starts_s, at_s, side="right")) - 1
        first = min(max(column - len(text) // 2, 0), columns - len(text))
        room = row[max(first - 1, 0) : first + len(text) + 1]
        if column >= 0 and first >= 0 and not "".join(room).strip():
            row[first : first + len(text)] = text
    return (("".join(row), QUIET_COLOUR),)


def message_line(text: str, line: Line) -> Line:
    """Centre a message in the empty left part of a row."""
    shown = "".join(piece for piece, _ in line)
    room = len(shown) - len(shown.lstrip(" "))
    style = f"{NUMBER} bold"
    if room >= len(text):
        return ((text.center(room), style), *line[1:])
    # A figure that is cut would read as another figure.
    cut = text[: len(shown)].rpartition(", ")[0] or text[: len(shown)]
    return (((text if len(text) <= len(shown) else cut).center(len(shown)), style),)


def first_words(snapshot: Snapshot) -> str:
    """Return the text in the chart before the first step."""
    pulse = snapshot.pulse
    if snapshot.life.is_over:
        return "no step completed"
    if pulse is None:
        return "starting"
    words = _WORDS.get(pulse.phase, "before the first step")
    return f"{words}, {units.seconds(max(0.0, snapshot.now_s - pulse.since_ns / 1e9))}"


# -- the frame's titles ----------------------------------------------------------------------------


def title_words(scene: Scene, live: Snapshot | None, columns: int, room: int) -> tuple[str, str]:
    """Return the texts at both ends of the frame, the longest that fit in `room` cells.

    live: the newest snapshot where the picture is frozen, else None.
    """
    glyphs = scene.glyphs
    span, column = span_words(scene.snapshot, scene.view, columns)
    look = f"z zoom  {glyphs.left} {glyphs.right} look back"
    lefts, rights = [span], [f"{look}  {column}", look, "z zoom", ""]
    if live:
        dot = f" {glyphs.dot} "
        lefts = [dot.join(words) for words in _frozen(scene, live)]
    if scene.cursor is not None:
        rights = [*read_out(scene), ""]
    fits = (
        (left, right) for left in lefts for right in rights if len(left) + len(right) + 4 <= room
    )
    wanted = next((pair for pair in fits if pair[1] or scene.cursor is None), None)
    return wanted or (lefts[-1], "")


def _frozen(scene: Scene, live: Snapshot) -> list[tuple[str, ...]]:
    """Return the titles of a frozen picture; of a run that was over before, with the moment in
    view."""
    held, view = scene.snapshot, scene.view
    if held.life.is_over:
        at_s = min(live.now_s, scene.bars.end_s if view.cursor_s is None else view.cursor_s)
        return [(f"VIEWING {clock(live, at_s)}", "space: end"), ("VIEWING", "space: end")]
    at = f"FROZEN at {clock(held, held.now_s)}"
    since = f"{units.counted(live.steps_total - held.steps_total, 'step')} since"
    back = "space: live"
    if live.life.is_over:
        since, back = "the run is over", "space: end"
    return [(at, since, back), (at, back), ("FROZEN", back)]


def read_out(scene: Scene) -> list[str]:
    """Return `10:18:31 step 3 477: wait 9.6 host 0.8 compute 12.9 ms` of the cursor's column, and a
    shorter text."""
    bars, column = scene.bars, scene.cursor
    if column is None:
        return []
    when = clock(scene.snapshot, float(bars.starts_s[column]))
    parts = {"wait": bars.wait_ms, "host": bars.host_ms, "compute": bars.compute_ms}
    values = {name: float(part[column]) for name, part in parts.items()}
    if np.isnan(values["wait"]):
        return [f"{when} no step"]
    if sum(values.values()) >= 10_000:
        figures = " ".join(f"{name} {units.milliseconds(value)}" for name, value in values.items())
    else:
        figures = " ".join(f"{name} {value:.1f}" for name, value in values.items()) + " ms"
    return [f"{when}{_step_words(scene, column)}: {figures}", f"{when} {figures}"]


def _step_words(scene: Scene, column: int) -> str:
    """Return the steps of a column; empty where they are no longer in memory."""
    bars, steps = scene.bars, scene.snapshot.recent
    ends_s = bars.starts_s[column + 1] if column + 1 < len(bars.starts_s) else bars.end_s + 1e-9
    starts_ns = [round(float(at) * 1e9) for at in (bars.starts_s[column], ends_s)]
    first, end = (int(at) for at in np.searchsorted(steps["start_ns"], starts_ns, side="left"))
    if not len(steps) or end == 0:
        return ""
    last = units.count(int(steps["step"][end - 1]))
    if end - first <= 1:
        return f" step {last}"
    return f" steps {units.count(int(steps['step'][first]))} to {last}"

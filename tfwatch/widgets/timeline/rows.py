"""The rows of a timeline as text with roles: the strip, the marks, starving and the axis."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tfwatch.core import units
from tfwatch.widgets.basics.text import narrow
from tfwatch.widgets.timeline import step_bars
from tfwatch.widgets.timeline.labels import Kind, Label, ago, clip_labels, tick_step
from tfwatch.widgets.timeline.step_bars import Bars, Bytes, Cells, Part

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from tfwatch.analysis.findings.machine import GpuFigures
    from tfwatch.analysis.steps.breakdown import Breakdown
    from tfwatch.core.events import GpuFound, SensorMissing
    from tfwatch.widgets.basics.glyphs import Glyphs

#: A piece of text and its role: a component class without its prefix, or two with a dot, the upper behind the lower.
Piece: TypeAlias = tuple[str, str]
Line: TypeAlias = tuple[Piece, ...]

GUTTER = 7
WIDE, _NARROW = 20, 14
#: From this width on the legend is wide.
_WIDE_FROM = 90
#: From so many rows on the GPU has two of them, and the CPU is shown beside it.
_TWO_ROWS_FROM, _BOTH_FROM = 11, 17
_ROLES = {Part.COMPUTE: "compute", Part.MUTED: "muted", Part.HOST: "host", Part.WAIT: "wait", Part.STALL: "stall"}
_MARK_ROLES = {
    Kind.SWITCH: "switch",
    Kind.LIMIT: "middling",
    Kind.STALL: "alarm",
    Kind.FAILED: "alarm",
    Kind.OPEN: "alarm",
}


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns and rows of a timeline of a given size. gpu_rows: of the GPU's lane; 0 where there is none."""

    columns: int
    legend: int
    strip_rows: int
    has_axis: bool
    has_cpu: bool
    gpu_rows: int = 0


@dataclass(frozen=True, slots=True)
class Means:
    """Of steady steps, milliseconds; None is unknown."""

    wait: float | None = None
    host: float | None = None
    compute: float | None = None
    step: float | None = None
    p95: float | None = None


_UNKNOWN = Means()


@dataclass(frozen=True, slots=True)
class Figures:
    """The numbers beside the rows; they change once a second.

    split, means: of the newest steady steps; means of those in view where that is looked back at, and so the rest.
    share: starving now, the wait that is still open counted; was: before the last switch. cores: in use; all_cores: how
    many there are. accelerated: whether the device is not the CPU. gpu: over the last seconds; gpu_was: how busy it was
    before the last switch; gpu_word: whose figures these are, or why there are none.
    """

    split: Breakdown | None = None
    means: Means = _UNKNOWN
    share: float | None = None
    was: float | None = None
    cores: float | None = None
    all_cores: int = 0
    accelerated: bool = True
    gpu: GpuFigures | None = None
    gpu_was: float | None = None
    gpu_word: GpuFound | SensorMissing | None = None


def lay_out(width: int, height: int, compact: bool, gpu: bool = False) -> Layout:
    """What a space of `width` x `height` cells holds; the strip keeps three rows as long as it can.

    gpu: there is one to show; where rows are dear it takes the place of the CPU.
    """
    legend = WIDE if width >= _WIDE_FROM else _NARROW
    has_axis = not compact and height >= 8
    gpu_rows = 0 if not gpu or height < 6 else 1 if compact or height < _TWO_ROWS_FROM else 2
    has_cpu = height >= (_BOTH_FROM if gpu_rows else 6) and not (compact and gpu_rows)
    rows = height - 2 - has_axis - has_cpu - gpu_rows
    return Layout(max(width - GUTTER - legend, 1), legend, max(rows, 1), has_axis, has_cpu, gpu_rows)


def strip_lines(bars: Bars, cells: Cells, glyphs: Glyphs, ruled: Iterable[tuple[int, str, str]]) -> list[Line]:
    """The stacked bars. `ruled`: (column, character, role) of vertical lines behind them."""
    textures = (glyphs.compute, glyphs.muted, glyphs.host, glyphs.wait, glyphs.wait, " ")
    coarse = [(texture, _ROLES.get(part, "")) for texture, part in zip(textures, Part, strict=True)]
    # One index a cell: three would be a tuple to make and to hash for each.
    looks, at = (_CELLS, _at(cells.lower, cells.upper, cells.height)) if glyphs.fine else (coarse, cells.lower)
    rules = {column: (char, role) for column, char, role in ruled}
    lines = []
    for y, indices in enumerate(at.tolist()):
        row = [looks[index] for index in indices]
        for column, rule in rules.items():
            if cells.lower[y, column] == Part.NOTHING:
                row[column] = rule
        lines.append(row)
    _write_clips(lines[0], cells, clip_labels(bars.total_ms, cells.clipped, cells.lower[0] == Part.NOTHING))
    return [joined(row) for row in lines]


def _fine(lower: Part, upper: Part, height: int) -> Piece:
    if lower == Part.NOTHING:
        return " ", ""
    if height == step_bars.EIGHTHS or lower == upper:
        return "█", _ROLES[lower]
    behind = f".{_ROLES[upper]}" if upper != Part.NOTHING else ""
    return " ▁▂▃▄▅▆▇"[height], _ROLES[lower] + behind


#: At `_at`.
_CELLS: list[Piece] = [_fine(a, b, h) for a in Part for b in Part for h in range(1, step_bars.EIGHTHS + 1)]


def _at(lower: Bytes, upper: Bytes, height: Bytes) -> NDArray[np.int64]:
    found: NDArray[np.int64] = (lower.astype(np.int64) * len(Part) + upper) * step_bars.EIGHTHS + height - 1
    return found


def _write_clips(row: list[Piece], cells: Cells, labels: Iterable[tuple[int, str, bool]]) -> None:
    for column, text, on_bar in labels:
        part = Part(int(cells.lower[0, column]))
        role = f"onwall.{_ROLES[part]}" if on_bar else "alarm"
        role = "number.muted" if part is Part.MUTED else role
        row[column : column + len(text)] = [(char, role) for char in text]


def joined(row: Iterable[Piece]) -> Line:
    """Neighbours of one role as one piece."""
    return tuple(("".join([char for char, _ in run]), role) for role, run in groupby(row, key=itemgetter(1)))


def axis_texts(top_ms: float | None, rows: int) -> list[str]:
    """What stands left of each row of the strip: the top with its unit, the middle, 0."""
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


def means_of(split: Breakdown | None) -> Means:
    """Those of a stretch of steps."""
    if split is None:
        return _UNKNOWN
    return Means(split.wait.mean, split.host.mean, split.compute.mean, split.step.mean, split.step.p95)


def legend_lines(means: Means, glyphs: Glyphs, rows: int, wide: bool, when: str, is_stale: bool) -> list[Line]:
    """What the colours mean, and the means of steady steps; as many lines as there are rows.

    when: the steps are of. Means: they add up, and their ratio is the share that is told below them and in the
    banner. is_stale: no figure is of now.
    """
    figures = "quiet" if is_stale else "number"
    parts = (
        ("wait", glyphs.wait, means.wait),
        ("host", glyphs.host, means.host),
        ("compute", glyphs.compute, means.compute),
    )
    field = 9 if wide else 5
    lines: list[Line] = [
        ((" ", ""), (glyph, name), (f" {name if wide else name[:4]:<{field}}", "quiet"), (_figure(value), figures))
        for name, glyph, value in parts
    ]
    for name, value in (("step", means.step), ("p95", means.p95)):
        lines.append(((f"   {name:<{field}}", "quiet"), (_figure(value), figures)))
    if rows > len(lines):
        lines.insert(0, ((f"   {when}, mean ms" if wide else f"   {when}, ms", "quiet"),))
    if rows > len(lines) + 2:
        lines.insert(0, ())
    return [*lines, *[()] * rows][:rows]


def _figure(value: float | None) -> str:
    if value is None:
        return f"{units.MISSING:>6}"
    return f"{value:6.1f}" if value < 10_000 else f"{value / 1e3:5.1f}s"


def mark_line(labels: Sequence[Label], columns: int) -> Line:
    """The labels of the marks, each at its column."""
    row: list[Piece] = [(" ", "")] * columns
    for label in labels:
        role = _MARK_ROLES.get(label.kind, "quiet")
        text = narrow(label.text)
        row[label.column : label.column + len(text)] = [(char, role) for char in text]
    return joined(row)


def starve_line(bars: Bars, glyphs: Glyphs) -> Line:
    """How much the device starved, a shade a column."""
    shades = step_bars.shade(bars.share).tolist()
    return joined((glyphs.shades[shade], "stall" if shade == 3 else "wait") for shade in shades)


def starve_figure(figures: Figures, is_stale: bool) -> Line:
    """`41 %`, and what it was before the last switch; no alarm where it is of no now."""
    share = figures.share
    if share is None:
        return ((f" {units.MISSING}", "quiet"),)
    role = "quiet" if is_stale else "bad" if share >= 0.2 else "middling" if share >= 0.05 else "good"
    was = f" (was {figures.was * 100:.0f})" if figures.was is not None else ""
    return ((f" {units.percent(share)}", role), (was, "quiet"))


def axis_line(bars: Bars, texts: Iterable[tuple[float, str]]) -> Line:
    """Times below their columns; the newest keeps its place."""
    columns = len(bars.starts_s)
    row = [" "] * columns
    for at_s, text in reversed(list(texts)):
        column = int(np.searchsorted(bars.starts_s, at_s, side="right")) - 1
        first = min(max(column - len(text) // 2, 0), columns - len(text))
        room = row[max(first - 1, 0) : first + len(text) + 1]
        if column >= 0 and first >= 0 and not "".join(room).strip():
            row[first : first + len(text)] = text
    return (("".join(row), "quiet"),)


def times_ago(bars: Bars, now_s: float) -> list[tuple[float, str]]:
    """Moments of a view that follows the run, in time before now."""
    step = tick_step(now_s - float(bars.starts_s[0]), max(len(bars.starts_s) // 15, 2))
    ticks = np.arange(step, now_s - float(bars.starts_s[0]), step)[::-1].tolist()
    return [*((now_s - tick, ago(tick)) for tick in ticks), (now_s, "now")]


def steps_ago(bars: Bars) -> list[tuple[float, str]]:
    """Steps of a view of single steps, counted from its newest."""
    columns = len(bars.starts_s)
    back = [n for n in range(columns - 1, 10, -1) if n % 25 == 0 and bars.steps[columns - 1 - n]]
    return [*((float(bars.starts_s[columns - 1 - n]), f"-{n}") for n in back), (bars.end_s, "newest")]


def times_of_day(bars: Bars, origin_s: float, last_s: float) -> list[float]:
    """Moments at round times of the day, up to `last_s`; `origin_s` is the clock origin in seconds of that day."""
    first_s, end_s = float(bars.starts_s[0]), min(bars.end_s, last_s)
    step = tick_step(bars.end_s - first_s, max(len(bars.starts_s) // 18, 2))
    first = np.ceil((max(first_s, 0.0) + origin_s) / step) * step - origin_s
    ticks: list[float] = np.arange(first, end_s, step).tolist()
    return ticks


def message_line(text: str, line: Line) -> Line:
    """A sentence in the middle of what is empty at the left of a row."""
    shown = "".join(piece for piece, _ in line)
    room = len(shown) - len(shown.lstrip(" "))
    if room < len(text):
        # A part that is cut would read as another figure.
        told = text if len(text) <= len(shown) else text[: len(shown)].rpartition(", ")[0] or text[: len(shown)]
        return ((told.center(len(shown)), "message"),)
    return ((text.center(room), "message"), *line[1:])

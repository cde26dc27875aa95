"""The rows of a timeline as text with roles: the strip, the marks and the axis."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tfwatch.core import units
from tfwatch.screens.basics.text import single_width
from tfwatch.screens.live.timeline import step_bars
from tfwatch.screens.live.timeline.labels import Kind, Label, ago, clip_labels, tick_step
from tfwatch.screens.live.timeline.step_bars import BarPart, Bars, Bytes, Cells

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from tfwatch.core.events import GpuFound, SensorMissing
    from tfwatch.judge.findings.gpus import GpuLane
    from tfwatch.judge.findings.machine import GpuFigures
    from tfwatch.judge.steps.verdict import Breakdown
    from tfwatch.screens.basics.glyphs import Glyphs

#: A piece of text and its role: a component class without its prefix; of `a.b`, b is the
#: background.
Piece: TypeAlias = tuple[str, str]
Line: TypeAlias = tuple[Piece, ...]

GUTTER = 7
WIDE, _NARROW = 20, 14
#: The smallest width with a wide legend.
_WIDE_FROM = 90
#: The smallest height with two rows for the GPU.
_TWO_ROWS_FROM = 11
#: The smallest height with two of several GPUs; with all of them this much beside their rows: the
#: strip has six.
_TWO_GPUS_FROM, _ALL_FROM = 7, 9
_ROLES = {
    BarPart.COMPUTE: "compute",
    BarPart.MUTED: "muted",
    BarPart.HOST: "host",
    BarPart.COPY: "copy",
    BarPart.WAIT: "wait",
    BarPart.STALL: "stall",
}
_MARK_ROLES = {
    Kind.SWITCH: "switch",
    Kind.LIMIT: "middling",
    Kind.STALL: "alarm",
    Kind.FAILED: "alarm",
    Kind.OPEN: "alarm",
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


@dataclass(frozen=True, slots=True)
class StepMeans:
    """Means of steady steps, milliseconds; None where unknown. copy: None where it is a part of
    compute."""

    wait: float | None = None
    host: float | None = None
    compute: float | None = None
    step: float | None = None
    p95: float | None = None
    copy: float | None = None


_UNKNOWN = StepMeans()


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures beside the rows; they change once a second."""

    #: Of the newest steady steps.
    split: Breakdown | None = None
    #: Of the newest steady steps; a view of the past has those of its own steps.
    means: StepMeans = _UNKNOWN
    #: Over the last seconds.
    gpu: GpuFigures | None = None
    #: The GPU's use before the last switch.
    gpu_was: float | None = None
    #: The source of the GPU's figures, or the reason why there are none.
    gpu_status: GpuFound | SensorMissing | None = None
    #: Of a strategy over several.
    gpus: tuple[GpuLane, ...] = ()


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
    if gpus > 1 and height >= _ALL_FROM + gpus and not compact:
        return gpus
    return (
        1
        if height < (_TWO_GPUS_FROM if gpus > 1 else _TWO_ROWS_FROM) or (compact and gpus == 1)
        else 2
    )


def strip_lines(
    bars: Bars, cells: Cells, glyphs: Glyphs, ruled: Iterable[tuple[int, str, str]]
) -> list[Line]:
    """Draw the stacked bars. `ruled`: (column, character, role) of vertical lines behind them."""
    textures = (
        glyphs.compute,
        glyphs.muted,
        glyphs.host,
        glyphs.copy,
        glyphs.wait,
        glyphs.wait,
        " ",
    )
    coarse = [
        (texture, _ROLES.get(part, "")) for texture, part in zip(textures, BarPart, strict=True)
    ]
    # One index per cell: three would need a tuple and its hash for each.
    looks, at = (
        (_CELLS, _at(cells.lower, cells.upper, cells.height))
        if glyphs.fine
        else (coarse, cells.lower)
    )
    rules = {column: (char, role) for column, char, role in ruled}
    lines = []
    for y, indices in enumerate(at.tolist()):
        row = [looks[index] for index in indices]
        for column, rule in rules.items():
            if cells.lower[y, column] == BarPart.NOTHING:
                row[column] = rule
        lines.append(row)
    _write_clips(
        lines[0],
        cells,
        clip_labels(bars.total_ms, cells.clipped, cells.lower[0] == BarPart.NOTHING),
    )
    return [joined(row) for row in lines]


def _fine(lower: BarPart, upper: BarPart, height: int) -> Piece:
    if lower == BarPart.NOTHING:
        return " ", ""
    if height == step_bars.EIGHTHS or lower == upper:
        return "█", _ROLES[lower]
    behind = f".{_ROLES[upper]}" if upper != BarPart.NOTHING else ""
    return " ▁▂▃▄▅▆▇"[height], _ROLES[lower] + behind


#: Every cell, at its index `_at`.
_CELLS: list[Piece] = [
    _fine(a, b, h) for a in BarPart for b in BarPart for h in range(1, step_bars.EIGHTHS + 1)
]


def _at(lower: Bytes, upper: Bytes, height: Bytes) -> NDArray[np.int64]:
    places: NDArray[np.int64] = (
        (lower.astype(np.int64) * len(BarPart) + upper) * step_bars.EIGHTHS + height - 1
    )
    return places


def _write_clips(row: list[Piece], cells: Cells, labels: Iterable[tuple[int, str, bool]]) -> None:
    for column, text, on_bar in labels:
        part = BarPart(int(cells.lower[0, column]))
        role = f"onwall.{_ROLES[part]}" if on_bar else "alarm"
        role = "number.muted" if part is BarPart.MUTED else role
        row[column : column + len(text)] = [(char, role) for char in text]


def joined(row: Iterable[Piece]) -> Line:
    """Join neighbours with the same role."""
    return tuple(
        ("".join([char for char, _ in run]), role) for role, run in groupby(row, key=itemgetter(1))
    )


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


def means_of(split: Breakdown | None) -> StepMeans:
    """Return the means of a breakdown."""
    if split is None:
        return _UNKNOWN
    copy = split.copy.mean if split.copy else None
    return StepMeans(
        split.wait.mean, split.host.mean, split.compute.mean, split.step.mean, split.step.p95, copy
    )


def legend_lines(
    means: StepMeans, glyphs: Glyphs, rows: int, wide: bool, when: str, is_stale: bool
) -> list[Line]:
    """Return the legend with the means of steady steps, in `rows` lines.

    The means add up, and their ratio is the data wait in the banner. when: the moment of the steps.
    is_stale: the figures are not current.
    """
    figures = "quiet" if is_stale else "number"
    parts = (
        ("wait", glyphs.wait, means.wait),
        *((("copy", glyphs.copy, means.copy),) if means.copy is not None else ()),
        ("host", glyphs.host, means.host),
        ("compute", glyphs.compute, means.compute),
    )
    field = 9 if wide else 5
    lines: list[Line] = [
        (
            (" ", ""),
            (glyph, name),
            (f" {name if wide else name[:4]:<{field}}", "quiet"),
            (_figure(value), figures),
        )
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
    """Draw the labels of the marks, each at its column."""
    row: list[Piece] = [(" ", "")] * columns
    for label in labels:
        role = _MARK_ROLES.get(label.kind, "quiet")
        text = single_width(label.text)
        row[label.column : label.column + len(text)] = [(char, role) for char in text]
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
    return (("".join(row), "quiet"),)


def times_ago(bars: Bars, now_s: float) -> list[tuple[float, str]]:
    """Return the ticks of a view that follows the run, as time before now."""
    step = tick_step(now_s - float(bars.starts_s[0]), max(len(bars.starts_s) // 15, 2))
    ticks = np.arange(step, now_s - float(bars.starts_s[0]), step)[::-1].tolist()
    return [*((now_s - tick, ago(tick)) for tick in ticks), (now_s, "now")]


def steps_ago(bars: Bars) -> list[tuple[float, str]]:
    """Return the ticks of a view of single steps, counted from the newest."""
    columns = len(bars.starts_s)
    back = [n for n in range(columns - 1, 10, -1) if n % 25 == 0 and bars.steps[columns - 1 - n]]
    return [
        *((float(bars.starts_s[columns - 1 - n]), f"-{n}") for n in back),
        (bars.end_s, "newest"),
    ]


def step_numbers(bars: Bars, last: int) -> list[tuple[float, str]]:
    """Return the ticks of a view of earlier single steps: their numbers, up to the `last`."""
    columns = len(bars.starts_s)
    numbered = [
        (float(bars.starts_s[at]), last - (columns - 1 - at))
        for at in range(columns)
        if bars.steps[at]
    ]
    ticks = [
        (at_s, units.count(number))
        for at_s, number in numbered
        if number % 25 == 0 and number < last - 10
    ]
    return [*ticks, (bars.end_s, f"step {units.count(last)}")]


def times_of_day(bars: Bars, origin_s: float, last_s: float) -> list[float]:
    """Return ticks at round times of day, up to `last_s`; `origin_s` is the clock origin in seconds
    of that day."""
    first_s, end_s = float(bars.starts_s[0]), min(bars.end_s, last_s)
    step = tick_step(bars.end_s - first_s, max(len(bars.starts_s) // 18, 2))
    first = np.ceil((max(first_s, 0.0) + origin_s) / step) * step - origin_s
    ticks: list[float] = np.arange(first, end_s, step).tolist()
    return ticks


def message_line(text: str, line: Line) -> Line:
    """Center a message in the empty left part of a row."""
    shown = "".join(piece for piece, _ in line)
    room = len(shown) - len(shown.lstrip(" "))
    if room < len(text):
        # A figure that is cut would read as another figure.
        shortened = (
            text
            if len(text) <= len(shown)
            else text[: len(shown)].rpartition(", ")[0] or text[: len(shown)]
        )
        return ((shortened.center(len(shown)), "message"),)
    return ((text.center(room), "message"), *line[1:])

"""The learning curves over the steps of the run, with the run before it: lines of braille over a
number axis.

The textual-plot library (0.10) takes 17 ms to draw two lines of 500 points, and a whole frame has 6
ms: this takes one. It also has no logarithmic axis and no plain characters, and needs NumPy 2.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray
from textual.binding import Binding
from textual.content import Content
from textual.reactive import reactive

from tfwatch.core import units
from tfwatch.core.clock import Slot, second_of
from tfwatch.core.events import EpochEnded
from tfwatch.judge.findings.situation import metric_name
from tfwatch.judge.whole_run import NO_CURVE, STEP_TIME, LearningCurves, MetricChart
from tfwatch.screens.basics.glyphs import COMPUTE_COLOUR, QUIET_COLOUR, WAIT_COLOUR
from tfwatch.screens.basics.pane import FramedPane
from tfwatch.screens.basics.text import fit, row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import BindingType

    from tfwatch.judge.view import RunView
    from tfwatch.judge.whole_run import MetricCurve, PreviousRun
    from tfwatch.screens.basics.glyphs import Glyphs

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: The bits of the dots of a braille character, four rows of two.
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], dtype=np.int64)
_BRAILLE = 0x2800


@dataclass(frozen=True, eq=False)
class PlotLine:
    """A line through points. mark: its character without braille. style: of its cells."""

    x: Floats
    y: Floats
    mark: str
    style: str


@dataclass(frozen=True, slots=True)
class Frame:
    """The bounds of a plot, and its cells. is_log: the vertical axis is logarithmic."""

    x: tuple[float, float]
    y: tuple[float, float]
    width: int
    height: int
    is_log: bool = False

    def scaled_y(self, y: Floats) -> Floats:
        """Return values as shares of the height, 0 to 1; NaN where a logarithm does not exist."""
        low, high = (self._axis(np.array(one)) for one in self.y)
        scaled: Floats = (self._axis(y) - low) / np.maximum(high - low, 1e-30)
        return scaled

    def scaled_x(self, x: Floats) -> Floats:
        """Return values as shares of the width, 0 to 1."""
        scaled: Floats = (x - self.x[0]) / max(self.x[1] - self.x[0], 1e-30)
        return scaled

    def _axis(self, y: Floats) -> Floats:
        if not self.is_log:
            return y
        axis: Floats = np.log10(np.where(y > 0, y, np.nan))
        return axis

    def cell_of(self, x: float, y: float) -> tuple[int, int] | None:
        """Return the column and row of a point; None outside."""
        across, up = float(self.scaled_x(np.array(x))), float(self.scaled_y(np.array(y)))
        if not (0 <= across <= 1 and 0 <= up <= 1):
            return None
        return min(int(across * self.width), self.width - 1), self.height - 1 - min(
            int(up * self.height), self.height - 1
        )


def draw_plot(
    lines: Sequence[PlotLine],
    frame: Frame,
    glyphs: Glyphs,
    points: Sequence[tuple[float, float, str]] = (),
) -> list[list[tuple[str, str]]]:
    """Draw lines, a later one over an earlier one, as rows of (text, style), the top row first.

    points: (x, y, style) of single marks above all lines.
    """
    fine = glyphs.fine
    across, down = (2, 4) if fine else (1, 1)
    bits = np.zeros((frame.height, frame.width), dtype=np.int64)
    owner = np.full((frame.height, frame.width), -1)
    for number, line in enumerate(lines):
        dots = _dots(line, frame, across, down)
        own = np.einsum(
            "iajb,ab->ij",
            dots.reshape(frame.height, down, frame.width, across),
            _DOTS[:down, :across],
        )
        bits |= own
        owner[own > 0] = number
    cells = [
        [_cell(lines, int(bits[y, x]), int(owner[y, x]), fine) for x in range(frame.width)]
        for y in range(frame.height)
    ]
    for x, y, style in points:
        cell = frame.cell_of(x, y)
        if cell:
            cells[cell[1]][cell[0]] = (glyphs.record, style)
    return [
        [("".join(text for text, _ in run), style) for style, run in _runs(row)] for row in cells
    ]


def _runs(row: list[tuple[str, str]]) -> list[tuple[str, list[tuple[str, str]]]]:
    return [(style, list(run)) for style, run in groupby(row, key=itemgetter(1))]


def _cell(lines: Sequence[PlotLine], bits: int, owner: int, fine: bool) -> tuple[str, str]:
    if owner < 0:
        return " ", ""
    line = lines[owner]
    return (chr(_BRAILLE + bits) if fine else line.mark), line.style


def _dots(line: PlotLine, frame: Frame, across: int, down: int) -> NDArray[np.bool_]:
    """Return the dots of a line, `down` x `across` of them in a cell."""
    width, height = frame.width * across, frame.height * down
    dots = np.zeros((height, width), dtype=np.bool_)
    low, high = _spans(frame.scaled_x(line.x), frame.scaled_y(line.y), width)
    ran = np.isfinite(low)
    bottoms, tops = (
        np.clip(np.where(ran, one, 0.0) * height, 0, height - 1).astype(np.int64)
        for one in (low, high)
    )
    _connect(bottoms, tops, ran)
    for column in np.flatnonzero(ran).tolist():
        dots[height - 1 - tops[column] : height - bottoms[column], column] = True
    return dots


def _spans(x: Floats, y: Floats, width: int) -> tuple[Floats, Floats]:
    """Return the lowest and the highest value of a line in each of `width` columns; NaN where it is
    not."""
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    low, high = np.full(width, np.nan), np.full(width, np.nan)
    if not len(x):
        return low, high
    edges = (np.arange(width) + 0.5) / width
    inside = (edges >= x[0]) & (edges <= x[-1])
    low[inside] = high[inside] = np.interp(edges[inside], x, y)
    shown = (x >= 0) & (x <= 1)  # the run before may be longer than this one
    at = np.minimum((x[shown] * width).astype(np.int64), width - 1)
    np.fmin.at(low, at, y[shown])
    np.fmax.at(high, at, y[shown])
    return low, high


def _connect(bottoms: Ints, tops: Ints, ran: NDArray[np.bool_]) -> None:
    """Extend neighbouring columns towards each other where a steep line would have gaps."""
    both = ran[1:] & ran[:-1]
    rises, falls = both & (bottoms[1:] > tops[:-1] + 1), both & (tops[1:] < bottoms[:-1] - 1)
    up, down = (tops[:-1] + bottoms[1:]) // 2, (bottoms[:-1] + tops[1:]) // 2
    tops[:-1][rises], bottoms[1:][rises] = up[rises], up[rises] + 1
    bottoms[:-1][falls], tops[1:][falls] = down[falls] + 1, down[falls]


#: Rows of a chart: its figures, at least four of its plot. The axis below all charts has one.
_LEAST_ROWS = 5
_GUTTER = 6
#: Columns from which two blanks stand between figures.
_WIDE = 50
#: Seconds from one drawing to the next: it takes 3 ms, and a curve of minutes and hours changes
#: slowly.
_EVERY_S = 5
_TRAINING, _VALIDATION, _BEFORE = COMPUTE_COLOUR, WAIT_COLOUR, "$foreground 35%"
#: The parts of the points that the axis shows: a first loss of 10 000 hides all others.
_PERCENTILES = (0.5, 99.5)
#: The highest step time that the axis shows, in medians.
_MOST_TIMES_MEDIAN = 3
_EMPTY = "no loss, metric or step yet"


class CurvesPane(FramedPane, can_focus=True):
    """As many charts as fit; the arrow keys scroll to the others."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "scroll(-1)", "the chart above", show=False),
        Binding("down", "scroll(1)", "the chart below", show=False),
    ]

    charts: reactive[tuple[MetricChart, ...]] = reactive((), repaint=False)
    #: The vertical axes are logarithmic.
    is_log: reactive[bool] = reactive(False, repaint=False)
    #: The number of the first chart that shows.
    first: reactive[int] = reactive(0, repaint=False)

    watch_charts = watch_is_log = watch_first = FramedPane.repaint_rows

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._curves = LearningCurves()
        self._previous: PreviousRun | None = None
        self._end_step = 0
        self._newest_epoch: int | None = None
        self._shown: tuple[object, ...] = ()

    def on_mount(self) -> None:
        self._set_title()

    def on_resize(self) -> None:
        self._set_title()  # it counts the charts that fit

    def show(self, view: RunView) -> None:
        """Show the curves of a view, every few seconds and after each epoch."""
        due = second_of(view.snapshot.now_s, Slot.HEADER) // _EVERY_S
        ended = view.snapshot.events.newest(EpochEnded)
        key = due, ended, view.is_over, view.previous
        if key == self._shown:
            return
        self._shown = key
        self._previous, self._end_step = view.previous, view.snapshot.steps_total
        self._newest_epoch = ended.epoch if ended else None
        self.charts = self._curves.take(view.snapshot)
        self._set_title()

    def toggle_log(self) -> None:
        """Make the vertical axes logarithmic, or linear again."""
        self.is_log = not self.is_log
        self._set_title()

    def action_scroll(self, charts: int) -> None:
        """Show other charts."""
        room = max(len(self.charts) - _charts_in(self.content_size.height), 0)
        self.first = min(max(self.first + charts, 0), room)
        self._set_title()

    def _set_title(self) -> None:
        shown, count = _charts_in(self.content_size.height), len(self.charts)
        which = (
            f"{self.first + 1} to {min(self.first + shown, count)} of {count}, up down  "
            if count > shown
            else ""
        )
        scale = "7 linear" if self.is_log else "7 log scale"
        self.set_titles("learning curves", f"{which}{scale}")

    def rows(self, width: int, height: int) -> Sequence[Content]:
        if not any(len(chart.training) or len(chart.validation) for chart in self.charts):
            return [row((_EMPTY, QUIET_COLOUR))]
        count = min(_charts_in(height), len(self.charts))
        charts = self.charts[self.first : self.first + count] or self.charts[:count]
        has_axis = height > _LEAST_ROWS
        each, more = divmod(height - has_axis, len(charts))
        lines: list[Content] = []
        for n, chart in enumerate(charts):
            lines += self._chart(chart, width, each + (n < more))
        return [*lines, self._axis(width)] if has_axis else lines

    def _chart(self, chart: MetricChart, width: int, height: int) -> list[Content]:
        before = self._previous.charts.get(chart.name) if self._previous else None
        frame = self._plot_frame(chart, before, width - _GUTTER, height - 1)
        head = fit(_head(chart, before, self.glyphs.fine), width, "  " if width >= _WIDE else " ")
        best = chart.best
        points = [(best.step, best.value, "$text-success bold")] if best else []
        cells = draw_plot(_lines(chart, before), frame, self.glyphs, points)
        labels = _labels(frame)
        return [
            head,
            *(
                Content.assemble((label, QUIET_COLOUR), *line)
                for label, line in zip(labels, cells, strict=True)
            ),
        ]

    def _plot_frame(
        self, chart: MetricChart, before: MetricChart | None, width: int, height: int
    ) -> Frame:
        shown = [
            chart.training,
            chart.validation,
            *((before.training, before.validation) if before else ()),
        ]
        shown = [curve for curve in shown if len(curve)]
        low, high = axis_bounds(shown, is_log=self.is_log)
        if chart.name == STEP_TIME and not self.is_log:
            low, high = 0.0, min(high, highest_step_time(shown))
        return Frame(
            (0.0, float(max(self._end_step, 1))),
            (low, high),
            max(width, 1),
            max(height, 1),
            self.is_log,
        )

    def _axis(self, width: int) -> Content:
        """Return the axis of steps, with the epoch at its end where epochs are known."""
        room = max(width - _GUTTER, 1)
        texts = [f"step {units.count(self._end_step)}", units.count(self._end_step)]
        if self._newest_epoch is not None:
            texts = [
                f"{texts[0]}, epoch {self._newest_epoch + 1}",
                f"epoch {self._newest_epoch + 1}",
                *texts,
            ]
        right = next((text for text in texts if len(text) + 2 <= room), "")
        return row((f"{'':{_GUTTER}}{'0':<{room - len(right)}}{right}", QUIET_COLOUR))


def _charts_in(height: int) -> int:
    return max((height - 1) // _LEAST_ROWS, 1)


def _lines(chart: MetricChart, before: MetricChart | None) -> list[PlotLine]:
    """Return the lines of a chart, the faintest first."""
    faint = (
        (before.validation if len(before.validation) else before.training) if before else NO_CURVE
    )
    return [
        PlotLine(faint.steps, faint.values, ".", _BEFORE),
        PlotLine(chart.training.steps, chart.training.values, "*", _TRAINING),
        PlotLine(chart.validation.steps, chart.validation.values, "v", _VALIDATION),
    ]


def _head(chart: MetricChart, before: MetricChart | None, fine: bool) -> list[tuple[int, Content]]:
    """Return the figures of a chart with their ranks; each line's in its colour."""
    show = units.milliseconds if chart.name == STEP_TIME else figure
    name = f"{metric_name(chart.name)}{'' if fine else ' *'}"
    has_more = len(chart.validation) > 0
    parts = [
        (0, row((name, f"{_TRAINING} bold"))),
        (3 if has_more else 0, row((show(chart.training.last), "bold"))),
    ]
    if has_more:
        label = f"val{'' if fine else ' v'} "
        parts.append(
            (1, row((label, f"{_VALIDATION} bold"), (show(chart.validation.last), "bold")))
        )
    if chart.best:
        parts.append(
            (
                2,
                row(
                    (f"best {show(chart.best.value)} epoch {chart.best.epoch + 1}", "$text-success")
                ),
            )
        )
    if before and (was := _at_same_step(before, chart)) is not None:
        parts.append((4, row((f"{'' if fine else '. '}previous run {show(was)}", QUIET_COLOUR))))
    return parts


def _at_same_step(before: MetricChart, chart: MetricChart) -> float | None:
    """Return the earlier run's value at the newest step of this one; None where it ended before."""
    earlier: MetricCurve = before.validation if len(before.validation) else before.training
    own = chart.validation if len(chart.validation) else chart.training
    if not len(own) or not len(earlier) or own.steps[-1] > earlier.steps[-1] * 1.02:
        return None
    return float(np.interp(own.steps[-1], earlier.steps, earlier.values))


def axis_bounds(curves: Sequence[MetricCurve], *, is_log: bool) -> tuple[float, float]:
    """Return the lowest and the highest value to show, with room above and below."""
    values = np.concatenate([curve.values for curve in curves]) if curves else np.zeros(1)
    values = values[values > 0] if is_log else values
    if not len(values):
        return (0.1, 1.0) if is_log else (0.0, 1.0)
    low, high = (float(value) for value in np.percentile(values, _PERCENTILES))
    if is_log:
        return low / 1.1, max(high, low) * 1.1
    room = 0.05 * (high - low) or abs(high) * 0.05 or 1.0
    # A loss is never shown below 0, nor an accuracy above 1, by the room alone.
    floor, ceiling = (0.0 if low >= 0 else -math.inf), (1.0 if low >= 0 and high <= 1 else math.inf)
    return max(low - room, floor), min(high + room, ceiling)


def highest_step_time(curves: Sequence[MetricCurve]) -> float:
    """Return the top of the axis of step times: the point with the compile step would flatten all
    the others."""
    values = [curve.values for curve in curves]
    return _MOST_TIMES_MEDIAN * float(np.median(np.concatenate(values))) if values else math.inf


def _labels(frame: Frame) -> list[str]:
    """Return the texts left of the plot: the top, the middle where there is room, the bottom."""
    labels = [""] * frame.height
    low, high = frame.y
    middle = math.sqrt(low * high) if frame.is_log else (low + high) / 2
    if frame.height >= 5:
        labels[frame.height // 2] = figure(middle)
    labels[0], labels[-1] = figure(high), figure(low)
    return [f"{label:>{_GUTTER - 1}} "[:_GUTTER] for label in labels]


def figure(value: float | None) -> str:
    """Return a loss or a metric in at most five characters: `0.123`, `12.3`, `1e+05`."""
    if value is None or math.isnan(value):
        return units.MISSING
    text = f"{value:.3g}" if abs(value) >= 1e-3 or value == 0 else f"{value:.0e}"
    return (
        text if len(text) <= 5 else f"{value:.2g}" if len(f"{value:.2g}") <= 5 else f"{value:.0e}"
    )

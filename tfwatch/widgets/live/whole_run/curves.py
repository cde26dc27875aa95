"""The learning curves: loss, metrics and step time over the steps of the run, with the run before as a faint line."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from textual.binding import Binding
from textual.content import Content
from textual.reactive import reactive

from tfwatch.core import units
from tfwatch.core.clock import Slot, second_of
from tfwatch.core.events import EpochEnded
from tfwatch.live.run_situation import metric_name
from tfwatch.live.whole_run import NO_CURVE, STEP_TIME, Chart, LearningCurves
from tfwatch.widgets.basics.glyphs import COMPUTE_COLOUR, QUIET_COLOUR, WAIT_COLOUR
from tfwatch.widgets.basics.pane import FramedPane
from tfwatch.widgets.basics.text import fit, row
from tfwatch.widgets.live.whole_run.plot import Frame, PlotLine, draw_plot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import BindingType

    from tfwatch.live.earlier_runs import PreviousRun
    from tfwatch.live.view import RunView
    from tfwatch.live.whole_run import Curve

#: Rows of a chart: its figures, at least four of its plot. The axis below all charts has one.
_LEAST_ROWS = 5
_GUTTER = 6
#: Columns from which two blanks stand between figures.
_WIDE = 50
#: Seconds from one drawing to the next: it takes 3 ms, and a curve of minutes and hours changes slowly.
_EVERY_S = 5
_TRAINING, _VALIDATION, _BEFORE = COMPUTE_COLOUR, WAIT_COLOUR, "$foreground 35%"
#: The parts of the points that the axis shows: a first loss of 10 000 hides all others.
_PERCENTILES = (0.5, 99.5)
#: The highest step time that the axis shows, in medians.
_MOST_TIMES_MEDIAN = 3
_EMPTY = "no loss, metric or step yet"


class CurvesPane(FramedPane, can_focus=True):
    """As many charts as fit; the arrow keys scroll to the others.

    Attributes:
        is_log: the vertical axes are logarithmic.
        first: the number of the first chart that shows.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "scroll(-1)", "the chart above", show=False),
        Binding("down", "scroll(1)", "the chart below", show=False),
    ]

    charts: reactive[tuple[Chart, ...]] = reactive((), repaint=False)
    is_log: reactive[bool] = reactive(False, repaint=False)
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
        which = f"{self.first + 1} to {min(self.first + shown, count)} of {count}, up down  " if count > shown else ""
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

    def _chart(self, chart: Chart, width: int, height: int) -> list[Content]:
        before = self._previous.charts.get(chart.name) if self._previous else None
        frame = self._plot_frame(chart, before, width - _GUTTER, height - 1)
        head = fit(_head(chart, before, self.glyphs.fine), width, "  " if width >= _WIDE else " ")
        best = chart.best
        points = [(best.step, best.value, "$text-success bold")] if best else []
        cells = draw_plot(_lines(chart, before), frame, self.glyphs, points)
        labels = _labels(frame)
        return [
            head,
            *(Content.assemble((label, QUIET_COLOUR), *line) for label, line in zip(labels, cells, strict=True)),
        ]

    def _plot_frame(self, chart: Chart, before: Chart | None, width: int, height: int) -> Frame:
        shown = [chart.training, chart.validation, *((before.training, before.validation) if before else ())]
        shown = [curve for curve in shown if len(curve)]
        low, high = axis_bounds(shown, is_log=self.is_log)
        if chart.name == STEP_TIME and not self.is_log:
            low, high = 0.0, min(high, highest_step_time(shown))
        return Frame((0.0, float(max(self._end_step, 1))), (low, high), max(width, 1), max(height, 1), self.is_log)

    def _axis(self, width: int) -> Content:
        """Return the axis of steps, with the epoch at its end where epochs are known."""
        room = max(width - _GUTTER, 1)
        texts = [f"step {units.count(self._end_step)}", units.count(self._end_step)]
        if self._newest_epoch is not None:
            texts = [f"{texts[0]}, epoch {self._newest_epoch + 1}", f"epoch {self._newest_epoch + 1}", *texts]
        right = next((text for text in texts if len(text) + 2 <= room), "")
        return row((f"{'':{_GUTTER}}{'0':<{room - len(right)}}{right}", QUIET_COLOUR))


def _charts_in(height: int) -> int:
    return max((height - 1) // _LEAST_ROWS, 1)


def _lines(chart: Chart, before: Chart | None) -> list[PlotLine]:
    """Return the lines of a chart, the faintest first."""
    faint = (before.validation if len(before.validation) else before.training) if before else NO_CURVE
    return [
        PlotLine(faint.steps, faint.values, ".", _BEFORE),
        PlotLine(chart.training.steps, chart.training.values, "*", _TRAINING),
        PlotLine(chart.validation.steps, chart.validation.values, "v", _VALIDATION),
    ]


def _head(chart: Chart, before: Chart | None, fine: bool) -> list[tuple[int, Content]]:
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
        parts.append((1, row((label, f"{_VALIDATION} bold"), (show(chart.validation.last), "bold"))))
    if chart.best:
        parts.append((2, row((f"best {show(chart.best.value)} epoch {chart.best.epoch + 1}", "$text-success"))))
    if before and (was := _at_same_step(before, chart)) is not None:
        parts.append((4, row((f"{'' if fine else '. '}previous run {show(was)}", QUIET_COLOUR))))
    return parts


def _at_same_step(before: Chart, chart: Chart) -> float | None:
    """Return the earlier run's value at the newest step of this one; None where it ended before."""
    earlier: Curve = before.validation if len(before.validation) else before.training
    own = chart.validation if len(chart.validation) else chart.training
    if not len(own) or not len(earlier) or own.steps[-1] > earlier.steps[-1] * 1.02:
        return None
    return float(np.interp(own.steps[-1], earlier.steps, earlier.values))


def axis_bounds(curves: Sequence[Curve], *, is_log: bool) -> tuple[float, float]:
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


def highest_step_time(curves: Sequence[Curve]) -> float:
    """Return the top of the axis of step times: the point with the compile step would flatten all the others."""
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
    return text if len(text) <= 5 else f"{value:.2g}" if len(f"{value:.2g}") <= 5 else f"{value:.0e}"

"""The learning curves over the steps of the run: lines of braille over a number axis.

The textual-plot library (0.10) takes 17 ms to draw two lines of 500 points, and a whole frame has 6
ms: this takes one. It also has no plain characters, and needs NumPy 2.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from textual.content import Content

from tfwatch.core import units
from tfwatch.core.clock import Slot, second_of
from tfwatch.core.events import EpochEnded
from tfwatch.judge.findings.situation import metric_name
from tfwatch.screens.pane import FramedPane
from tfwatch.screens.text import COMPUTE_COLOUR, QUIET_COLOUR, WAIT_COLOUR, row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.judge.view import RunView
    from tfwatch.runs.snapshot import Snapshot

Floats = NDArray[np.float64]

#: With fewer epochs the curve is that of the progress, twice a second.
_LEAST_EPOCHS = 4
#: The most points of the loss between them.
_POINTS = 2048
_VALIDATION = "val_"


@dataclass(frozen=True, eq=False)
class MetricCurve:
    """Finite values over steps, both of n points."""

    steps: Floats
    values: Floats

    def __len__(self) -> int:
        return len(self.steps)


@dataclass(frozen=True, eq=False)
class MetricChart:
    """One figure of the training over its steps."""

    name: str
    training: MetricCurve
    validation: MetricCurve


def metric_charts(snapshot: Snapshot) -> list[MetricChart]:
    """Return the charts: the loss and each metric, of at most a few thousand epochs."""
    ended = snapshot.events.of(EpochEnded)
    ended = ended[:: -(len(ended) // _POINTS + 1)][::-1]
    names = dict.fromkeys(["loss", *(name for event in ended for name in event.metrics)])
    metrics = [name for name in names if not name.startswith(_VALIDATION)]
    charts = (_metric_chart(name, ended, snapshot) for name in metrics)
    return [one for one in charts if len(one.training) or len(one.validation)]


def _metric_chart(name: str, ended: Sequence[EpochEnded], snapshot: Snapshot) -> MetricChart:
    training = _curve(name, ended)
    if name == "loss" and len(training) < _LEAST_EPOCHS:
        rows = snapshot.progress[:: len(snapshot.progress) // _POINTS + 1]
        known = rows[np.isfinite(rows["loss"])]
        steps, losses = (known[name].astype(np.float64) for name in ("step", "loss"))
        training = MetricCurve(steps, losses) or training
    return MetricChart(name, training, _curve(_VALIDATION + name, ended))


def _curve(name: str, ended: Sequence[EpochEnded]) -> MetricCurve:
    known = [one for one in ended if math.isfinite(one.metrics.get(name, math.nan))]
    steps, values = [one.step for one in known], [one.metrics[name] for one in known]
    return MetricCurve(np.array(steps, np.float64), np.array(values, np.float64))


# -- the plot --------------------------------------------------------------------------------------

#: The bits of the dots of a braille character, four rows of two.
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], dtype=np.int64)
_BRAILLE = 0x2800


@dataclass(frozen=True, slots=True)
class Frame:
    """The cells of a plot, and the bounds of its axes: steps from 0, and values."""

    width: int
    height: int
    last_step: float
    low: float
    high: float


#: The mark without braille and the style of the lines: training, validation.
_LOOKS = (("*", COMPUTE_COLOUR), ("v", WAIT_COLOUR))


def draw_plot(
    curves: Sequence[MetricCurve], frame: Frame, fine: bool
) -> list[list[tuple[str, str]]]:
    """Draw curves, a later one over an earlier one, as rows of (text, style), the top row first.

    fine: draw with the dots of braille, else with a character a cell.
    """
    across, down = (2, 4) if fine else (1, 1)
    cells: list[list[tuple[str, str]]] = [[(" ", "")] * frame.width for _ in range(frame.height)]
    for curve, (mark, style) in zip(curves, _LOOKS, strict=False):
        dots = _dots(curve, frame, across, down)
        blocks = dots.reshape(frame.height, down, frame.width, across)
        bits = np.einsum("iajb,ab->ij", blocks, _DOTS[:down, :across])
        for y, x in np.argwhere(bits).tolist():
            cells[y][x] = chr(_BRAILLE | int(bits[y, x])) if fine else mark, style
    return [
        [("".join([text for text, _ in run]), style) for style, run in groupby(row, itemgetter(1))]
        for row in cells
    ]


def _dots(curve: MetricCurve, frame: Frame, across: int, down: int) -> NDArray[np.bool_]:
    """Return the dots of a curve, `down` x `across` of them in a cell, without gaps."""
    width, height = frame.width * across, frame.height * down
    dots = np.zeros((height, width), dtype=np.bool_)
    if not len(curve):
        return dots
    steps = (np.arange(width) + 0.5) / width * frame.last_step
    values = np.interp(steps, curve.steps, curve.values, left=np.nan, right=np.nan)
    share = (values - frame.low) / max(frame.high - frame.low, 1e-30)
    rows = np.clip((1 - np.nan_to_num(share)) * height, 0, height - 1).astype(np.int64)
    drawn = np.isfinite(share) & (share >= 0) & (share <= 1)
    for x in np.flatnonzero(drawn).tolist():
        before = int(rows[x - 1]) if x and drawn[x - 1] else int(rows[x])
        top, bottom = min(before + 1, rows[x]), max(before - 1, rows[x])
        dots[top : bottom + 1, x] = True
    return dots


#: Rows of a chart: its figures, at least four of its plot. The axis below all charts has one.
_LEAST_ROWS = 5
_GUTTER = 7
#: Seconds from one drawing to the next: it takes 3 ms, and a curve of minutes and hours changes
#: slowly.
_EVERY_S = 5
#: The parts of the points that the axis shows: a first loss of 10 000 hides all others.
_PERCENTILES = (0.5, 99.5)
_EMPTY = "the curves begin with the first report of the loss"


class CurvesPane(FramedPane):
    """As many charts as fit, the loss first."""

    TITLE = "learning curves"

    def __init__(self, is_fine: bool, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._is_fine = is_fine

    def news(self, view: RunView) -> object:
        """Return what is new every few seconds, and after each epoch."""
        due = second_of(view.snapshot.now_s, Slot.HEADER) // _EVERY_S
        return due, view.snapshot.events.newest(EpochEnded), view.is_over

    def rows(self, width: int, height: int) -> Sequence[Content]:
        charts = metric_charts(self.view.snapshot) if self.view else []
        if self.view is None or not charts:
            return [row((_EMPTY, QUIET_COLOUR))]
        last = self.view.snapshot.steps_total
        charts = charts[: max((height - 1) // _LEAST_ROWS, 1)]
        each = max((height - 1) // len(charts), 2)
        lines = [line for chart in charts for line in self._chart(chart, last, width, each)]
        step = f"step {units.count(last)}"
        room = max(width - _GUTTER - len(step), 1)
        return [*lines, row((f"{'':{_GUTTER}}{'0':<{room}}{step}", QUIET_COLOUR))]

    def _chart(self, chart: MetricChart, last: int, width: int, height: int) -> list[Content]:
        frame = Frame(max(width - _GUTTER, 1), height - 1, float(max(last, 1)), *axis_bounds(chart))
        cells = draw_plot((chart.training, chart.validation), frame, self._is_fine)
        beside = zip(_labels(frame), cells, strict=True)
        plot = [Content.assemble((label, QUIET_COLOUR), *line) for label, line in beside]
        return [_head(chart, self._is_fine), *plot]


def _head(chart: MetricChart, fine: bool) -> Content:
    """Return the newest figures of a chart, with the names of its lines in their colours."""
    names = metric_name(chart.name), "val"
    head = Content()
    for name, curve, (mark, style) in zip(
        names, (chart.training, chart.validation), _LOOKS, strict=True
    ):
        if len(curve):
            key = name if fine else f"{name} {mark}"
            head += row((key, f"{style} bold"), (f" {figure(float(curve.values[-1]))}  ", "bold"))
    return head


def axis_bounds(chart: MetricChart) -> tuple[float, float]:
    """Return the lowest and the highest value to show, with room above and below."""
    values = np.concatenate([chart.training.values, chart.validation.values])
    low, high = (float(value) for value in np.percentile(values, _PERCENTILES))
    room = 0.05 * (high - low) or abs(high) * 0.05 or 1.0
    # A loss is never shown below 0, nor an accuracy above 1, by the room alone.
    floor, ceiling = (0.0 if low >= 0 else -math.inf), (1.0 if low >= 0 and high <= 1 else math.inf)
    return max(low - room, floor), min(high + room, ceiling)


def _labels(frame: Frame) -> list[str]:
    """Return the texts left of the plot: the top, the middle where there is room, the bottom.

    Both ends have as many digits as make them differ.
    """
    labels = [""] * frame.height
    ends = frame.low, frame.high
    digits = next((n for n in (3, 4) if f"{ends[0]:.{n}g}" != f"{ends[1]:.{n}g}"), 5)
    if frame.height >= 5:
        labels[frame.height // 2] = figure(sum(ends) / 2, digits)
    labels[0], labels[-1] = figure(frame.high, digits), figure(frame.low, digits)
    return [f"{label:>{_GUTTER - 1}} "[:_GUTTER] for label in labels]


def figure(value: float, digits: int = 3) -> str:
    """Return a loss or a metric in at most `digits` + 2 characters: `0.123`, `12.3`, `1e+05`."""
    if 0 < abs(value) < 1e-3:
        return f"{value:.0e}"
    texts = (f"{value:.{n}g}" for n in range(digits, 0, -1))
    return next((text for text in texts if len(text) <= digits + 2), f"{value:.0e}")

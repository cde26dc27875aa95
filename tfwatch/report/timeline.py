"""The step time over the whole run as a chart: paths, ticks and marks, which the template draws.

An SVG is stretched to the width of the page, so the text of a chart is HTML beside it, which stays
readable on a phone. No kept library makes such charts: pygal and svgwrite are no longer maintained,
and matplotlib takes a second to load and writes text, fonts and fixed sizes into its SVG.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tfwatch.core import units
from tfwatch.core.events import EpochStarted, LossDiverged
from tfwatch.core.rows import step_ms
from tfwatch.runs.sums import BUCKET_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tfwatch.core.rows import Rows
    from tfwatch.judge.judged_run import JudgedRun
    from tfwatch.runs.snapshot import Snapshot

Floats = NDArray[np.float64]

#: The coordinates of a plot: both axes run from 0 to this.
SIZE = 1000
#: Two columns belong together where the gap between them is at most this share of the plot: half a
#: pixel.
_GAP = 0.0005
#: Columns of the chart, about two pixels each; a run with fewer steps shows each of them.
COLUMNS = 480
#: The top of the chart is this many times the usual step: a stall would flatten all the others.
_ABOVE_USUAL = 1.6
_USUAL = 90
#: Columns of the machine's lane, seconds: sensors read every 0.5 s, some later.
_LEAST_SAMPLE_S = 1.0
#: Labels of marks need this much room, percent of the chart.
_ROOM = 3.0
#: Of more epochs, not each has a mark; of more switches, none has a line across the chart.
_MOST_MARKS = 12
#: The seconds between two ticks of a time axis.
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_TIMES_S = (
    *(1, 2, 5, 10, 15, 30),
    *(_MINUTE, 2 * _MINUTE, 5 * _MINUTE, 10 * _MINUTE, 15 * _MINUTE, 30 * _MINUTE),
    *(_HOUR, 2 * _HOUR, 4 * _HOUR, 6 * _HOUR, 12 * _HOUR, _DAY),
)
#: The layers from the bottom up, each with its name.
_LAYERS = (
    ("compute", "compute"),
    ("copy", "copy to the GPU"),
    ("host", "host"),
    ("wait", "data wait"),
)


@dataclass(frozen=True, slots=True)
class Tick:
    """A label of an axis. at: percent of the axis."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear scale from `low` to `high`."""

    low: float
    high: float

    def shares(self, values: Floats) -> Floats:
        """Return the values as shares of the scale, cut to 0 and 1; NaN stays NaN."""
        span = self.high - self.low
        clipped: Floats = np.clip((values - self.low) / (span if span > 0 else 1.0), 0.0, 1.0)
        return clipped

    def percent(self, value: float) -> float:
        """Return a value as percent of the scale, 0 to 100."""
        return round(float(self.shares(np.array([value]))[0]) * 100, 2)


@dataclass(frozen=True, slots=True)
class Layer:
    """A part of the step: its CSS class, its name, its path, which covers the layers below it, and
    its mean."""

    part: str
    name: str
    path: str
    mean: str


@dataclass(frozen=True, slots=True)
class Lane:
    """The row of the device below the chart."""

    name: str
    path: str
    #: The value at its upper edge.
    top: str
    typical: str


@dataclass(frozen=True, slots=True)
class Mark:
    """An event on the chart. at, width: percent of the chart, 0 for a moment. label: empty without
    room for it."""

    at: float
    width: float
    label: str
    text: str


@dataclass(frozen=True, slots=True)
class MarkRow:
    """The marks of one kind, above the chart. has_lines: they are few enough to be drawn across
    it."""

    kind: str
    name: str
    marks: list[Mark]
    has_lines: bool = False


@dataclass(frozen=True, slots=True)
class TimelineChart:
    """The chart. cut: the highest column where it is cut off; empty where none is."""

    layers: list[Layer]
    lane: Lane | None
    marks: list[MarkRow]
    times: list[Tick]
    heights: list[Tick]
    cut: str
    per_column: str


def make_timeline(judged: JudgedRun) -> TimelineChart | None:
    """Return the chart of a run; None where it has no step."""
    columns = _columns(judged.run)
    if not np.isfinite(columns.total).any():
        return None
    across = Scale(0.0, max(judged.run.length_s, float(np.nanmax(columns.end_s))))
    top = top_ms(columns.total)
    highest_ms = float(np.nanmax(columns.total))
    return TimelineChart(
        layers=_layers(columns, across, Scale(0.0, top)),
        lane=_lane(judged, across),
        marks=_marks(judged, across),
        times=time_ticks(across),
        heights=_height_ticks(Scale(0.0, top)),
        cut=units.milliseconds(highest_ms) if highest_ms > top else "",
        per_column=_per_column(columns),
    )


# -- columns ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _StepColumns:
    """Stretches of time with the mean parts of their steps, ms; NaN where there are no steps.
    compute: without copy.

    begin_s, end_s: seconds since the clock origin. steps: the number of steps of each.
    """

    begin_s: Floats
    end_s: Floats
    steps: Floats
    wait: Floats
    compute: Floats
    copy: Floats
    host: Floats

    @property
    def total(self) -> Floats:
        """The step time."""
        return self.wait + self.compute + self.copy + self.host


def _columns(run: Snapshot) -> _StepColumns:
    if len(run.steps) <= COLUMNS:
        return _single_steps(run.plausible_steps)
    pyramid = run.pyramid
    length_s = max(run.length_s, pyramid.end_s)
    width_s = BUCKET_S * max(1, np.ceil(length_s / COLUMNS / BUCKET_S))
    means = pyramid.columns(length_s, width_s, int(length_s / width_s) + 1)
    edges = np.append(means.start_s, means.end_s)
    copy = np.nan_to_num(means.copy_ms)
    parts = (means.wait_ms, means.compute_ms - copy, copy, means.host_ms)
    return _StepColumns(edges[:-1], edges[1:], means.steps.astype(float), *parts)


def _single_steps(rows: Rows) -> _StepColumns:
    begin_s = rows["start_ns"] / 1e9
    copy = np.nan_to_num(rows["copy_ms"].astype(float))
    wait, compute, host = (rows[f"{part}_ms"].astype(float) for part in ("wait", "compute", "host"))
    end_s = begin_s + step_ms(rows, np.float64) / 1e3
    return _StepColumns(begin_s, end_s, np.ones(len(rows)), wait, compute - copy, copy, host)


def _layers(columns: _StepColumns, across: Scale, up: Scale) -> list[Layer]:
    """Return the layers, the highest first: each is drawn over the one before."""
    begins, ends = across.shares(columns.begin_s), across.shares(columns.end_s)
    layers, sums = [], np.zeros(len(columns.wait))
    for part, name in _LAYERS:
        values = getattr(columns, part)
        sums = sums + values
        if part != "copy" or values.any():
            path = areas(begins, ends, up.shares(sums))
            layers.append(Layer(part, name, path, units.milliseconds(_mean(values, columns.steps))))
    return layers[::-1]


def _mean(values: Floats, steps: Floats) -> float:
    return float(np.nansum(values * steps) / max(steps[np.isfinite(values)].sum(), 1))


def _per_column(columns: _StepColumns) -> str:
    if columns.steps.max() <= 1:
        return "Each column is one step"
    width_s = float(columns.end_s[0] - columns.begin_s[0])
    spans = units.seconds(width_s) if width_s >= _MINUTE else f"{width_s:g} s"
    return f"Each column is the mean of the steps of {spans}"


def areas(begins: Floats, ends: Floats, values: Floats) -> str:
    """Return the path of columns over the base line. All arguments are shares of the plot; NaN has
    no column."""
    stretches = _stretches(begins, ends, values)
    return "".join(_area(begins[part], ends[part], values[part]) for part in stretches)


def _stretches(begins: Floats, ends: Floats, values: Floats) -> Iterator[slice]:
    """Yield the stretches of known columns without a gap."""
    known = np.flatnonzero(np.isfinite(values))
    if not len(known):
        return
    apart = (np.diff(known) > 1) | (begins[known[1:]] - ends[known[:-1]] > _GAP)
    for part in np.split(known, np.flatnonzero(apart) + 1):
        yield slice(int(part[0]), int(part[-1]) + 1)


def _area(begins: Floats, ends: Floats, values: Floats) -> str:
    edges = np.append(begins, ends[-1])
    tops = zip(values, edges[1:], strict=True)
    columns = "".join(f"V{(1 - value) * SIZE:.0f}H{_x(edge)}" for value, edge in tops)
    return f"M{_x(edges[0])} {SIZE}{columns}V{SIZE}Z"


def _x(share: float) -> str:
    return f"{share * SIZE:.1f}".removesuffix(".0")


# -- axes ------------------------------------------------------------------------------------------


def top_ms(total: Floats) -> float:
    """Return the top of the chart: a round figure above nearly all columns."""
    known = total[np.isfinite(total)]
    usual = _ABOVE_USUAL * float(np.percentile(known, _USUAL))
    return round_up(min(float(known.max()), usual))


def _height_ticks(up: Scale) -> list[Tick]:
    step = round_up((up.high - up.low) / 4)
    last = math.floor(up.high / step + 1e-9)
    return [Tick(up.percent(n * step), height_text(n * step)) for n in range(last + 1)]


def height_text(ms: float) -> str:
    """Return `20 ms`, `12 s`, `0`: the label of a height."""
    return f"{ms / 1e3:g} s" if ms >= 10_000 else f"{ms:g} ms" if ms else "0"


def time_ticks(scale: Scale, most: int = 8) -> list[Tick]:
    """Return ticks of a time axis, seconds."""
    step = next((one for one in _TIMES_S if scale.high / one <= most), None)
    step = step or _DAY * math.ceil(scale.high / _DAY / most)
    return [Tick(scale.percent(at), time_text(at)) for at in range(0, int(scale.high) + 1, step)]


def time_text(at_s: float) -> str:
    """Return `0`, `40 s`, `2:30`, `3 h`, `3 h 30`: a moment of a run."""
    whole = round(at_s)
    if whole < _MINUTE:
        return f"{whole} s" if whole else "0"
    if whole < _HOUR:
        return f"{whole // 60}:{whole % 60:02d}"
    hours, minutes = whole // _HOUR, whole % _HOUR // 60
    return f"{hours} h {minutes:02d}" if minutes else f"{hours} h"


def round_up(value: float) -> float:
    """Return the next round number: a power of ten times a short number; 1 for 0 and less."""
    if not value > 0 or math.isinf(value):
        return 1.0
    power: float = 10.0 ** math.floor(math.log10(value))
    rounds = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
    return next(power * times for times in rounds if power * times >= value * (1 - 1e-9))


# -- the device's lane -----------------------------------------------------------------------------


def _lane(judged: JudgedRun, across: Scale) -> Lane | None:
    """Return how busy the GPU was, else the cores in use; None without a figure."""
    manifest, samples = judged.run.manifest, judged.run.samples
    name, column = ("GPU busy", "gpu_busy") if manifest.accelerated else ("CPU cores", "cpu_cores")
    words = units.percent if manifest.accelerated else units.number
    values = samples[column].astype(float)
    known = values[np.isfinite(values)]
    if not len(known):
        return None
    cores = float(manifest.machine.get("cores") or round_up(float(known.max())))
    top = 1.0 if manifest.accelerated else cores
    width_s = max(_LEAST_SAMPLE_S, across.high / COLUMNS)
    edges_s = np.arange(0.0, across.high + width_s, width_s)
    means, places = _mean_of(samples["at_ns"] / 1e9, values, edges_s), across.shares(edges_s)
    path = areas(places[:-1], places[1:], Scale(0.0, top).shares(means))
    return Lane(name, path, words(top), words(float(np.median(known))))


def _mean_of(at_s: Floats, values: Floats, edges_s: Floats) -> Floats:
    """Return the mean of the values between neighbouring edges; NaN where there are none."""
    known = np.isfinite(values)
    counts, _ = np.histogram(at_s[known], edges_s)
    sums, _ = np.histogram(at_s[known], edges_s, weights=values[known])
    means: Floats = np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    return means


# -- marks -----------------------------------------------------------------------------------------


def _marks(judged: JudgedRun, across: Scale) -> list[MarkRow]:
    """Return the epochs, switches, stalls and divergences, each in a row of its own."""
    switches, diverged = _switches(judged, across), _divergences(judged, across)
    marks = (
        MarkRow("epoch", "epochs", _epochs(judged, across)),
        MarkRow("switch", "switches", _with_room(switches), len(switches) <= _MOST_MARKS),
        MarkRow("stall", "stalls", _stalls(judged, across)),
        MarkRow("diverged", "loss", _with_room(diverged), len(diverged) <= _MOST_MARKS),
    )
    return [row for row in marks if row.marks]


def _epochs(judged: JudgedRun, across: Scale) -> list[Mark]:
    """Return the epochs, each with its number; of many, each fifth or hundredth."""
    events = judged.run.events.of(EpochStarted)
    every = math.ceil(round_up(len(events) / _MOST_MARKS)) if len(events) > _MOST_MARKS else 1
    chosen: Sequence[EpochStarted] = [
        one for one in events if every == 1 or not (one.epoch + 1) % every
    ]
    marks = [
        _mark(across, one.at_ns, str(one.epoch + 1), f"epoch {one.epoch + 1} begins")
        for one in chosen
    ]
    return [mark for mark in _with_room(marks) if mark.label]


def _mark(across: Scale, at_ns: float, label: str, text: str) -> Mark:
    return Mark(across.percent(at_ns / 1e9), 0.0, label, text)


def _switches(judged: JudgedRun, across: Scale) -> list[Mark]:
    begin_ns = judged.run.steps["start_ns"]
    return [
        _mark(
            across,
            float(begin_ns[switch.step - 1]),
            str(number),
            f"{number}: {switch.change.words} at step {units.count(switch.step)}",
        )
        for number, switch in enumerate(judged.summary.switches, 1)
        if switch.step <= len(begin_ns)
    ]


def _stalls(judged: JudgedRun, across: Scale) -> list[Mark]:
    return [
        Mark(
            across.percent(stall.start_ns / 1e9),
            round(stall.lost_ms / 1e3 / across.high * 100, 2),
            "",
            f"{units.seconds(stall.lost_ms / 1e3)} without data at step"
            f" {units.count(stall.step)}, {stall.cause}",
        )
        for stall in judged.summary.stalls
    ]


def _divergences(judged: JudgedRun, across: Scale) -> list[Mark]:
    events = judged.run.events.of(LossDiverged)
    return [
        _mark(across, one.at_ns, one.loss, f"loss is {one.loss} at step {units.count(one.step)}")
        for one in events
    ]


def _with_room(marks: list[Mark]) -> list[Mark]:
    """Return the marks, with a label only where it does not touch the one before."""
    end, marks_kept = -_ROOM, []
    for mark in sorted(marks, key=lambda one: one.at):
        fits = mark.at >= end
        marks_kept.append(mark if fits else replace(mark, label=""))
        end = mark.at + _ROOM if fits else end
    return marks_kept

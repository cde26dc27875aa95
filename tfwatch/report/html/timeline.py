"""The step time over the whole run: stacked areas, lanes below them, and marks above them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core import units
from tfwatch.core.events import EpochStarted, LossDiverged
from tfwatch.core.rows import step_ms
from tfwatch.report.html.plot import Scale, areas, round_up, ticks, time_text, time_ticks
from tfwatch.runs.sums import BUCKET_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfwatch.core.rows import Rows
    from tfwatch.judge.judged_run import JudgedRun
    from tfwatch.report.html.plot import Floats, Tick
    from tfwatch.runs.snapshot import Snapshot

#: Columns of the chart, about two pixels each; a run with fewer steps shows each of them.
COLUMNS = 480
#: The top of the chart is this many times the usual step: a stall would flatten all the others.
_ABOVE_USUAL = 1.6
_USUAL = 90
#: Columns of the machine's lanes, seconds: sensors read every 0.5 s, some later.
_LEAST_SAMPLE_S = 1.0
#: Labels of marks need this much room, percent of the chart.
_ROOM = 3.0
#: Of more epochs, not each has a mark; of more switches, none has a line across the chart.
_MOST_EPOCHS, _MOST_LINES = 30, 12
#: The layers from the bottom up, each with its name.
_LAYERS = (
    ("compute", "compute"),
    ("copy", "copy to the GPU"),
    ("host", "host"),
    ("wait", "data wait"),
)


@dataclass(frozen=True, eq=False)
class Columns:
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
    """One row below the chart. path: empty where it has no figures. top: the value at its upper
    edge."""

    kind: str
    name: str
    path: str
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
class Hover:
    """The figures of one column, shown where the pointer rests. at, width: of 1000."""

    at: float
    width: float
    text: str


@dataclass(frozen=True, slots=True)
class TimelineChart:
    """The chart. cut: the highest column where it is cut off; empty where none is."""

    layers: list[Layer]
    lanes: list[Lane]
    marks: list[MarkRow]
    hovers: list[Hover]
    times: list[Tick]
    heights: list[Tick]
    cut: str
    per_column: str


def make_timeline(judged: JudgedRun) -> TimelineChart | None:
    """Return the chart of a run; None where it has no step."""
    run = judged.run
    columns = _columns(run)
    if not np.isfinite(columns.total).any():
        return None
    across = Scale(0.0, max(run.length_s, float(np.nanmax(columns.end_s))))
    top = top_ms(columns.total)
    up = Scale(0.0, top)
    begins, ends = across.shares(columns.begin_s), across.shares(columns.end_s)
    highest_ms = float(np.nanmax(columns.total))
    return TimelineChart(
        layers=_layers(columns, begins, ends, up),
        lanes=_lanes(judged, columns, begins, ends, across),
        marks=_marks(judged, across),
        hovers=_hovers(columns, begins, ends),
        times=time_ticks(across),
        heights=ticks(up, height_text),
        cut=units.milliseconds(highest_ms) if highest_ms > top else "",
        per_column=_per_column(columns),
    )


def _columns(run: Snapshot) -> Columns:
    if len(run.steps) <= COLUMNS:
        return _single_steps(run.plausible_steps)
    pyramid = run.pyramid
    length_s = max(run.length_s, pyramid.end_s)
    width_s = BUCKET_S * max(1, np.ceil(length_s / COLUMNS / BUCKET_S))
    columns = pyramid.columns(length_s, width_s, int(length_s / width_s) + 1)
    edges = np.append(columns.start_s, columns.end_s)
    copy = np.nan_to_num(columns.copy_ms)
    return Columns(
        edges[:-1],
        edges[1:],
        columns.steps.astype(float),
        columns.wait_ms,
        columns.compute_ms - copy,
        copy,
        columns.host_ms,
    )


def _single_steps(rows: Rows) -> Columns:
    begin_s = rows["start_ns"] / 1e9
    copy = np.nan_to_num(rows["copy_ms"].astype(float))
    wait, compute, host = (rows[f"{part}_ms"].astype(float) for part in ("wait", "compute", "host"))
    end_s = begin_s + step_ms(rows, np.float64) / 1e3
    return Columns(begin_s, end_s, np.ones(len(rows)), wait, compute - copy, copy, host)


def top_ms(total: Floats) -> float:
    """Return the top of the chart: a round figure above nearly all columns."""
    known = total[np.isfinite(total)]
    return round_up(
        min(float(known.max()), _ABOVE_USUAL * float(np.percentile(known, _USUAL))),
        (1.5, 3, 4, 6, 8),
    )


def height_text(ms: float) -> str:
    """Return `20 ms`, `12 s`, `0`: the label of a height."""
    return f"{ms / 1e3:g} s" if ms >= 10_000 else f"{ms:g} ms" if ms else "0"


def _layers(columns: Columns, begins: Floats, ends: Floats, up: Scale) -> list[Layer]:
    """Return the layers, the highest first: each is drawn over the one before."""
    layers, sums = [], np.zeros(len(columns.wait))
    for part, name in _LAYERS:
        values = getattr(columns, part)
        sums = sums + values
        if part != "copy" or values.any():
            mean = np.nansum(values * columns.steps) / max(
                columns.steps[np.isfinite(values)].sum(), 1
            )
            layers.append(
                Layer(
                    part,
                    name,
                    areas(begins, ends, up.shares(sums)),
                    units.milliseconds(float(mean)),
                )
            )
    return layers[::-1]


def _hovers(columns: Columns, begins: Floats, ends: Floats) -> list[Hover]:
    last = np.cumsum(columns.steps).astype(int)
    hovers = []
    for n in np.flatnonzero(np.isfinite(columns.total)).tolist():
        parts = ", ".join(
            f"{name} {units.milliseconds(getattr(columns, part)[n])}"
            for part, name in reversed(_LAYERS)
            if part != "copy" or columns.copy[n]
        )
        at = f"{time_text(columns.begin_s[n])}, step {units.count(max(int(last[n]), 1))}"
        text = f"{at}: {units.milliseconds(columns.total[n])}/step: {parts}"
        hovers.append(
            Hover(round(begins[n] * 1000, 1), round((ends[n] - begins[n]) * 1000, 1), text)
        )
    return hovers


def _per_column(columns: Columns) -> str:
    if columns.steps.max() <= 1:
        return "Each column is one step"
    width_s = float(columns.end_s[0] - columns.begin_s[0])
    spans = units.seconds(width_s) if width_s >= 60 else f"{width_s:g} s"
    return f"Each column is the mean of the steps of {spans}"


# -- lanes -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Samples:
    """The machine's samples in columns of their own: steps may be shorter than the sensors' half
    second."""

    rows: Rows
    edges_s: Floats
    across: Scale

    def lane(self, kind: str, name: str, column: str, top: float, texts: tuple[str, str]) -> Lane:
        """Return the lane of a column of `core.rows.SAMPLE`. texts: the top and the typical
        value."""
        means = _mean_of(self.rows["at_ns"] / 1e9, self.rows[column].astype(float), self.edges_s)
        places = self.across.shares(self.edges_s)
        return Lane(
            kind, name, areas(places[:-1], places[1:], Scale(0.0, top).shares(means)), *texts
        )

    def known(self, column: str) -> Floats:
        """Return the known values of a column."""
        values = self.rows[column].astype(float)
        known: Floats = values[np.isfinite(values)]
        return known


def _lanes(
    judged: JudgedRun, columns: Columns, begins: Floats, ends: Floats, across: Scale
) -> list[Lane]:
    total = columns.total
    share = np.divide(columns.wait, total, out=np.full(len(total), np.nan), where=total > 0)
    starving = judged.summary.steady.wait_share if judged.summary.steady else None
    wait = Lane("wait", "starving", areas(begins, ends, share), "100 %", units.percent(starving))
    width_s = max(_LEAST_SAMPLE_S, across.high / COLUMNS)
    samples = _Samples(judged.run.samples, np.arange(0.0, across.high + width_s, width_s), across)
    return [wait, *_machine_lanes(judged, samples)]


def _machine_lanes(judged: JudgedRun, samples: _Samples) -> Iterator[Lane]:
    manifest = judged.run.manifest
    busy, cores = samples.known("gpu_busy"), samples.known("cpu_cores")
    if manifest.accelerated or len(busy):
        typical = units.percent(float(np.median(busy))) if len(busy) else units.MISSING
        yield samples.lane("gpu", "GPU busy", "gpu_busy", 1.0, ("100 %", typical))
    if not manifest.accelerated and len(cores):
        top = float(manifest.machine.get("cores") or round_up(float(cores.max())))
        yield samples.lane(
            "gpu",
            "CPU",
            "cpu_cores",
            top,
            (f"{top:.0f} cores", f"{np.median(cores):.1f} of {top:.0f}"),
        )
    used = samples.known("process_bytes")
    if len(used):
        top = float(used.max()) * 1.1
        yield samples.lane(
            "memory", "memory", "process_bytes", top, (units.memory(top), units.memory(used.max()))
        )
    power = samples.known("gpu_power_w")
    if len(power):
        top = round_up(float(power.max()))
        yield samples.lane(
            "power",
            "power",
            "gpu_power_w",
            top,
            (units.watts(top), units.watts(float(np.median(power)))),
        )


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
    rows = [
        MarkRow("epoch", "epochs", _epochs(judged, across)),
        MarkRow("switch", "switches", _with_room(switches), len(switches) <= _MOST_LINES),
        MarkRow("stall", "stalls", _stalls(judged, across)),
        MarkRow("diverged", "loss", _with_room(diverged), len(diverged) <= _MOST_LINES),
    ]
    return [row for row in rows if row.marks]


def _epochs(judged: JudgedRun, across: Scale) -> list[Mark]:
    """Return the epochs; of many, each tenth or hundredth."""
    events = [event for event in judged.run.events if isinstance(event, EpochStarted)]
    every = round_up(len(events) / _MOST_EPOCHS, (3, 4)) if len(events) > _MOST_EPOCHS else 1
    marks = [
        Mark(
            across.percent(event.at_ns / 1e9),
            0.0,
            str(event.epoch + 1),
            f"epoch {event.epoch + 1} begins",
        )
        for event in events
        if every == 1 or (event.epoch + 1) % int(every) == 0
    ]
    return _with_room(marks)


def _switches(judged: JudgedRun, across: Scale) -> list[Mark]:
    begin_ns = judged.run.steps["start_ns"]
    return [
        Mark(
            at=across.percent(float(begin_ns[switch.step - 1]) / 1e9),
            width=0.0,
            label=str(number),
            text=f"{number}: {switch.change.words} at step {units.count(switch.step)}",
        )
        for number, switch in enumerate(judged.summary.switches, 1)
        if switch.step is not None and switch.step <= len(begin_ns)
    ]


def _stalls(judged: JudgedRun, across: Scale) -> list[Mark]:
    return [
        Mark(
            at=across.percent(stall.start_ns / 1e9),
            width=round(stall.lost_ms / 1e3 / across.high * 100, 2),
            label="",
            text=(
                f"{units.seconds(stall.lost_ms / 1e3)} without data at step"
                f" {units.count(stall.step)}, {stall.cause}"
            ),
        )
        for stall in judged.summary.stalls
    ]


def _divergences(judged: JudgedRun, across: Scale) -> list[Mark]:
    events = (event for event in judged.run.events if isinstance(event, LossDiverged))
    return [
        Mark(
            across.percent(event.at_ns / 1e9),
            0.0,
            event.loss,
            f"loss is {event.loss} at step {event.step}",
        )
        for event in events
    ]


def _with_room(marks: list[Mark]) -> list[Mark]:
    """Return the marks, with a label only where it does not touch the one before."""
    end, marks_kept = -_ROOM, []
    for mark in sorted(marks, key=lambda one: one.at):
        fits = mark.at >= end
        marks_kept.append(mark if fits else replace(mark, label=""))
        end = mark.at + _ROOM if fits else end
    return marks_kept

"""The step time over the whole run as a chart: paths, ticks and marks, which the template draws.

An SVG is stretched to the width of the page, so the text of a chart is HTML beside it, which stays
readable on a phone. No kept library makes such charts: pygal and svgwrite are no longer maintained,
and matplotlib takes a second to load and writes text, fonts and fixed sizes into its SVG.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tfwatch.core import units
from tfwatch.core.events import EpochStarted
from tfwatch.core.rows import step_ms
from tfwatch.runs.sums import BUCKET_S

if TYPE_CHECKING:
    from collections.abc import Iterator

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
#: The most epochs that are marked, and the most switches.
_MOST_MARKS = 12
_ROUND = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
_MINUTE_S, _HOUR_S = 60, 3600
#: The layers from the bottom up, each with its name.
_LAYERS = (
    ("compute", "compute"),
    ("copy", "copy to the GPU"),
    ("host", "host"),
    ("wait", "data wait"),
)


@dataclass(frozen=True, slots=True)
class Layer:
    """A part of the step: its CSS class, its name, its path, which covers the layers below it, and
    its mean."""

    part: str
    name: str
    path: str
    mean: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A label of an axis, or of an event. at: percent of the axis. text: the whole sentence."""

    at: float
    label: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class TimelineChart:
    """The chart. cut: the highest column where it is cut off; empty where none is."""

    layers: list[Layer]
    epochs: list[Mark]
    switches: list[Mark]
    times: list[Mark]
    heights: list[Mark]
    cut: str
    per_column: str


def make_timeline(judged: JudgedRun) -> TimelineChart | None:
    """Return the chart of a run; None where it has no step."""
    columns = _columns(judged.run)
    if not np.isfinite(columns.total).any():
        return None
    length_s = max(judged.run.length_s, float(np.nanmax(columns.end_s)))
    top = top_ms(columns.total)
    highest_ms = float(np.nanmax(columns.total))
    return TimelineChart(
        layers=_layers(columns, length_s, top),
        epochs=_epochs(judged.run, length_s),
        switches=_switches(judged, length_s),
        times=[Mark(25.0 * n, time_text(length_s * n / 4)) for n in range(5)],
        heights=[Mark(50.0 * n, height_text(top * n / 2)) for n in range(3)],
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
    time_sums = run.time_sums
    length_s = max(run.length_s, time_sums.end_s)
    width_s = BUCKET_S * max(1, np.ceil(length_s / COLUMNS / BUCKET_S))
    means = time_sums.columns(length_s, width_s, int(length_s / width_s) + 1)
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


def _layers(columns: _StepColumns, length_s: float, top: float) -> list[Layer]:
    """Return the layers, the highest first: each is drawn over the one before."""
    begins, ends = columns.begin_s / length_s, columns.end_s / length_s
    layers, sums = [], np.zeros(len(columns.wait))
    for part, name in _LAYERS:
        values = getattr(columns, part)
        sums = sums + values
        if part != "copy" or values.any():
            path = areas(begins, ends, np.clip(sums / top, 0.0, 1.0))
            layers.append(Layer(part, name, path, units.milliseconds(_mean(values, columns.steps))))
    return layers[::-1]


def _mean(values: Floats, steps: Floats) -> float:
    return float(np.nansum(values * steps) / max(steps[np.isfinite(values)].sum(), 1))


def _per_column(columns: _StepColumns) -> str:
    if columns.steps.max() <= 1:
        return "Each column is one step"
    width_s = float(columns.end_s[0] - columns.begin_s[0])
    spans = units.seconds(width_s) if width_s >= _MINUTE_S else f"{width_s:g} s"
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


# -- axes and marks --------------------------------------------------------------------------------


def top_ms(total: Floats) -> float:
    """Return the top of the chart: a round figure above nearly all columns."""
    known = total[np.isfinite(total)]
    usual = _ABOVE_USUAL * float(np.percentile(known, _USUAL))
    return round_up(min(float(known.max()), usual))


def round_up(value: float) -> float:
    """Return the next round number: a power of ten times a short number; 1 for 0 and less."""
    if not value > 0 or math.isinf(value):
        return 1.0
    power: float = 10.0 ** math.floor(math.log10(value))
    return next(power * times for times in _ROUND if power * times >= value * (1 - 1e-9))


def height_text(ms: float) -> str:
    """Return `20 ms`, `12 s`, `0`: the label of a height."""
    return f"{ms / 1e3:g} s" if ms >= 10_000 else f"{ms:g} ms" if ms else "0"


def time_text(at_s: float) -> str:
    """Return `0`, `40 s`, `2:30`, `3 h`, `3 h 30`: a moment of a run."""
    whole = round(at_s)
    if whole < _MINUTE_S:
        return f"{whole} s" if whole else "0"
    if whole < _HOUR_S:
        return f"{whole // 60}:{whole % 60:02d}"
    hours, minutes = whole // _HOUR_S, whole % _HOUR_S // 60
    return f"{hours} h {minutes:02d}" if minutes else f"{hours} h"


def _epochs(run: Snapshot, length_s: float) -> list[Mark]:
    """Return the epochs, each with its number; of many, each fifth or hundredth."""
    events = run.events.of(EpochStarted)
    every = math.ceil(round_up(len(events) / _MOST_MARKS)) if len(events) > _MOST_MARKS else 1
    return [
        Mark(_percent(event.at_ns, length_s), str(event.epoch + 1), f"epoch {event.epoch + 1}")
        for event in events
        if every == 1 or (event.epoch + 1) % every == 0
    ]


def _switches(judged: JudgedRun, length_s: float) -> list[Mark]:
    """Return the first switches, each with its number in the table of effects."""
    begin_ns = judged.run.steps["start_ns"]
    switches = [
        (number, switch)
        for number, switch in enumerate(judged.summary.switches, 1)
        if switch.step <= len(begin_ns)
    ]
    return [
        Mark(
            _percent(float(begin_ns[(switch.step or 1) - 1]), length_s),
            str(number),
            f"{number}: {switch.change.words} at step {units.count(switch.step or 0)}",
        )
        for number, switch in switches[:_MOST_MARKS]
    ]


def _percent(at_ns: float, length_s: float) -> float:
    return round(min(at_ns / 1e9 / length_s, 1.0) * 100, 2)

"""The step time over the whole run as a chart: paths and marks, which the template draws.

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
from tfwatch.runs.sums import BUCKET_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tfwatch.judge.judged_run import JudgedRun
    from tfwatch.runs.snapshot import Snapshot
    from tfwatch.runs.sums import TimeColumns

Floats = NDArray[np.float64]

#: The coordinates of a plot: both axes run from 0 to this.
SIZE = 1000
#: The most columns of the chart, about two pixels each.
COLUMNS = 480
#: The top of the chart is this many times the usual step: a stall would flatten all the others.
_ABOVE_USUAL = 1.6
_USUAL = 90
#: The most epochs that are marked, and the most switches.
_MOST_MARKS = 12
#: The layers from the bottom up, each with its name.
_LAYERS = {"compute": "compute", "copy": "copy to the GPU", "host": "host", "wait": "data wait"}


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
    """The chart. column: the time of one. cut: the highest one where it is cut off; empty where
    none is."""

    layers: list[Layer]
    epochs: list[Mark]
    switches: list[Mark]
    times: list[Mark]
    heights: list[Mark]
    column: str
    cut: str


def make_timeline(judged: JudgedRun) -> TimelineChart | None:
    """Return the chart of a run; None where it has no step."""
    run = judged.run
    length_s = max(run.length_s, run.time_sums.end_s)
    width_s = BUCKET_S * max(1, math.ceil(length_s / COLUMNS / BUCKET_S))
    columns = run.time_sums.columns(length_s, width_s, int(length_s / width_s) + 1)
    parts = _parts(columns)
    total = np.sum(list(parts.values()), axis=0)
    if not np.isfinite(total).any():
        return None
    top = _top_ms(total)
    highest = float(np.nanmax(total))
    return TimelineChart(
        layers=_layers(columns, parts, length_s, top),
        epochs=_epochs(run, length_s),
        switches=_switches(judged, length_s),
        times=[Mark(25.0 * n, units.seconds(length_s * n / 4)) for n in range(5)],
        heights=[Mark(50.0 * n, units.milliseconds(top * n / 2)) for n in range(3)],
        column=units.seconds(width_s),
        cut=units.milliseconds(highest) if highest > top else "",
    )


def _parts(columns: TimeColumns) -> dict[str, Floats]:
    """Return the mean parts of the steps of each column, from the bottom up, ms; NaN where there
    are no steps."""
    copy = np.nan_to_num(columns.copy_ms)
    compute = columns.compute_ms - copy
    return {"compute": compute, "copy": copy, "host": columns.host_ms, "wait": columns.wait_ms}


def _top_ms(total: Floats) -> float:
    """Return the top of the chart: above nearly all columns."""
    known = total[np.isfinite(total)]
    return max(min(float(known.max()), _ABOVE_USUAL * float(np.percentile(known, _USUAL))), 1e-3)


def _layers(
    columns: TimeColumns, parts: dict[str, Floats], length_s: float, top: float
) -> list[Layer]:
    """Return the layers, the highest first: each is drawn over the one before."""
    edges = np.clip(np.append(columns.start_s, columns.end_s) / length_s, 0.0, 1.0)
    layers, sums = [], np.zeros(len(columns.steps))
    for part, values in parts.items():
        sums = sums + values
        if part != "copy" or values.any():
            path = _path(edges, np.clip(sums / top, 0.0, 1.0))
            mean = np.nansum(values * columns.steps) / columns.steps.sum()
            layers.append(Layer(part, _LAYERS[part], path, units.milliseconds(float(mean))))
    return layers[::-1]


def _path(edges: Floats, values: Floats) -> str:
    """Return the path of columns over the base line. Both arguments are shares of the plot; NaN has
    no column."""
    known = np.flatnonzero(np.isfinite(values))
    return "".join(
        f"M{_place(edges[n])} {SIZE}V{_place(1 - values[n])}H{_place(edges[n + 1])}V{SIZE}Z"
        for n in known
    )


def _place(share: float) -> str:
    return f"{share * SIZE:.1f}".removesuffix(".0")


# -- marks -----------------------------------------------------------------------------------------


def _epochs(run: Snapshot, length_s: float) -> list[Mark]:
    """Return the epochs, each with its number; of many, every nth."""
    events = run.events.of(EpochStarted)
    every = math.ceil(len(events) / _MOST_MARKS) or 1
    numbers = ((event.at_ns, event.epoch + 1) for event in events)
    marked = [(at_ns, str(number)) for at_ns, number in numbers if (number - 1) % every == 0]
    return _marks(((at_ns, label, f"epoch {label}") for at_ns, label in marked), length_s)


def _switches(judged: JudgedRun, length_s: float) -> list[Mark]:
    """Return the first switches, each with its number."""
    begin_ns = judged.run.steps["start_ns"]
    switches = [one for one in judged.switches if 0 < (one.step or 0) <= len(begin_ns)]
    return _marks(
        (
            (
                int(begin_ns[(one.step or 1) - 1]),
                str(number),
                f"{one.change.words} at step {units.count(one.step or 0)}",
            )
            for number, one in enumerate(switches[:_MOST_MARKS], 1)
        ),
        length_s,
    )


def _marks(found: Iterable[Sequence[int | str]], length_s: float) -> list[Mark]:
    return [
        Mark(round(min(int(at_ns) / 1e9 / length_s, 1.0) * 100, 2), str(label), str(text))
        for at_ns, label, text in found
    ]

"""The chart of a group's steps: stacked areas over the numbers of the steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core import units
from tfwatch.report.html.plot import Scale, areas, ticks
from tfwatch.report.html.timeline import COLUMNS, Hover, Layer, height_text, top_ms

if TYPE_CHECKING:
    from tfwatch.analysis.groups.step_sums import GroupSteps, StepColumns
    from tfwatch.report.html.plot import Floats, Tick

#: The layers from the bottom up: class and name.
_LAYERS = (("compute", "the call that all ranks share"), ("host", "host"), ("wait", "data wait"))
_MOST_TICKS = 8


@dataclass(frozen=True, slots=True)
class GroupChart:
    """The chart. cut: the highest column where it is cut off; empty where none is."""

    layers: list[Layer]
    hovers: list[Hover]
    steps: list[Tick]
    heights: list[Tick]
    cut: str
    per_column: str


def make_group_chart(steps: GroupSteps | None) -> GroupChart | None:
    """Return the chart; None where the ranks have too few steps in common."""
    if steps is None:
        return None
    columns = steps.columns(COLUMNS)
    total: Floats = np.sum(columns.parts, axis=0)
    top, highest, each = top_ms(total), float(total.max()), int(columns.counts.max())
    up, across = Scale(0.0, top), Scale(float(columns.first[0]), float(columns.last[-1] + 1))
    begins, ends = across.shares(columns.first.astype(float)), across.shares((columns.last + 1).astype(float))
    return GroupChart(
        layers=_layers(columns, begins, ends, up),
        hovers=_hovers(columns, begins, ends),
        steps=ticks(across, lambda step: f"step {units.count(round(step))}", _MOST_TICKS),
        heights=ticks(up, height_text),
        cut=units.milliseconds(highest) if highest > top else "",
        per_column="Each column is one step" if each == 1 else f"Each column is the mean of {each} steps at most",
    )


def _layers(columns: StepColumns, begins: Floats, ends: Floats, up: Scale) -> list[Layer]:
    """Return the layers, the highest first: each is drawn over the one before."""
    sums = np.cumsum(columns.parts, axis=0)
    means = [float(np.average(part, weights=columns.counts)) for part in columns.parts]
    found = [
        Layer(part, name, areas(begins, ends, up.shares(edge)), units.milliseconds(mean))
        for (part, name), edge, mean in zip(_LAYERS, sums, means, strict=True)
    ]
    return found[::-1]


def _hovers(columns: StepColumns, begins: Floats, ends: Floats) -> list[Hover]:
    found = []
    for n, total in enumerate(np.sum(columns.parts, axis=0)):
        first, last = int(columns.first[n]), int(columns.last[n])
        where = f"step {units.count(first)}" + (f" to {units.count(last)}" if last > first else "")
        parts = ", ".join(
            f"{name} {units.milliseconds(float(part[n]))}"
            for (_, name), part in zip(reversed(_LAYERS), reversed(columns.parts), strict=True)
        )
        text = f"{where}: {units.milliseconds(float(total))}/step: {parts}"
        found.append(Hover(round(begins[n] * 1000, 1), round((ends[n] - begins[n]) * 1000, 1), text))
    return found

"""A group as a page, with the chart of its steps, and as a short summary in markdown."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core import units
from tfwatch.core.clock import local_time
from tfwatch.live.groups.rank_lines import state_lines
from tfwatch.report.group_report import group_json
from tfwatch.report.group_sections import make_group_figures, make_group_verdict, make_long_steps, make_rank_rows
from tfwatch.report.html.plot import Scale, areas, ticks
from tfwatch.report.html.templates import environment, page_style
from tfwatch.report.html.timeline import COLUMNS, Hover, Layer, height_text, top_ms
from tfwatch.report.markdown import MarkdownPage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tfwatch.analysis.groups.step_sums import GroupSteps, StepColumns
    from tfwatch.live.groups.judged_group import JudgedGroup
    from tfwatch.report.group_sections import RankSection
    from tfwatch.report.html.plot import Floats, Tick
    from tfwatch.report.html.templates import Redaction
    from tfwatch.runs.library.labels import Labels

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


def as_group_html(
    judged: JudgedGroup,
    steps: GroupSteps | None,
    sections: Sequence[RankSection],
    labels: Labels,
    redaction: Redaction | None = None,
) -> str:
    """Return the page of a group.

    steps: those of the chart. sections: of its ranks. redaction: replaces paths, names and the hosts.
    """
    group, manifest = judged.group, next(iter(judged.group.ranks.values())).manifest
    size, rows = group.file.size, make_rank_rows(judged)
    page = {
        "style": page_style(),
        "is_redacted": redaction is not None,
        "title": manifest.title,
        "label": labels.name,
        "tags": labels.tags,
        "name": group.folder.name,
        "ranks": units.counted(len(group.ranks), "rank") + (f" of {size}" if size and size != len(group.ranks) else ""),
        "launcher": group.file.launcher,
        "state": judged.state,
        "states": state_lines(judged),
        "steps": units.counted(min(one.step for one in judged.ranks), "step"),
        "date": local_time(group.file.began_wall_ns).strftime("%d %b %Y, %H:%M"),
        "verdict": make_group_verdict(judged),
        "figures": make_group_figures(judged),
        "chart": make_group_chart(steps),
        "rows": rows,
        "has_machine": any(row.machine for row in rows),
        "long_steps": make_long_steps(steps),
        "long_step_count": len(steps.long_steps) if steps else 0,
        "sections": sections,
        "versions": list(manifest.versions.items()),
        "raw": json.dumps(group_json(judged), indent=1).split("\n"),
    }
    return environment(redaction).get_template("group.html.j2").render(page)


def as_group_markdown(
    judged: JudgedGroup, steps: GroupSteps | None, labels: Labels, redaction: Redaction | None = None
) -> str:
    """Return the summary of a group.

    steps: those whose long ones are listed. redaction: replaces paths, names and the hosts.
    """
    return _GroupPage(judged, steps, labels, redaction).text()


class _GroupPage(MarkdownPage):
    """The summary of a group."""

    def __init__(
        self, judged: JudgedGroup, steps: GroupSteps | None, labels: Labels, redaction: Redaction | None
    ) -> None:
        super().__init__(redaction)
        self._judged, self._steps = judged, steps
        self._labels = labels

    def text(self) -> str:
        """Return the whole summary."""
        return "\n".join(line for part in (self._head(), self._figures(), self._ranks()) for line in part)

    def _head(self) -> Iterator[str]:
        judged = self._judged
        verdict, ranks = make_group_verdict(judged), judged.group.ranks
        title, count = self._labels.name or next(iter(ranks.values())).manifest.title, units.counted(len(ranks), "rank")
        yield f"### {self._plain(f'{title}, {count}')}"
        yield ""
        yield f"**{self._plain(verdict.word)}**: {self._plain('; '.join(verdict.sentences))}"
        steps = units.counted(min(one.step for one in judged.ranks), "step")
        yield f"\nGroup: {self._plain('; '.join((judged.state, steps, *state_lines(judged))))}\n"
        if verdict.advice:
            yield f"**Next:** {self._plain(verdict.advice)}\n"

    def _figures(self) -> Iterator[str]:
        rows = [(one.name, one.value, one.note) for one in make_group_figures(self._judged)]
        yield from self._table(("figure", "value", ""), rows)

    def _ranks(self) -> Iterator[str]:
        head = ("rank", "step", "ms/step", "data wait", "compute", "host", "late by", "machine", "state")
        rows = [
            (one.rank, *one.figures, one.machine or units.MISSING, one.state) for one in make_rank_rows(self._judged)
        ]
        yield from self._table(head, rows)
        if long_steps := make_long_steps(self._steps):
            cells = [(one.step, one.rank, one.cause, one.lost) for one in long_steps]
            yield from self._folded("Steps that one rank held up", ("step", "rank", "cause", "lost"), cells)

"""A group as a page, with the chart of its steps, and as a short summary in markdown."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.analysis.findings.situation import Tone
from tfwatch.analysis.groups.straggler import (
    ADVICE,
    Level,
    banner_word,
    no_straggler_sentence,
    straggler_sentence,
    without_sentence,
)
from tfwatch.core import units
from tfwatch.core.clock import local_time
from tfwatch.live.groups.rank_lines import state_lines, stopped_ranks
from tfwatch.report.group_report import group_json
from tfwatch.report.html.page import Verdict, make_verdict
from tfwatch.report.html.plot import Scale, areas, ticks
from tfwatch.report.html.sections import (
    Figure,
    Slow,
    make_figures,
    make_machine,
    make_settings,
    make_stalls,
    parts_table,
)
from tfwatch.report.html.templates import environment, page_style
from tfwatch.report.html.timeline import COLUMNS, Hover, Layer, height_text, top_ms
from tfwatch.report.markdown import MarkdownPage
from tfwatch.report.text import failure, fate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tfwatch.analysis.groups.step_sums import GroupSteps, StepColumns
    from tfwatch.live.groups.judged_group import JudgedGroup, RankState
    from tfwatch.live.judged_run import JudgedRun
    from tfwatch.report.html.plot import Floats, Tick
    from tfwatch.report.html.templates import Redaction
    from tfwatch.runs.library.labels import Labels

#: The most rows of long steps.
_MOST_LONG_STEPS = 20
#: Ranks whose own figures are on the page: each of a million steps takes a second.
MOST_SECTIONS = 8
_TONES = {Level.CRITICAL: Tone.BAD, Level.WARNING: Tone.WARN}


@dataclass(frozen=True, slots=True)
class GroupVerdict:
    """The verdict at the top. advice: empty where there is nothing to do."""

    tone: str
    word: str
    sentences: list[str]
    advice: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A part of a rank's step. width: percent of the longest step."""

    kind: str
    width: float


@dataclass(frozen=True, slots=True)
class RankRow:
    """A rank in the table. figures: step, ms/step, data wait, compute, host, late by. is_late: the straggler."""

    rank: str
    figures: list[str]
    machine: str
    state: str
    bars: list[Bar]
    is_late: bool


@dataclass(frozen=True, slots=True)
class LongStepRow:
    """A single long step."""

    step: str
    rank: str
    cause: str
    lost: str


@dataclass(frozen=True, slots=True)
class RankSection:
    """A rank's own run in figures."""

    rank: int
    state: str
    verdict: Verdict
    failure: tuple[str, ...]
    figures: list[Figure]
    parts: list[tuple[str, str, str, str]]
    machine: list[tuple[str, str]]
    settings: list[tuple[str, str]]
    stalls: list[Slow]


def make_group_verdict(judged: JudgedGroup) -> GroupVerdict:
    """Return the finding on the group."""
    found = judged.named_straggler
    if judged.why_not:
        return GroupVerdict(Tone.CALM.value, "STRAGGLER n/a", [judged.why_not], "")
    if found is None:
        no_straggler = no_straggler_sentence(judged.waiting_share, judged.aligned)
        return GroupVerdict(Tone.GOOD.value, banner_word(None), [no_straggler], "")
    sentences = [straggler_sentence(found), without_sentence(found)]
    return GroupVerdict(
        _TONES[found.level].value, banner_word(found), sentences, ADVICE[found.cause]
    )


def make_group_figures(judged: JudgedGroup) -> list[Figure]:
    """Return the key figures."""
    known = judged.costliest if not judged.why_not else None
    steps = units.counted(len(judged.aligned.steps), "step")
    shares = {one.rank: one.split.wait_share for one in judged.ranks if one.split}
    worst = max(shares, key=lambda rank: shares[rank], default=None)
    found = [
        Figure(
            "group step",
            units.milliseconds(known.group_ms if known else None),
            _usual(judged, steps),
        ),
        Figure(
            "waiting for ranks", units.percent(judged.waiting_share), "of the time of all ranks"
        ),
        Figure(
            "data wait",
            units.percent(shares.get(worst)) if worst is not None else units.MISSING,
            _of_rank(worst),
        ),
    ]
    if straggler := judged.named_straggler:
        without = units.milliseconds(straggler.group_ms - straggler.gain_ms)
        found.insert(
            1,
            Figure(
                "step without it",
                without,
                f"without rank {straggler.rank}, from the recorded steps",
            ),
        )
    return found


def _usual(judged: JudgedGroup, steps: str) -> str:
    longer = units.counted(len(judged.long_steps), "long step")
    return f"mean of the newest {steps} in common" + (
        f", without {longer}" if judged.long_steps else ""
    )


def _of_rank(rank: int | None) -> str:
    return "no steady step" if rank is None else f"of rank {rank}, the most of all"


def make_rank_rows(judged: JudgedGroup) -> list[RankRow]:
    """Return a row a rank."""
    longest = max((one.split.step.mean for one in judged.ranks if one.split), default=0.0)
    late = judged.named_straggler.rank if judged.named_straggler else None
    return [_row(judged, one, longest, one.rank == late) for one in judged.ranks]


def _row(judged: JudgedGroup, state: RankState, longest: float, is_late: bool) -> RankRow:
    split = state.split
    means = (
        (split.step.mean, split.wait.mean, split.compute.mean, split.host.mean)
        if split
        else (None,) * 4
    )
    figures = [units.count(state.step), *map(units.milliseconds, (*means, state.late_ms))]
    bars = []
    if split and longest > 0:
        parts = (
            ("compute", split.compute.mean),
            ("host", split.host.mean),
            ("wait", split.wait.mean),
        )
        bars = [Bar(kind, round(value / longest * 100, 2)) for kind, value in parts]
    behind = f", {units.counted(state.behind, 'step')} behind" if state.is_lagging else ""
    text = fate(judged.group.ranks[state.rank]) + behind
    return RankRow(str(state.rank), figures, _machine(state), text, bars, is_late)


def _machine(state: RankState) -> str:
    """Return the cores that the rank's process uses, and its GPU; empty where neither is known."""
    machine = state.machine
    parts = (
        "" if machine.cores is None else f"{machine.cores:.1f} cores",
        "" if machine.clock_mhz is None else f"GPU {machine.clock_mhz:.0f} MHz",
        "" if machine.temperature_c is None else f"{machine.temperature_c:.0f} °C",
    )
    return ", ".join(filter(None, parts))


def make_long_steps(steps: GroupSteps | None) -> list[LongStepRow]:
    """Return the longest single steps, the longest first."""
    return [
        LongStepRow(
            units.count(one.step),
            units.MISSING if one.rank is None else str(one.rank),
            "all ranks are in the call, and none shows why"
            if one.rank is None
            else one.cause.value,
            units.duration(one.lost_ms / 1e3),
        )
        for one in (steps.long_steps if steps else ())[:_MOST_LONG_STEPS]
    ]


def ranks_with_figures(judged: JudgedGroup) -> list[int]:
    """Return the ranks whose own figures the page has: those that no longer train, and the latest ones."""
    gone = [one.rank for one in stopped_ranks(judged)]
    latest = sorted(judged.ranks, key=lambda one: (-(one.late_ms or 0.0), one.rank))
    chosen = dict.fromkeys([judged.last_rank, *gone, *(one.rank for one in latest)])
    return sorted(list(chosen)[:MOST_SECTIONS])


def make_rank_section(rank: int, judged: JudgedRun, is_redacted: bool) -> RankSection:
    """Return a rank's own figures. judged: all of its run, not only its newest steps."""
    run = judged.run
    return RankSection(
        rank=rank,
        state=fate(run),
        verdict=make_verdict(judged),
        failure=tuple(failure(run)),
        figures=make_figures(judged),
        parts=parts_table(judged.summary.steady),
        machine=[
            (name, value)
            for name, value in make_machine(judged)
            if not is_redacted or name != "host"
        ],
        settings=make_settings(judged),
        stalls=make_stalls(judged),
    )


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
    begins, ends = (
        across.shares(columns.first.astype(float)),
        across.shares((columns.last + 1).astype(float)),
    )
    return GroupChart(
        layers=_layers(columns, begins, ends, up),
        hovers=_hovers(columns, begins, ends),
        steps=ticks(across, lambda step: f"step {units.count(round(step))}", _MOST_TICKS),
        heights=ticks(up, height_text),
        cut=units.milliseconds(highest) if highest > top else "",
        per_column="Each column is one step"
        if each == 1
        else f"Each column is the mean of {each} steps at most",
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
        found.append(
            Hover(round(begins[n] * 1000, 1), round((ends[n] - begins[n]) * 1000, 1), text)
        )
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
        "ranks": units.counted(len(group.ranks), "rank")
        + (f" of {size}" if size and size != len(group.ranks) else ""),
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
    judged: JudgedGroup,
    steps: GroupSteps | None,
    labels: Labels,
    redaction: Redaction | None = None,
) -> str:
    """Return the summary of a group.

    steps: those whose long ones are listed. redaction: replaces paths, names and the hosts.
    """
    return _GroupPage(judged, steps, labels, redaction).text()


class _GroupPage(MarkdownPage):
    """The summary of a group."""

    def __init__(
        self,
        judged: JudgedGroup,
        steps: GroupSteps | None,
        labels: Labels,
        redaction: Redaction | None,
    ) -> None:
        super().__init__(redaction)
        self._judged, self._steps = judged, steps
        self._labels = labels

    def text(self) -> str:
        """Return the whole summary."""
        return "\n".join(
            line for part in (self._head(), self._figures(), self._ranks()) for line in part
        )

    def _head(self) -> Iterator[str]:
        judged = self._judged
        verdict, ranks = make_group_verdict(judged), judged.group.ranks
        title, count = (
            self._labels.name or next(iter(ranks.values())).manifest.title,
            units.counted(len(ranks), "rank"),
        )
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
        head = (
            "rank",
            "step",
            "ms/step",
            "data wait",
            "compute",
            "host",
            "late by",
            "machine",
            "state",
        )
        rows = [
            (one.rank, *one.figures, one.machine or units.MISSING, one.state)
            for one in make_rank_rows(self._judged)
        ]
        yield from self._table(head, rows)
        if long_steps := make_long_steps(self._steps):
            cells = [(one.step, one.rank, one.cause, one.lost) for one in long_steps]
            yield from self._folded(
                "Steps that one rank held up", ("step", "rank", "cause", "lost"), cells
            )

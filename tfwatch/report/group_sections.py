"""The parts of a group's report in plain values, for the page and for markdown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
from tfwatch.live.groups.rank_lines import stopped_ranks
from tfwatch.report.html.page import Verdict, make_verdict
from tfwatch.report.html.sections import (
    Figure,
    Slow,
    make_figures,
    make_machine,
    make_settings,
    make_stalls,
    parts_table,
)
from tfwatch.report.text import failure, fate

if TYPE_CHECKING:
    from tfwatch.analysis.groups.step_sums import GroupSteps
    from tfwatch.live.groups.judged_group import JudgedGroup, RankState
    from tfwatch.live.judged_run import JudgedRun

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
    return GroupVerdict(_TONES[found.level].value, banner_word(found), sentences, ADVICE[found.cause])


def make_group_figures(judged: JudgedGroup) -> list[Figure]:
    """Return the key figures."""
    known = judged.costliest if not judged.why_not else None
    steps = units.counted(len(judged.aligned.steps), "step")
    shares = {one.rank: one.split.wait_share for one in judged.ranks if one.split}
    worst = max(shares, key=lambda rank: shares[rank], default=None)
    found = [
        Figure("group step", units.milliseconds(known.group_ms if known else None), _usual(judged, steps)),
        Figure("waiting for ranks", units.percent(judged.waiting_share), "of the time of all ranks"),
        Figure("data wait", units.percent(shares.get(worst)) if worst is not None else units.MISSING, _of_rank(worst)),
    ]
    if straggler := judged.named_straggler:
        without = units.milliseconds(straggler.group_ms - straggler.gain_ms)
        found.insert(1, Figure("step without it", without, f"without rank {straggler.rank}, from the recorded steps"))
    return found


def _usual(judged: JudgedGroup, steps: str) -> str:
    longer = units.counted(len(judged.long_steps), "long step")
    return f"mean of the newest {steps} in common" + (f", without {longer}" if judged.long_steps else "")


def _of_rank(rank: int | None) -> str:
    return "no steady step" if rank is None else f"of rank {rank}, the most of all"


def make_rank_rows(judged: JudgedGroup) -> list[RankRow]:
    """Return a row a rank."""
    longest = max((one.split.step.mean for one in judged.ranks if one.split), default=0.0)
    late = judged.named_straggler.rank if judged.named_straggler else None
    return [_row(judged, one, longest, one.rank == late) for one in judged.ranks]


def _row(judged: JudgedGroup, state: RankState, longest: float, is_late: bool) -> RankRow:
    split = state.split
    means = (split.step.mean, split.wait.mean, split.compute.mean, split.host.mean) if split else (None,) * 4
    figures = [units.count(state.step), *map(units.milliseconds, (*means, state.late_ms))]
    bars = []
    if split and longest > 0:
        parts = (("compute", split.compute.mean), ("host", split.host.mean), ("wait", split.wait.mean))
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
            "all ranks are in the call, and none shows why" if one.rank is None else one.cause.value,
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
        machine=[(name, value) for name, value in make_machine(judged) if not is_redacted or name != "host"],
        settings=make_settings(judged),
        stalls=make_stalls(judged),
    )

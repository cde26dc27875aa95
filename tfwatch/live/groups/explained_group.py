"""The findings on a group: the rank that the others wait for, ranks that do not train, and those of the last rank."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tfwatch.analysis.comparing.run_steps import QUARTERS
from tfwatch.analysis.groups.straggler import (
    ADVICE,
    WARNING_FROM,
    Cause,
    Straggler,
    banner_word,
    long_step_line,
    no_straggler_sentence,
    share_in_parts,
    straggler_sentence,
)
from tfwatch.core import units
from tfwatch.live.evidence.explained_run import Fact, Finding, explain_run
from tfwatch.live.groups.rank_lines import state_words, stopped_ranks
from tfwatch.runs.library.finding import replay_argument

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tfwatch.live.evidence.explained_run import Confidence
    from tfwatch.live.groups.group_to_compare import GroupToCompare

#: Steps from which the share of a straggler is reliable.
_ENOUGH_STEPS = 200
#: The figure that shows a cause, and its unit.
_SHOWN_BY = {
    Cause.DATA_WAIT: ("data_wait", "ms"),
    Cause.HOST: ("host", "ms"),
    Cause.COMPUTE: ("cpu_time", "ms"),
    Cause.CALL: ("cpu_time", "ms"),
    Cause.SLOW_GPU: ("gpu_clock", "MHz"),
    Cause.NOT_RUNNING: ("not_running", "ms"),
}


def explain_group(one: GroupToCompare) -> list[Finding]:
    """Return the findings on a group, and those on the rank that its time depends on."""
    last = one.group.last_rank
    of_rank = [replace(finding, rank=last) for finding in explain_run(one.rank(last))]
    return [*_states(one), *_straggler(one), *_long_step(one), *of_rank]


def _states(one: GroupToCompare) -> Iterator[Finding]:
    """Yield the ranks that are missing, unreadable, behind, or no longer train."""
    group = one.group.group
    if one.not_recorded:
        facts = (Fact("ranks", f"{len(group.ranks)} of {group.file.size or units.MISSING}"),)
        yield Finding(
            "rank-missing", "RANKS", one.not_recorded, facts, "high", "the group's folder shows it"
        )
    gone = stopped_ranks(one.group)
    for state in [
        *gone,
        *(state for state in one.group.ranks if state.is_lagging and state not in gone),
    ]:
        place = (Fact("step", state.step, "step"), Fact("behind", state.behind, "step"))
        words = state_words(one.group, state)
        yield Finding(
            "rank-state", "RANK", words, place, "high", "its folder says so", rank=state.rank
        )


def _straggler(one: GroupToCompare) -> Iterator[Finding]:
    judged = one.group
    if judged.why_not:
        yield Finding(
            "no-straggler",
            "STRAGGLER n/a",
            judged.why_not,
            (),
            "low",
            "too little is recorded to name one",
        )
        return
    found, steps = judged.named_straggler, len(judged.aligned.steps)
    span = (
        Fact("first_step", judged.first_step, "step"),
        Fact("last_step", judged.last_step, "step"),
    )
    facts = (
        Fact("common_steps", steps, "step"),
        *span,
        Fact("waiting_share", judged.waiting_share or 0.0, "share"),
    )
    worst = judged.costliest
    quarters = share_in_parts(judged.aligned, worst, QUARTERS) if worst else ()
    confidence, reason = _confidence(quarters, steps, "" if judged.is_whole else "the newest ")
    if found is None:
        sentence = no_straggler_sentence(judged.waiting_share, judged.aligned)
        yield Finding("no-straggler", banner_word(None), sentence, facts, confidence, reason)
        return
    evidence = (*facts, *_group_facts(found), *_cause_facts(found))
    advice = f"{ADVICE[found.cause]}{_own_screen(one, found.rank)}"
    yield Finding(
        "straggler",
        banner_word(found),
        straggler_sentence(found),
        evidence,
        confidence,
        reason,
        advice,
    )


def _group_facts(found: Straggler) -> tuple[Fact, ...]:
    without = Fact("group_step_without_it", found.group_ms - found.gain_ms, "ms")
    return (
        Fact("group_step", found.group_ms, "ms"),
        without,
        Fact("straggler_share", found.share, "share"),
    )


def _cause_facts(found: Straggler) -> tuple[Fact, ...]:
    name, unit = _SHOWN_BY[found.cause]
    cause = Fact("cause", found.cause.value)
    return (
        cause,
        Fact(f"{name}_of_the_rank", found.own, unit),
        Fact(f"{name}_of_the_others", found.others, unit),
    )


def _confidence(quarters: Sequence[float], steps: int, newest: str) -> tuple[Confidence, str]:
    """Return the confidence in the share of a straggler: whether all parts of the steps agree on its level.

    newest: a word where the steps are not all of the run.
    """
    edge = units.percent(WARNING_FROM)
    if len({quarter >= WARNING_FROM for quarter in quarters}) > 1:
        return (
            "low",
            f"in some quarters of the steps it is above the threshold of {edge}, in others below",
        )
    if steps < _ENOUGH_STEPS:
        return "medium", f"only {steps} common steps"
    of_steps = f"all quarters of {newest}{units.count(steps)} common steps"
    return "high", f"{of_steps} are on one side of the threshold of {edge}"


def _own_screen(one: GroupToCompare, rank: int) -> str:
    folder = one.group.group.ranks[rank].path
    return f". Its own screen: tfwatch replay {replay_argument(folder)}" if folder else ""


def _long_step(one: GroupToCompare) -> Iterator[Finding]:
    """Yield the longest single step, and what all of them cost."""
    found = [] if one.group.why_not else one.group.long_steps
    worst = max(found, key=lambda long_step: long_step.lost_ms, default=None)
    if worst:
        lost_ms = sum(long_step.lost_ms for long_step in found)
        facts = (
            Fact("long_steps", len(found), "step"),
            Fact("lost", lost_ms, "ms"),
            Fact("step", worst.step, "step"),
        )
        confidence: Confidence = "low" if worst.rank is None else "medium"
        reason = "the time is measured, the rank follows from what was recorded at the same moment"
        yield Finding("long-step", "LONG STEP", long_step_line(worst), facts, confidence, reason)

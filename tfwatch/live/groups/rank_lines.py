"""Sentences about the ranks that do not train with the others: killed, failed, silent, missing, behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.events import TrainingFailed
from tfwatch.live.past_run import state_of
from tfwatch.runs.liveness import Life

if TYPE_CHECKING:
    from tfwatch.live.groups.judged_group import JudgedGroup, RankState
    from tfwatch.runs.opened import Run

#: The states of a rank that trains, or has trained to the end.
_WELL = frozenset({"finished", "stopped", "running"})
#: Ranks that no longer train, named one by one: all of them are gone where a scheduler ends the job.
_NAMED = 3


def state_lines(judged: JudgedGroup) -> list[str]:
    """Return the ranks that no longer train, are missing, unreadable, or behind."""
    group, gone = judged.group, stopped_ranks(judged)
    lines = [f"rank {one.rank}: {state_words(judged, one)}" for one in gone[:_NAMED]]
    more = [f"{units.counted(len(gone) - _NAMED, 'more rank')} no longer trains"] if len(gone) > _NAMED else []
    missing = [f"rank {rank} has no run" for rank in group.missing]
    unreadable = [f"rank {rank} cannot be read: {why}" for rank, why in group.unreadable.items()]
    behind = [f"rank {one.rank} is {_behind(one)}" for one in judged.ranks if one.is_lagging and one not in gone]
    return [*lines, *more, *missing, *unreadable, *behind]


def stopped_ranks(judged: JudgedGroup) -> list[RankState]:
    """Return the ranks that failed, were killed or do not respond; the one whose last sign is oldest comes first."""
    runs = judged.group.ranks
    gone = [one for one in judged.ranks if state_of(runs[one.rank]) not in _WELL]
    return sorted(gone, key=lambda one: _last_sign_s(runs[one.rank]))


def stopped_word(judged: JudgedGroup) -> str:
    """Return `NOT RESPONDING rank 2 for 41.0 s` of the rank that stopped first; empty where all are well."""
    gone = stopped_ranks(judged)
    if not gone:
        return ""
    run = judged.group.ranks[gone[0].rank]
    silent = f" for {units.seconds(run.silent_s)}" if run.life.is_stale else ""
    return f"{state_of(run).upper()} rank {gone[0].rank}{silent}"


def state_words(judged: JudgedGroup, state: RankState) -> str:
    """Return the state of a rank and its step: `not responding for 41.0 s, since step 210`."""
    run, step = judged.group.ranks[state.rank], units.count(state.step)
    behind = f", {_behind(state)}" if state.is_lagging else ""
    if run.life.is_stale:
        silence = "not responding" if run.life is Life.NOT_RESPONDING else "unknown, no new data"
        return f"{silence} for {units.seconds(run.silent_s)}, since step {step}{behind}"
    failed = next((event for event in reversed(run.events) if isinstance(event, TrainingFailed)), None)
    why = f": {failed.error}" if failed else ""
    return f"{state_of(run)} at step {step}{behind}{why}"


def _behind(state: RankState) -> str:
    return f"{units.counted(state.behind, 'step')} behind"


def _last_sign_s(run: Run) -> float:
    """Return the time of a rank's last sign of life, seconds since 1970."""
    return run.manifest.origin_wall_ns / 1e9 + run.length_s - (run.silent_s if run.life is Life.NOT_RESPONDING else 0.0)

"""Sentences about the ranks that do not train with the others: killed, failed, silent, missing, behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.events import TrainingFailed
from tfwatch.core.rows import Phase
from tfwatch.live.past_run import state_of
from tfwatch.runs.groups.reading import HELD_S
from tfwatch.runs.reading.liveness import Life

if TYPE_CHECKING:
    from tfwatch.live.groups.judged_group import JudgedGroup, RankState
    from tfwatch.runs.reading.opened import Run

#: The states of a rank that trains, or has trained to the end.
_WELL = frozenset({"finished", "stopped", "running"})
#: Ranks that no longer train, named one by one: all of them are gone where a scheduler ends the job.
_NAMED = 3
#: A rank that comes later to the call than this many of its steps is held up.
_HELD_STEPS = 4.0


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
    """Return the ranks that no longer train, the one whose last sign of training is oldest first.

    They failed, were killed, do not respond, or have not come to the next call for long.
    """
    runs = judged.group.ranks
    gone = [one for one in judged.ranks if state_of(runs[one.rank]) not in _WELL or held_s(judged, one) is not None]
    return sorted(gone, key=lambda one: _last_sign_s(runs[one.rank], held_s(judged, one)))


def held_s(judged: JudgedGroup, state: RankState) -> float | None:
    """Return for how long a rank that runs has not come to the next call; None where that is as usual."""
    last = judged.group.ranks[state.rank].open_phase
    if state.life is not Life.RUNNING or last is None or not last.is_before_call:
        return None
    usual_s = state.split.step.mean / 1e3 if state.split else 0.0
    return last.lasts_s if last.lasts_s >= max(HELD_S, _HELD_STEPS * usual_s) else None


def stopped_word(judged: JudgedGroup) -> str:
    """Return `NOT RESPONDING rank 2 for 41.0 s` of the rank that stopped first; empty where all are well."""
    gone = stopped_ranks(judged)
    if not gone:
        return ""
    run, seconds = judged.group.ranks[gone[0].rank], held_s(judged, gone[0])
    if seconds is not None:
        return f"{_held_word(run).upper()} rank {gone[0].rank} for {units.seconds(seconds)}"
    silent = f" for {units.seconds(run.silent_s)}" if run.life.is_stale else ""
    return f"{state_of(run).upper()} rank {gone[0].rank}{silent}"


def state_words(judged: JudgedGroup, state: RankState) -> str:
    """Return the state of a rank and its step: `not responding for 41.0 s, since step 210`."""
    run, step = judged.group.ranks[state.rank], units.count(state.step)
    behind = f", {_behind(state)}" if state.is_lagging else ""
    if (seconds := held_s(judged, state)) is not None:
        return f"{_held_word(run)} for {units.seconds(seconds)}, since step {step}{behind}; the other ranks wait for it"
    if run.life.is_stale:
        silence = "not responding" if run.life is Life.NOT_RESPONDING else "unknown, no new data"
        return f"{silence} for {units.seconds(run.silent_s)}, since step {step}{behind}"
    failed = next((event for event in reversed(run.events) if isinstance(event, TrainingFailed)), None)
    why = f": {failed.error}" if failed else ""
    return f"{state_of(run)} at step {step}{behind}{why}"


def _held_word(run: Run) -> str:
    is_waiting = run.open_phase is not None and run.open_phase.phase is Phase.WAIT
    return "no batch" if is_waiting else "in Python between two steps"


def _behind(state: RankState) -> str:
    return f"{units.counted(state.behind, 'step')} behind"


def _last_sign_s(run: Run, held: float | None) -> float:
    """Return the time of a rank's last sign of training, seconds since 1970."""
    ago_s = run.silent_s if run.life is Life.NOT_RESPONDING else held or 0.0
    return run.manifest.origin_wall_ns / 1e9 + run.length_s - ago_s

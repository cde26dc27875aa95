"""Sentences about the ranks that do not train with the others: killed, failed, silent, missing,
behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.rows import Phase
from tfwatch.judge.past_run import state_of
from tfwatch.runs.group import HELD_S
from tfwatch.runs.liveness import Life

if TYPE_CHECKING:
    from tfwatch.judge.groups.judged_group import JudgedGroup, RankState
    from tfwatch.runs.liveness import OpenPhase
    from tfwatch.runs.snapshot import Snapshot

#: The states of a rank that trains, or has trained to the end.
_WELL = frozenset({"finished", "stopped", "running"})
#: Ranks that no longer train, named one by one: all of them are gone where a scheduler ends the
#: job.
_NAMED = 3
#: A rank whose phase lasts longer than this many of its steps is held up.
_HELD_STEPS = 4.0


def state_lines(judged: JudgedGroup) -> list[str]:
    """Return the ranks that no longer train, are missing, unreadable, or behind."""
    group, gone = judged.group, stopped_ranks(judged)
    lines = [f"rank {one.rank}: {state_words(judged, one)}" for one in gone[:_NAMED]]
    more = (
        [f"{units.counted(len(gone) - _NAMED, 'more rank')} no longer trains"]
        if len(gone) > _NAMED
        else []
    )
    missing = [f"rank {rank} has no run" for rank in group.missing]
    unreadable = [f"rank {rank} cannot be read: {why}" for rank, why in group.unreadable.items()]
    behind = [
        f"rank {one.rank} is {_behind(one)}"
        for one in judged.ranks
        if one.is_lagging and one not in gone
    ]
    return [*lines, *more, *missing, *unreadable, *behind, *_call_lines(judged)]


def stopped_ranks(judged: JudgedGroup) -> list[RankState]:
    """Return the ranks that no longer train, the one whose last sign of training is oldest first.

    They failed, were killed, do not respond, have not come to the next call for long, or hang in
    it.
    """
    runs = judged.group.ranks
    gone = [
        one
        for one in judged.ranks
        if state_of(runs[one.rank]) not in _WELL or overdue_s(judged, one) is not None
    ]
    return sorted(gone, key=lambda one: _last_sign_s(runs[one.rank], overdue_s(judged, one)))


def overdue_s(judged: JudgedGroup, state: RankState) -> float | None:
    """Return for how long a rank that runs has not come to the next call, or hangs in Python in it;
    None where that is as usual."""
    last = judged.group.ranks[state.rank].open_phase
    if last is None or not (last.is_before_call or (last.is_in_call and last.detail)):
        return None
    return _long_s(state, last)


def _long_s(state: RankState, last: OpenPhase) -> float | None:
    """Return how long the phase of a rank that runs lasts; None where that is as usual."""
    usual_s = state.split.step.mean / 1e3 if state.split else 0.0
    is_long = state.life is Life.RUNNING and last.lasts_s >= max(HELD_S, _HELD_STEPS * usual_s)
    return last.lasts_s if is_long else None


def call_s(judged: JudgedGroup) -> float | None:
    """Return for how long all ranks that train have been in the call, and none is seen to hold it
    up; else None."""
    open_s = [_in_call_s(judged, one) for one in judged.ranks if not one.life.is_over]
    known = [one for one in open_s if one is not None]
    return (
        min(known)
        if len(known) > 1 and len(known) == len(open_s) and not stopped_ranks(judged)
        else None
    )


def _in_call_s(judged: JudgedGroup, state: RankState) -> float | None:
    last = judged.group.ranks[state.rank].open_phase
    return _long_s(state, last) if last and last.is_in_call else None


def _call_lines(judged: JudgedGroup) -> list[str]:
    seconds = call_s(judged)
    if seconds is None:
        return []
    step = units.count(max(one.step for one in judged.ranks))
    lasts = f"no step since step {step}, for {units.seconds(seconds)}"
    return [f"{lasts}: all ranks are in the call, and nothing shows which one the others wait for"]


def stopped_word(judged: JudgedGroup) -> str:
    """Return `NOT RESPONDING rank 2 for 41.0 s` of the rank that stopped first; empty where all are
    well."""
    gone, in_call_s = stopped_ranks(judged), call_s(judged)
    if in_call_s is not None:
        return f"NO STEP for {units.seconds(in_call_s)}"
    if not gone:
        return ""
    run, seconds = judged.group.ranks[gone[0].rank], overdue_s(judged, gone[0])
    if seconds is not None:
        return f"{_held_word(run).upper()} rank {gone[0].rank} for {units.seconds(seconds)}"
    silent = f" for {units.seconds(run.silent_s)}" if run.life.is_stale else ""
    return f"{state_of(run).upper()} rank {gone[0].rank}{silent}"


def state_words(judged: JudgedGroup, state: RankState) -> str:
    """Return the state of a rank and its step: `not responding for 41.0 s, since step 210`."""
    run, step = judged.group.ranks[state.rank], units.count(state.step)
    behind = f", {_behind(state)}" if state.is_lagging else ""
    if (seconds := overdue_s(judged, state)) is not None:
        last = run.open_phase
        python = f", in {last.detail}" if last and last.detail else ""
        lasts = f"{_held_word(run)} for {units.seconds(seconds)}{python}"
        return f"{lasts}, since step {step}{behind}; the other ranks wait for it"
    if run.life.is_stale:
        silence = "not responding" if run.life is Life.NOT_RESPONDING else "unknown, no new data"
        return f"{silence} for {units.seconds(run.silent_s)}, since step {step}{behind}"
    return f"{run.failure or f'{state_of(run)} at step {step}'}{behind}"


def _held_word(run: Snapshot) -> str:
    """Return where a rank is held up."""
    assert run.open_phase
    if run.open_phase.is_in_call:
        return "hangs in its call"
    return "no batch" if run.open_phase.phase is Phase.WAIT else "in Python between two steps"


def overdue_where(judged: JudgedGroup, state: RankState) -> str:
    """Return where a rank is held up, with the Python that is seen to run there; empty where it is
    not."""
    run = judged.group.ranks[state.rank]
    if overdue_s(judged, state) is None or run.open_phase is None:
        return ""
    return f"{_held_word(run)}, {run.open_phase.detail}".removesuffix(", ")


def _behind(state: RankState) -> str:
    return f"{units.counted(state.behind, 'step')} behind"


def _last_sign_s(run: Snapshot, held: float | None) -> float:
    """Return the time of a rank's last sign of training, seconds since 1970."""
    ago_s = run.silent_s if run.life is Life.NOT_RESPONDING else held or 0.0
    return run.manifest.origin_wall_ns / 1e9 + run.length_s - ago_s

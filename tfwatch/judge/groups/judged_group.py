"""The judgement of a group of ranks, and sentences about those that do not train with the others:
killed, failed, silent, missing, behind."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core import units
from tfwatch.core.rows import Phase
from tfwatch.judge.groups.aligned import Aligned, Machine, RankSteps, align
from tfwatch.judge.groups.straggler import (
    NEEDED,
    Straggler,
    find_straggler,
    is_compute_known,
    lateness_ms,
    waiting_share,
)
from tfwatch.judge.past_run import state_of
from tfwatch.judge.steps.steady_steps import Breakdown, breakdown, steady
from tfwatch.runs.group import HELD_S, NEWEST_ROWS
from tfwatch.runs.liveness import Life

if TYPE_CHECKING:
    from tfwatch.core.rows import Rows
    from tfwatch.runs.group import Group
    from tfwatch.runs.liveness import OpenPhase
    from tfwatch.runs.snapshot import Snapshot

#: Samples for a figure of a machine: three seconds of them.
_FEWEST_SAMPLES = 6
#: A rank that has made so many steps less than the first one lags: those of a collective are within
#: one step. Ranks write ten times a second, at different moments, so while they train the steps of
#: this time are not behind.
_LAGS_FROM, _WRITES_MS = 2, 1000.0


#: The states of a rank that trains, or has trained to the end.
_WELL = frozenset({"finished", "stopped", "running"})
#: Ranks that no longer train, named one by one: all of them are gone where a scheduler ends the
#: job.
_NAMED = 3
#: A rank whose phase lasts longer than this many of its steps is held up.
_HELD_STEPS = 4.0


@dataclass(frozen=True, slots=True)
class RankState:
    """A rank in figures."""

    rank: int
    life: Life
    step: int
    #: Steps behind the first rank.
    behind: int
    #: Of its newest steady steps; None without any.
    split: Breakdown | None
    machine: Machine
    #: Mean time by which it comes later to the call than the first rank; None with too few steps.
    late_ms: float | None

    @property
    def is_lagging(self) -> bool:
        """True where it is further behind than the steps of one collective can be."""
        behind_ms = self.behind * self.split.step.mean if self.split else 0.0
        return self.behind >= _LAGS_FROM and (self.life is Life.ENDED or behind_ms >= _WRITES_MS)


class JudgedGroup:
    """A group that was read once, and its judgement. Each part is made when it is first asked
    for."""

    def __init__(self, group: Group) -> None:
        self.group = group

    @cached_property
    def aligned(self) -> Aligned:
        """The newest steps that all ranks have."""
        return align([_rank_steps(rank, run) for rank, run in self.group.ranks.items()])

    @property
    def first_step(self) -> int:
        """The first step that all ranks have among their newest ones, of which the judgement is; 0
        without any."""
        return max(
            (int(run.steps["step"][0]) for run in self.group.ranks.values() if len(run.steps)),
            default=0,
        )

    @property
    def last_step(self) -> int:
        """The last step of the first rank."""
        return max(one.step for one in self.ranks)

    @property
    def is_whole(self) -> bool:
        """True where the judgement is of all steps: no rank has more than are read."""
        return all(len(run.steps) < NEWEST_ROWS for run in self.group.ranks.values())

    @cached_property
    def straggler(self) -> Straggler | None:
        """The rank that the others wait for; None without one, and where none can be named."""
        return None if self.why_not else find_straggler(self.aligned)

    @cached_property
    def waiting_share(self) -> float | None:
        """The share of their time that ranks wait for one another, 0 to 1; None with too few
        steps."""
        return None if self.why_not else waiting_share(self.aligned)

    @property
    def is_compute_known(self) -> bool:
        """True where a rank that computes longer would show."""
        return is_compute_known(self.aligned)

    @property
    def why_not(self) -> str:
        """The reason why no straggler can be named; empty where one can be."""
        if len(self.group.ranks) < 2:
            return "only one rank has a run"
        not_split = {
            rank: why for rank, run in self.group.ranks.items() if (why := run.manifest.not_split)
        }
        if not_split:
            return f"the steps of rank {min(not_split)} are not split: {not_split[min(not_split)]}"
        if len(self.aligned.steps) < NEEDED:
            steps = units.counted(len(self.aligned.steps), "steady step")
            return f"the ranks have {steps} in common, {NEEDED} are needed"
        return ""

    @cached_property
    def ranks(self) -> list[RankState]:
        """The state of each rank."""
        steps = {
            rank: int(run.steps["step"][-1]) if len(run.steps) else 0
            for rank, run in self.group.ranks.items()
        }
        late_ms = {} if self.why_not else lateness_ms(self.aligned)
        first = max(steps.values())
        return [
            _state(rank, run, steps[rank], first, late_ms.get(rank))
            for rank, run in sorted(self.group.ranks.items())
        ]


def _state(rank: int, run: Snapshot, step: int, first: int, late_ms: float | None) -> RankState:
    newest = run.steps[-10 * NEEDED :]
    split = breakdown(steady(newest)) if len(newest) else None
    return RankState(rank, run.life, step, first - step, split, _machine(run, newest), late_ms)


def _rank_steps(rank: int, run: Snapshot) -> RankSteps:
    machine, fetches = _machine(run, run.steps), run.manifest.fetches_in_calls
    return RankSteps(rank, run.steps, machine, fetches)


def _machine(run: Snapshot, steps: Rows) -> Machine:
    """Return the median figures of the samples between the first and the last of some steps."""
    if len(steps) < 2:
        return Machine()
    at_ns = run.samples["at_ns"]
    within = run.samples[(at_ns > steps["start_ns"][0]) & (at_ns <= steps["start_ns"][-1])]
    names = ("process_cores", "gpu_freq_mhz", "gpu_power_w", "gpu_temperature_c")
    return Machine(*(_median(within[name]) for name in names))


def _median(values: np.ndarray[tuple[int], np.dtype[np.float32]]) -> float | None:
    """Return the median of the known values: a process that was stopped for a while is as usual
    otherwise."""
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) >= _FEWEST_SAMPLES else None


# -- the states of ranks in words ------------------------------------------------------------------


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

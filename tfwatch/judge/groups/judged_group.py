"""The judgement of a group of ranks, for the summary, the JSON object and the screen."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core import units
from tfwatch.judge.groups.aligned import Aligned, Machine, RankSteps, align
from tfwatch.judge.groups.straggler import (
    NEEDED,
    LongStep,
    Straggler,
    find_long_steps,
    find_straggler,
    is_compute_known,
    lateness_ms,
    waiting_share,
)
from tfwatch.judge.steps.verdict import Breakdown, breakdown, steady
from tfwatch.runs.group import NEWEST_ROWS
from tfwatch.runs.liveness import Life

if TYPE_CHECKING:
    from tfwatch.core.rows import Rows
    from tfwatch.runs.group import Group
    from tfwatch.runs.snapshot import Snapshot

#: Sensors are read twice a second; a reading that is so late had no CPU, or its process was
#: stopped.
_SILENT_MS = 300.0
#: Samples for a figure of a machine: three seconds of them.
_FEWEST_SAMPLES = 6
#: Cores from which a rank computes in a call in which the others wait, and over theirs: a process
#: that shares the cores of a busy machine used a quarter of one, those that waited 0.02.
_LEAST_CORES, _MORE_CORES = 0.1, 3.0
#: A rank that has made so many steps less than the first one lags: those of a collective are within
#: one step. Ranks write ten times a second, at different moments, so while they train the steps of
#: this time are not behind.
_LAGS_FROM, _WRITES_MS = 2, 1000.0


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
    def long_steps(self) -> list[LongStep]:
        """Single long steps, each with the rank that made it long."""
        return find_long_steps(self.aligned)

    @cached_property
    def waiting_share(self) -> float | None:
        """The share of their time that ranks wait for one another, 0 to 1; None with too few
        steps."""
        return None if self.why_not else waiting_share(self.aligned)

    @property
    def is_compute_known(self) -> bool:
        """True where a rank that computes longer would show."""
        return is_compute_known(self.aligned)

    @cached_property
    def busy_in_call(self) -> int | None:
        """The rank that computes in a call in which the others have waited for seconds; None where
        none is seen to."""
        last = {
            rank: run.open_phase for rank, run in self.group.ranks.items() if not run.life.is_over
        }
        if len(last) < 2 or not all(one is not None and one.is_in_call for one in last.values()):
            return None
        cores = {
            rank: _cores_since(self.group.ranks[rank], one.since_ns)
            for rank, one in last.items()
            if one
        }
        known = sorted((value, rank) for rank, value in cores.items() if value is not None)
        if len(known) < len(last) or known[-1][0] <= max(_MORE_CORES * known[-2][0], _LEAST_CORES):
            return None
        return known[-1][1]

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
    return RankSteps(rank, run.steps, machine, silences(run.samples), fetches)


def _machine(run: Snapshot, steps: Rows) -> Machine:
    """Return the median figures of the samples between the first and the last of some steps."""
    if len(steps) < 2:
        return Machine()
    at_ns = run.samples["at_ns"]
    within = run.samples[(at_ns > steps["start_ns"][0]) & (at_ns <= steps["start_ns"][-1])]
    names = ("process_cores", "gpu_freq_mhz", "gpu_power_w", "gpu_temperature_c")
    return Machine(*(_median(within[name]) for name in names))


def _cores_since(run: Snapshot, since_ns: int) -> float | None:
    """Return the cores that a rank has used in its open phase, without the first second; None with
    too few samples."""
    newest = run.samples[run.samples["at_ns"] > since_ns + 10**9]
    return _median(newest["process_cores"])


def _median(values: np.ndarray[tuple[int], np.dtype[np.float32]]) -> float | None:
    """Return the median of the known values: a process that was stopped for a while is as usual
    otherwise."""
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) >= _FEWEST_SAMPLES else None


def silences(samples: Rows) -> list[tuple[int, int]]:
    """Return begin and end of each time in which the sensors were due and did not run: see
    `RankSteps`."""
    late = samples[np.nan_to_num(samples["late_ms"]) > _SILENT_MS]
    return [(int(row["at_ns"] - row["late_ms"] * 1e6), int(row["at_ns"])) for row in late]

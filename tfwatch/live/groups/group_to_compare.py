"""A group of ranks as one run, for a comparison, a check and an explanation.

The ranks share every step, so each of them shows the same: a group is one observation, as a run is, however many ranks
it has. Its steps are those of the rank that comes last, and the call in which the others wait for it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.analysis.comparing.run_steps import QUARTERS, Measured
from tfwatch.analysis.groups.aligned import group_rows
from tfwatch.analysis.groups.straggler import find_costliest, share_in_parts, usual
from tfwatch.analysis.steps.verdict import steady
from tfwatch.core.events import PipelineSwitched
from tfwatch.live.evidence.run_to_compare import RunToCompare
from tfwatch.live.groups.sampled_steps import sample_steps
from tfwatch.runs.reading.opened import open_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tfwatch.analysis.comparing.comparability import Subject
    from tfwatch.analysis.groups.aligned import Aligned
    from tfwatch.analysis.groups.straggler import Straggler
    from tfwatch.core.clock import Clock
    from tfwatch.core.rows import Rows
    from tfwatch.live.groups.judged_group import JudgedGroup
    from tfwatch.live.groups.sampled_steps import SampledSteps
    from tfwatch.runs.reading.opened import Run


class RankToCompare(RunToCompare):
    """The run of a rank. others_share: of the cores, by programs that are none of its group's processes.

    sampled: its steps that count; None where they are those of its run by itself.
    """

    def __init__(
        self, run: Run, name: str, others_share: float | None, sampled: Rows | None = None
    ) -> None:
        super().__init__(run, name)
        self._others_share, self._sampled = others_share, sampled

    @property
    def others_share(self) -> float | None:
        return self._others_share

    @cached_property
    def rows(self) -> Rows:
        return super().rows if self._sampled is None else steady(self._sampled)


class GroupToCompare(RunToCompare):
    """A group that was read once. `run` is that of its last rank, which sets the step time of all."""

    def __init__(self, judged: JudgedGroup, name: str, clock: Clock) -> None:
        self.group = judged
        self._clock = clock
        super().__init__(self._open(judged.last_rank), name)

    def _open(self, rank: int) -> Run:
        """Return all rows of a rank's run: the group has its newest ones only."""
        newest = self.group.group.ranks[rank]
        return open_run(newest.path, self._clock) if newest.path else newest

    def rank(self, rank: int) -> RunToCompare:
        """Return all of the run of a rank."""
        run = self.run if rank == self.group.last_rank else self._open(rank)
        return RankToCompare(run, f"rank {rank} of {self.name}", self.others_share)

    def processes(self) -> Iterator[RunToCompare]:
        for rank, run in sorted(self.group.group.ranks.items()):
            yield RankToCompare(
                run, f"rank {rank} of {self.name}", self.others_share, self._sampled.rows[rank]
            )

    @cached_property
    def _sampled(self) -> SampledSteps:
        """Steps of the whole group since the last switch of any rank."""
        return sample_steps(self.group, _last_switch(list(self.group.group.ranks.values())))

    @property
    def not_recorded(self) -> str:
        group = self.group.group
        missing = [f"rank {rank} of {self.name} has no run" for rank in group.missing]
        return ", ".join(
            [
                *missing,
                *(f"rank {rank} cannot be read: {why}" for rank, why in group.unreadable.items()),
            ]
        )

    @property
    def recorded_name(self) -> str:
        return self.group.group.folder.name

    @property
    def folder(self) -> Path | None:
        return self.group.group.folder

    @property
    def state(self) -> str:
        return self.group.state

    @property
    def step_count(self) -> int:
        return min(one.step for one in self.group.ranks)

    @property
    def rank_count(self) -> int | None:
        return len(self.group.group.ranks)

    @property
    def aligned(self) -> Aligned:
        """The steps that count: those that all ranks have."""
        return self._sampled.aligned

    @cached_property
    def _costliest(self) -> Straggler | None:
        return None if self.group.why_not else find_costliest(self.aligned)

    @cached_property
    def rows(self) -> Rows:
        """The usual steps of the group; none where they are not split, or only one rank has a run."""
        rows = group_rows(self.aligned)
        if self.group.why_not or not len(rows):
            return rows[:0]
        return steady(rows[usual(self.aligned)])

    @property
    def why_no_rows(self) -> str:
        return f"{self.name}: {self.group.why_not}" if self.group.why_not else ""

    @property
    def slowest_rank(self) -> int | None:
        return self._costliest.rank if self._costliest else None

    @cached_property
    def straggler_share(self) -> Measured | None:
        """The time that the others wait for one rank, over the group's step; None where no straggler can be named."""
        found = self._costliest
        return (
            Measured(found.share, share_in_parts(self.aligned, found, QUARTERS)) if found else None
        )

    @cached_property
    def subject(self) -> Subject:
        own = super().subject
        ranks, folder = self.group.group.ranks.values(), self.group.group.folder
        hosts = {str(run.manifest.machine.get("host") or "") for run in ranks}
        return replace(
            own,
            path=str(folder.resolve()),
            settings={**own.settings, "ranks": str(len(ranks))},
            host=" ".join(sorted(hosts)),
            start_s=self.group.group.file.began_wall_ns / 1e9,
        )

    @cached_property
    def others_share(self) -> float | None:
        """The largest share of a machine's cores that other programs than the group used; None where unknown."""
        runs = list(self.group.group.ranks.values())
        hosts = {run.manifest.machine.get("host") for run in runs}
        shares = [
            _others_share([run for run in runs if run.manifest.machine.get("host") == host])
            for host in hosts
        ]
        return max((share for share in shares if share is not None), default=None)

    @property
    def peak_bytes(self) -> float | None:
        peaks = [self.rank(rank).peak_bytes for rank in self.group.group.ranks]
        known = [peak for peak in peaks if peak is not None]
        return max(known) if len(known) == len(peaks) else None

    @property
    def joules_per_step(self) -> float | None:
        return None

    @property
    def energy_missing(self) -> str:
        return "ranks of one machine may share what its sensors measure"


def _last_switch(ranks: Sequence[Run]) -> int:
    """Return the step of the last switch of any rank; 0 without one."""
    switches = (
        event for run in ranks for event in run.events if isinstance(event, PipelineSwitched)
    )
    return max((event.step for event in switches), default=0)


def _others_share(ranks: Sequence[Run]) -> float | None:
    """Return the share of a machine's cores that other programs used than these ranks, which run on it."""
    cores = ranks[0].manifest.machine.get("cores")
    used = [_median(run, "cpu_cores") for run in ranks]
    own = [_median(run, "process_cores") for run in ranks]
    if not cores or any(value is None for value in (*used, *own)):
        return None
    others = max(value or 0.0 for value in used) - sum(value or 0.0 for value in own)
    return min(max(others / float(cores), 0.0), 1.0)


def _median(run: Run, name: str) -> float | None:
    values = run.samples[name]
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else None

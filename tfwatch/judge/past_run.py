"""A recorded run in a line: its state, its length, and where its steps' time went."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.steps.steady_steps import steady_breakdown
from tfwatch.runs.format import NotARunError
from tfwatch.runs.group import is_group, newest_round, rank_folders
from tfwatch.runs.run import open_run

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.core.clock import Clock
    from tfwatch.runs.snapshot import Snapshot

#: Of a longer run the last steps count: reading all of them delays a list.
_MOST_STEPS = 200_000
#: The states of a rank, by what they mean for the group: a rank that died stops the others.
_WORST_FIRST = (
    "killed",
    "failed",
    "not responding",
    "unknown",
    "folder gone",
    "running",
    "stopped",
    "finished",
)


@dataclass(frozen=True, slots=True)
class PastRun:
    """A recorded run, or a group of them."""

    #: Its argument for `tfwatch replay`.
    words: str
    workload: str
    #: Seconds since its start.
    age_s: float
    #: E.g. `finished`.
    state: str
    steps: int
    #: Its duration.
    length_s: float
    #: Mean step time of its last 200 000 steps, steady ones.
    step_ms: float | None = None
    #: Data wait of these, 0 to 1; None where there are none.
    wait_share: float | None = None
    #: Of a group that have a run; None for a run.
    ranks: int | None = None
    #: The path of the user's script; empty without one.
    script: str = ""

    @property
    def length(self) -> str:
        """`5 000 steps, 52.6 s`."""
        return f"{units.counted(self.steps, 'step')}, {units.seconds(self.length_s)}"


def past_entry(folder: Path, words: str, clock: Clock) -> PastRun | None:
    """Return a run in a line, or a group: its first rank, with the steps that all ranks have made
    and the worst state; None where it cannot be read."""
    folders, ranks = [folder], None
    try:
        if is_group(folder):
            folders = [one.folder for one in newest_round(rank_folders(folder))]
            ranks = len(folders)
        runs = [past_run(open_run(one, clock, _MOST_STEPS), words, clock) for one in folders]
    except (NotARunError, OSError):
        return None
    if not runs:
        return None
    states = [run.state for run in runs]
    worst = next((state for state in _WORST_FIRST if state in states), states[0])
    return replace(runs[0], state=worst, steps=min(run.steps for run in runs), ranks=ranks)


def state_of(run: Snapshot) -> str:
    """Return how a run ended, else the state of its process."""
    return run.ended.cause if run.ended else run.life.value


def past_run(run: Snapshot, words: str, clock: Clock) -> PastRun:
    """Return a run in a line."""
    split = steady_breakdown(run.steps)
    return PastRun(
        words=words,
        workload=run.manifest.workload,
        age_s=max(0.0, (clock.wall_ns() - run.manifest.origin_wall_ns) / 1e9),
        state=state_of(run),
        steps=run.steps_total,
        length_s=run.length_s,
        step_ms=split.step.mean if split else None,
        wait_share=split.wait_share if split else None,
        script=run.manifest.script,
    )

"""A recorded run in a line: its state, its length, and where its steps' time went."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from itertools import islice, starmap
from pathlib import Path
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.effects.switching_state import autopilot_runs
from tfwatch.judge.effects.wording import estimate_text, setting_text
from tfwatch.judge.steps.steady_steps import breakdown, steady
from tfwatch.runs.folder import RunFolder
from tfwatch.runs.format import NotARunError
from tfwatch.runs.group import is_group, newest_round, rank_folders
from tfwatch.runs.library import list_single_runs
from tfwatch.runs.run import open_run
from tfwatch.runs.sources import read_sources

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.core.clock import Clock
    from tfwatch.judge.effects.interval import Estimate
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
    """Return a run or a group in a line; None where it cannot be read."""
    try:
        if is_group(folder):
            return _past_group(folder, words, clock)
        return past_run(open_run(folder, clock, _MOST_STEPS), words, clock)
    except (NotARunError, OSError):
        return None


def _past_group(folder: Path, words: str, clock: Clock) -> PastRun | None:
    """Return a group in a line: its first rank, with the steps that all ranks have made and the
    worst state."""
    newest = newest_round(rank_folders(folder))
    ranks = [past_run(open_run(one.folder, clock, _MOST_STEPS), words, clock) for one in newest]
    if not ranks:
        return None
    return replace(
        ranks[0],
        state=worst_state([rank.state for rank in ranks]),
        steps=min(rank.steps for rank in ranks),
        ranks=len(ranks),
    )


def state_of(run: Snapshot) -> str:
    """Return how a run ended, else the state of its process."""
    return run.ended.cause if run.ended else run.life.value


def worst_state(states: Sequence[str]) -> str:
    """Return the worst state of a group's ranks."""
    return next((state for state in _WORST_FIRST if state in states), states[0])


def past_run(run: Snapshot, words: str, clock: Clock) -> PastRun:
    """Return a run in a line."""
    split = breakdown(steady(run.steps))
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


# -- the setting that the autopilot found in one ---------------------------------------------------

#: The newest runs that are looked at.
_MOST_RUNS = 200


@dataclass(frozen=True, slots=True)
class KeptSetting:
    """The values of knobs that the autopilot kept. run: the name of its run."""

    values: dict[str, str]
    gain: Estimate
    run: str

    @property
    def text(self) -> str:
        """The setting with its gain, and the run that shows it."""
        words = ", ".join(starmap(setting_text, self.values.items()))
        return f"{words}: {estimate_text(self.gain)} in {self.run}"


def find_kept_setting(runs_dir: Path, script: str) -> KeptSetting | None:
    """Return what the autopilot found in the newest finished run of a script that it tuned; None
    where it found nothing faster, or where no such run has the same lines.

    script: its path.

    Raises:
        OSError: the runs or the script cannot be read.
    """
    path = Path(os.path.abspath(script))
    text = path.read_text(encoding="utf-8", errors="replace")
    for folder in islice(list_single_runs(runs_dir), _MOST_RUNS):
        if not _is_of(folder, str(path)) or read_sources(folder).get(path.name) != text:
            continue
        run = open_run(folder)
        tuned = autopilot_runs(run.events)
        if tuned and run.ended and run.ended.cause == "finished":
            gain, kept = tuned[-1].estimate, tuned[-1].kept
            values = {change.knob: change.new for change in kept}
            return KeptSetting(values, gain, folder.name) if gain and values else None
    return None


def _is_of(folder: Path, script: str) -> bool:
    try:
        return RunFolder(folder).manifest().script == script
    except NotARunError:
        return False

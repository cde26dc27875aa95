"""The state of a run at a moment, frozen: what every screen, judge, report and script reads."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core import units
from tfwatch.core.clock import local_time
from tfwatch.core.events import EpochStarted, RunEnded, Slept, TrainingFailed
from tfwatch.core.rows import Phase, clean_rows, plausible_rows
from tfwatch.runs import format as layout
from tfwatch.runs.liveness import find_open_phase

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from pathlib import Path

    from tfwatch.core.events import StagesFound
    from tfwatch.core.rows import Rows
    from tfwatch.runs.buffers import Events
    from tfwatch.runs.folder import RunFolder
    from tfwatch.runs.format import Manifest, Pulse
    from tfwatch.runs.liveness import Life, OpenPhase
    from tfwatch.runs.sums import EpochSums, TimeSums


@dataclass(frozen=True, slots=True)
class ProgressNow:
    """The training's progress; a loss that is missing, or NaN, is None."""

    examples: int
    step: int
    epoch: int
    epoch_step: int
    loss: float | None


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A run as far as it has been read. Compared by identity.

    What a frame needs is in memory. `steps`, `stages` and `fits` read the disk when they are first
    asked for: never in the thread of a screen's keys.
    """

    manifest: Manifest
    source: RunFolder
    life: Life
    #: The run's time, seconds since its clock origin: now; its end, or last pulse, where it is
    #: over.
    now_s: float
    #: The age of the pulse, seconds, where the run does not respond; else 0.0.
    silent_s: float
    #: The newest readable one.
    pulse: Pulse | None
    #: The last `run.RECENT` plausible rows of `core.rows.STEP`.
    recent: Rows
    #: The number of all steps, implausible rows included.
    steps_total: int
    #: Returns the plausible rows of steps first to last: see `Run.steps_between`.
    steps_between: Callable[[int, int], Rows]
    #: The sums of the steps in buckets of time, for a chart; they grow with the run.
    time_sums: TimeSums
    epoch_sums: EpochSums
    #: All rows of `core.rows.SAMPLE`.
    samples: Rows
    #: All rows of `core.rows.GPU`; none without a strategy over several GPUs.
    gpus: Rows
    #: All rows of `core.rows.PROGRESS`.
    progress: Rows
    latest: ProgressNow | None
    #: Examples a second over the last 5 s; None before there are any.
    examples_s: float | None
    #: Rows of `core.rows.STAGE` of the last seconds; none without a recent reading.
    recent_stages: Rows
    #: The names of the stages, by number.
    stages_found: Mapping[int, StagesFound]
    #: In the order of writing.
    events: Events
    #: The log's first and last lines, of `log_total` in all, and the line that has not ended.
    log_head: tuple[str, ...]
    log_tail: tuple[str, ...]
    log_total: int
    log_unfinished: str
    #: Unreadable lines, rows and entries of the manifest.
    torn: int
    #: The first and the end of the rows that were read, by file.
    ranges: Mapping[str, tuple[int, int]]

    @property
    def folder(self) -> Path | None:
        """The run folder; None for a script that has no run yet."""
        return self.source.folder

    @property
    def length_s(self) -> float:
        """Seconds from the run's start to its end; to its last pulse where it was killed, else to
        now."""
        return self.now_s

    # -- steps -----------------------------------------------------------------------------------

    @cached_property
    def steps(self) -> Rows:
        """All plausible rows of `core.rows.STEP`: where all are, a read-only view of the file."""
        return plausible_rows(self._rows(layout.STEPS), layout.latest_row_ns(self.pulse))

    @cached_property
    def stages(self) -> Rows:
        """All rows of `core.rows.STAGE`."""
        return clean_rows(self._rows(layout.STAGES), layout.latest_row_ns(self.pulse))

    @cached_property
    def epochs(self) -> Rows:
        """Rows of `core.rows.EPOCH`: the sums of each epoch's steps."""
        return self.epoch_sums.rows

    @cached_property
    def fits(self) -> tuple[Rows, ...]:
        """The steps of each `fit`: several short ones in a row share a run."""
        begins_ns: dict[int, int] = {}
        for event in self.events.of(EpochStarted):
            begins_ns.setdefault(event.fit, event.at_ns)
        edges = np.searchsorted(
            self.steps["start_ns"], [begins_ns[fit] for fit in sorted(begins_ns)][1:]
        )
        return tuple(np.split(self.steps, edges))

    def _rows(self, name: str) -> Rows:
        return self.source.rows(name)[slice(*self.ranges[name])]

    # -- events ----------------------------------------------------------------------------------

    @property
    def ended(self) -> RunEnded | None:
        """The run's end event; None where it is running or was killed."""
        return self.events.newest(RunEnded)

    @property
    def failure(self) -> str:
        """`failed at step 7: ValueError: no`; empty where the training did not fail."""
        failed = self.events.newest(TrainingFailed)
        return f"failed at step {units.count(failed.step)}: {failed.error}" if failed else ""

    @property
    def open_phase(self) -> OpenPhase | None:
        """The training thread's last phase; None where it is unknown."""
        return find_open_phase(self.ended, self.pulse)

    @property
    def has_unrecorded_end(self) -> bool:
        """True where only the last pulse says that the run ended: the disk took no end event."""
        last = self.open_phase
        return self.ended is None and last is not None and last.phase is Phase.ENDED

    @property
    def unrecorded(self) -> str:
        """The reason why the disk takes no rows now; empty where it does."""
        return self.pulse.unrecorded if self.pulse else ""

    @property
    def log(self) -> tuple[str, ...]:
        """The first and the last lines of the log, each once."""
        only_tail = self.log_total - len(self.log_tail)
        return (*self.log_head, *self.log_tail[max(len(self.log_head) - only_tail, 0) :])

    # -- time ------------------------------------------------------------------------------------

    def local_time(self, at_s: float) -> datetime:
        """Return the local date and time of a moment of the run. The run's clock stops while the
        machine sleeps."""
        ended, slept_ns = self._sleep_sums
        before = bisect_right(ended, at_s * 1e9)
        return local_time(
            self.manifest.origin_wall_ns
            + round(at_s * 1e9 + (slept_ns[before - 1] if before else 0.0))
        )

    @cached_property
    def _sleep_sums(self) -> tuple[list[int], list[float]]:
        """The ends of the sleeps, in order, and the nanoseconds slept up to each."""
        sleeps = sorted(self.events.of(Slept), key=attrgetter("at_ns"))
        return [slept.at_ns for slept in sleeps], list(
            accumulate(slept.slept_ms * 1e6 for slept in sleeps)
        )

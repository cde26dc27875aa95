"""A whole run as numpy arrays, for scripts, notebooks and reports."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core import units
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.events import EpochStarted, RunEnded, TrainingFailed, decode
from tfwatch.core.rows import GPU, STAGE, Phase, clean_rows, plausible_rows
from tfwatch.runs import format as layout
from tfwatch.runs.format import decode_pulse
from tfwatch.runs.reading.buffers import LogLines
from tfwatch.runs.reading.folder import RunFolder
from tfwatch.runs.reading.liveness import Life, find_open_phase, state_now
from tfwatch.runs.reading.sums import EpochSums, Pyramid
from tfwatch.runs.streams import write_own_run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfwatch.core.events import Event
    from tfwatch.core.rows import Rows
    from tfwatch.runs.format import Manifest
    from tfwatch.runs.reading.liveness import OpenPhase

_CHUNK = 4 * 2**20
_BLOCK = 2**18


@dataclass(frozen=True, eq=False)
class Run:
    """A run, read once. `steps` and `samples` are read-only views of its files.

    path: None for a script that has no run yet.
    steps: rows of `core.rows.STEP`; samples: of `SAMPLE`; stages: of `STAGE`; gpus: of `GPU`;
    events: in the order of writing.
    length_s: from the run's start to its end; to its last pulse where it was killed, else to now.
    silent_s: the age of the pulse where the run does not respond.
    open_phase: the training thread's last phase; None where it is unknown. log: its first and its
    last lines.
    """

    path: Path | None
    manifest: Manifest
    steps: Rows
    samples: Rows
    events: tuple[Event, ...]
    life: Life
    length_s: float
    open_phase: OpenPhase | None = None
    log: tuple[str, ...] = ()
    stages: Rows = field(default_factory=lambda: np.empty(0, dtype=STAGE))
    gpus: Rows = field(default_factory=lambda: np.empty(0, dtype=GPU))
    silent_s: float = 0.0

    @cached_property
    def plausible_steps(self) -> Rows:
        """The plausible ones of `steps`."""
        return plausible_rows(self.steps)

    @cached_property
    def epochs(self) -> Rows:
        """Rows of `core.rows.EPOCH`: the sums of each epoch's steps."""
        sums = EpochSums()
        for rows in self._blocks():
            sums.add(rows)
        return sums.rows

    @cached_property
    def pyramid(self) -> Pyramid:
        """The sums of the steps in buckets of time, for a chart."""
        sums = Pyramid()
        for rows in self._blocks():
            sums.add(rows)
        return sums

    def _blocks(self) -> Iterator[Rows]:
        """Yield the plausible steps, a block at a time."""
        for start in range(0, len(self.plausible_steps), _BLOCK):
            yield self.plausible_steps[start : start + _BLOCK]

    @cached_property
    def fits(self) -> tuple[Rows, ...]:
        """The steps of each `fit`: several short ones in a row share a run."""
        begins_ns = {
            event.fit: event.at_ns
            for event in reversed(self.events)
            if isinstance(event, EpochStarted)
        }
        edges = np.searchsorted(
            self.steps["start_ns"], [begins_ns[fit] for fit in sorted(begins_ns)][1:]
        )
        return tuple(np.split(self.steps, edges))

    @property
    def ended(self) -> RunEnded | None:
        """The run's end event; None where it is running or was killed."""
        return next((event for event in reversed(self.events) if isinstance(event, RunEnded)), None)

    @property
    def failure(self) -> str:
        """`failed at step 7: ValueError: no`; empty where the training did not fail."""
        failed = next(
            (event for event in reversed(self.events) if isinstance(event, TrainingFailed)), None
        )
        return f"failed at step {units.count(failed.step)}: {failed.error}" if failed else ""

    @property
    def has_unrecorded_end(self) -> bool:
        """True where only the last pulse says that the run ended: the disk took no end event."""
        return (
            self.ended is None
            and self.open_phase is not None
            and self.open_phase.phase is Phase.ENDED
        )


def open_run(path: str | Path, clock: Clock = SYSTEM, newest: int | None = None) -> Run:
    """Open a run folder: of a run that ended, was killed, or is still running (its whole rows up to
    now).

    A run that this process writes is complete up to now, unless its disk does not respond for 5 s;
    one of another process lacks at most its last 0.1 s.
    newest: read no more than so many of its last rows of each kind; None is all.

    Raises:
        NotARunError: the folder is not a run folder that this tfwatch reads.
    """
    folder = Path(os.path.expanduser(path))
    write_own_run(folder)
    return read_whole(RunFolder(folder), clock, newest)


def read_whole(source: RunFolder, clock: Clock = SYSTEM, newest: int | None = None) -> Run:
    """Open the run of a source, as `open_run` does.

    Raises:
        NotARunError: the source has no run that this tfwatch reads.
    """
    manifest = source.manifest_now()
    first = None if newest is None else -newest
    steps = source.rows(layout.STEPS)[first:]
    samples, stages, gpus = (
        clean_rows(source.rows(name)[first:])
        for name in (layout.SAMPLES, layout.STAGES, layout.GPUS)
    )
    lines = b"".join(_chunks(source, layout.EVENTS)).split(b"\n")
    events = tuple(event for line in lines if (event := decode(line)))
    pulse = decode_pulse(source.read_now(layout.PULSES, 0, _CHUNK))
    ended = next((event for event in reversed(events) if isinstance(event, RunEnded)), None)
    state = state_now(manifest, ended, pulse, steps, clock)
    return Run(
        source.folder,
        manifest,
        steps,
        samples,
        events,
        state.life,
        state.now_s,
        find_open_phase(ended, pulse),
        _log(source),
        stages,
        gpus,
        state.silent_s,
    )


def _log(source: RunFolder) -> tuple[str, ...]:
    lines = LogLines()
    for data in _chunks(source, layout.LOG):
        lines.add(data)
    return (*lines.head, *lines.tail[max(len(lines.head) - (lines.total - len(lines.tail)), 0) :])


def _chunks(source: RunFolder, name: str) -> Iterator[bytes]:
    offset = 0
    while data := source.read_now(name, offset, _CHUNK):
        offset += len(data)
        yield data

"""A run, which grows as its folder grows: live, attached, replayed, reported and compared alike."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.events import RunEnded, StagesFound, decode
from tfwatch.core.rows import clean_rows, plausible
from tfwatch.runs import format as layout
from tfwatch.runs.buffers import (
    MAX_STAGE_ROWS,
    EventLog,
    GrowingRows,
    LineSplitter,
    LogLines,
    last_stage_rows,
    newest_rows,
)
from tfwatch.runs.folder import FIRST_S, PATIENCE_S, DiskCall, LateCall, RunFolder
from tfwatch.runs.format import NotARunError, decode_pulse
from tfwatch.runs.liveness import state_now
from tfwatch.runs.snapshot import ProgressNow, Snapshot
from tfwatch.runs.streams import write_own_run
from tfwatch.runs.sums import EpochSums, TimeSums

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tfwatch.core.rows import Rows
    from tfwatch.runs.format import Manifest, Pulse

T = TypeVar("T")

#: Steps of a snapshot: those of the verdict and of the single-step zoom.
RECENT = 4096
_CHUNK = 4 * 2**20
#: Examples a second are a mean over this time.
_EXAMPLES_NS = 5e9


class Run:
    """One run; `read` takes in what its folder has got since the last call.

    newest: read no more than so many of its last rows of each kind; None is all. patience_s:
    seconds that a frame may wait for `in_time`; None: until it is done.

    Raises:
        NotARunError: the source has no run that this tfwatch reads.
    """

    def __init__(
        self,
        source: RunFolder,
        clock: Clock = SYSTEM,
        newest: int | None = None,
        patience_s: float | None = None,
    ) -> None:
        self._source = source
        self._frames: LateCall[Any] = LateCall(patience_s, clock)
        self._clock = clock
        self._manifest = source.manifest()
        self._manifest_read_ns = clock.now_ns()
        self._firsts = {
            name: 0 if newest is None else max(0, len(source.rows(name)) - newest)
            for name in layout.STREAM_TABLES
        }
        self._offsets = dict.fromkeys((*layout.STREAMS, layout.LOG), 0) | {
            name: first * layout.TABLES[name].itemsize for name, first in self._firsts.items()
        }
        self._time_sums = TimeSums()
        self._epochs = EpochSums()
        self._recent: Rows = np.empty(0, dtype=layout.TABLES[layout.STEPS])
        self._total = self._firsts[layout.STEPS]
        self._are_all_plausible = True
        whole = (layout.SAMPLES, layout.GPUS, layout.PROGRESSES)
        self._tables = {name: GrowingRows(layout.TABLES[name]) for name in whole}
        self._stages: Rows = np.empty(0, dtype=layout.TABLES[layout.STAGES])
        self._stages_found: dict[int, StagesFound] = {}
        self._events = EventLog()
        self._pulse: Pulse | None = None
        self._log = LogLines()
        self._torn = 0
        self._splitter = LineSplitter()

    @property
    def manifest(self) -> Manifest:
        """The manifest as it was read last."""
        return self._manifest

    @property
    def disk(self) -> RunFolder:
        """The folder, whose disk may be silent."""
        return self._source

    def in_time(self, work: Callable[[], T]) -> T | None:
        """Return the result of work that reads and judges the run; None where it is late.

        It goes on in a thread, and a later call returns its result.
        """
        return self._frames.ask(work)

    @property
    def cpu_ns(self) -> int:
        """The CPU time that the threads of `in_time` have taken."""
        return self._frames.cpu_ns

    def read(self) -> Snapshot:
        """Read the new data and return the present state."""
        self._refresh_manifest()
        self._read_pulse()
        while len(rows := self._rows(layout.STEPS)):
            self._add_steps(rows)
        for name, table in self._tables.items():
            while len(rows := self._rows(name)):
                table.extend(clean_rows(rows, self._latest_ns))
        for data in self._new(layout.EVENTS):
            for line in self._splitter.split(data):
                self._add_event(line)
        while len(rows := self._rows(layout.STAGES)):
            self._stages = newest_rows(
                self._stages, clean_rows(rows, self._latest_ns), MAX_STAGE_ROWS
            )
        for data in self._new(layout.LOG):
            self._log.add(data)
        return self._snapshot()

    def steps_between(self, first: int, last: int) -> Rows:
        """Return the rows of steps first to last (counted from 1, both included), as many as there
        are.

        All but the newest are read from the source: they cost a disk read.
        """
        itemsize = layout.TABLES[layout.STEPS].itemsize
        first, newest = max(first, 1), self._recent
        if (
            self._are_all_plausible
            and last <= self._total
            and first > (older := self._total - len(newest))
        ):
            return newest[first - 1 - older : max(last - older, 0)].copy()
        start, length = (first - 1) * itemsize, max(last - first + 1, 0) * itemsize
        rows = layout.rows_of(layout.STEPS, self._source.read(layout.STEPS, start, length))
        return rows[plausible(rows, self._latest_ns)]

    def _snapshot(self) -> Snapshot:
        has_pulse, pulse = self._read_pulse(), self._pulse
        is_gone = not has_pulse and self._source.folder is not None and self._source.is_gone()
        events, recent = self._events.view(), self._recent
        ended = events.newest(RunEnded)
        life, now_s, silent_s = state_now(
            self._manifest, ended, pulse, recent, self._clock, is_gone=is_gone
        )
        progress = self._tables[layout.PROGRESSES].rows
        return Snapshot(
            manifest=self._manifest,
            source=self._source,
            life=life,
            now_s=now_s,
            silent_s=silent_s,
            pulse=pulse,
            recent=recent,
            steps_total=self._total,
            steps_between=self.steps_between,
            time_sums=self._time_sums,
            epoch_sums=self._epochs,
            samples=self._tables[layout.SAMPLES].rows,
            gpus=self._tables[layout.GPUS].rows,
            progress=progress,
            latest=_latest(progress),
            examples_s=_examples_s(progress),
            recent_stages=last_stage_rows(self._stages, now_s * 1e9),
            stages_found=dict(self._stages_found),
            events=events,
            log_head=self._log.head,
            log_tail=self._log.tail,
            log_total=self._log.total,
            log_unfinished=self._log.unfinished,
            torn=self._torn,
            ranges={
                name: (first, self._offsets[name] // layout.TABLES[name].itemsize)
                for name, first in self._firsts.items()
            },
        )

    # -- reading ------------------------------------------------------------------------------

    def _add_steps(self, rows: Rows) -> None:
        mask = plausible(rows, self._latest_ns)
        good = rows if mask.all() else rows[mask]
        self._total += len(rows)
        self._torn += len(rows) - len(good)
        self._are_all_plausible = self._are_all_plausible and len(good) == len(rows)
        self._time_sums.add(good)
        self._epochs.add(good)
        self._recent = newest_rows(self._recent, good, RECENT)

    def _add_event(self, line: bytes) -> None:
        event = decode(line)
        if event is None:
            self._torn += 1
            return
        self._events.add(event)
        if isinstance(event, StagesFound):
            self._stages_found[event.pipeline] = event

    def _rows(self, name: str) -> Rows:
        rows = layout.rows_of(name, self._source.read(name, self._offsets[name], _CHUNK))
        self._offsets[name] += rows.nbytes
        if len(rows) and rows[-1][0] >= self._latest_ns:  # the first column is the time
            self._read_pulse()  # this process, or its disk, stood still since
        return rows

    def _read_pulse(self) -> bool:
        """Read the pulse; return False where there is none, and the one before it still applies."""
        newest = decode_pulse(self._source.read(layout.PULSES, 0, 4096))
        self._pulse = newest or self._pulse
        return newest is not None

    @property
    def _latest_ns(self) -> int:
        return layout.latest_row_ns(self._pulse)

    def _new(self, name: str) -> Iterator[bytes]:
        while data := self._source.read(name, self._offsets[name], _CHUNK):
            self._offsets[name] += len(data)
            yield data

    def _refresh_manifest(self) -> None:
        """Read the manifest again: the writer adds fields, but its origin never changes."""
        now = self._clock.now_ns()
        if now - self._manifest_read_ns < 1e9:
            return
        try:
            manifest = self._source.manifest()
        except NotARunError:
            manifest = self._manifest  # gone, or damaged: the present one still applies
        self._manifest_read_ns = now
        if manifest.origin_ns == self._manifest.origin_ns:
            self._manifest = manifest


def open_run(path: str | Path, clock: Clock = SYSTEM, newest: int | None = None) -> Snapshot:
    """Read a run folder to its end: of a run that ended, was killed, or is still running.

    A run that this process writes is complete up to now, unless its disk does not respond for 5 s;
    one of another process lacks at most its last 0.1 s.
    newest: read no more than so many of its last rows of each kind; None is all.

    Raises:
        NotARunError: the folder is not a run folder that this tfwatch reads.
    """
    folder = Path(os.path.expanduser(path))
    write_own_run(folder)
    return Run(RunFolder(folder), clock, newest).read()


def follow_folder(folder: Path, clock: Clock = SYSTEM) -> Run:
    """Return the run of a folder for a screen, which waits for no disk once it is open.

    Raises:
        NotARunError: the folder has no run that this tfwatch reads.
        OSError: its disk has not responded for `FIRST_S`.
    """
    opening = DiskCall(lambda: Run(RunFolder(folder, clock), clock, patience_s=PATIENCE_S), clock)
    if not opening.wait(FIRST_S):
        raise OSError(f"{folder} does not respond")
    return opening.answer()


def _latest(progress: Rows) -> ProgressNow | None:
    if not len(progress):
        return None
    row = progress[-1]
    images, step, epoch, epoch_step, loss = (row[name].item() for name in row.dtype.names[1:])
    return ProgressNow(images, step, epoch, epoch_step, None if np.isnan(loss) else loss)


def _examples_s(progress: Rows) -> float | None:
    tail = progress[-64:]
    tail = tail[tail["at_ns"] >= tail["at_ns"][-1] - _EXAMPLES_NS] if len(tail) else tail
    if len(tail) < 2 or not tail["images"][-1]:
        return None
    seconds = (float(tail["at_ns"][-1]) - float(tail["at_ns"][0])) / 1e9
    examples = float(tail["images"][-1]) - float(tail["images"][0])
    return examples / seconds if seconds > 0 and examples >= 0 else None

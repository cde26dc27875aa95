"""Writes a run folder. Appending never waits: the writer's own thread takes rows and events to
disk."""

from __future__ import annotations

import math
import struct
import threading
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import fails_open, raise_interrupt, reason
from tfwatch.core.events import (
    Event,
    LossDiverged,
    Noted,
    Paused,
    RecordingLost,
    RecordingResumed,
    RunEnded,
    WatchFailed,
    encode,
)
from tfwatch.core.rows import GPU, SAMPLE, STAGE, Phase
from tfwatch.runs import format as layout
from tfwatch.runs.folder import DiskCall
from tfwatch.runs.format import Pulse
from tfwatch.runs.streams import Stream, WrittenFolder, own_writers, why_not, write_at_start

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np

    from tfwatch.runs.format import Manifest

_STEP = struct.Struct("<QIHHfffff")
_CODES = {"<u2": "H", "<u4": "I", "<u8": "Q", "<f4": "f", "<f8": "d"}


def _packer(row: np.dtype[np.void]) -> struct.Struct:
    return struct.Struct("<" + "".join(_CODES[row[name].str] for name in row.names or ()))


_SAMPLE, _STAGE, _GPU = map(_packer, (SAMPLE, STAGE, GPU))
_SAMPLE_COLUMNS = SAMPLE.names or ()
#: The interval at which rows and the pulse are written: a killed run lacks at most its last 0.1 s.
FLUSH_S = 0.1
#: Seconds that a training waits for a disk as it begins; and as it ends, or its own process opens
#: the run.
BEGIN_S = 2.0
_END_S = 5.0

#: phase, since_ns, step, epoch, detail
Status = tuple[Phase, int, int, int, str]


def _nothing() -> None:
    pass


class RunWriter:
    """The only writer of a run folder.

    Attributes:
        status: the present state of the training thread; assigned as one tuple, so it needs no
        lock.
        progress: the training thread appends its progress here after each call; the next flush
        takes it.
        strategy_gpus: the UUIDs, by device, of the GPUs of a distribution strategy; empty without
        one over several.
        training_thread: the identifier of the training thread; 0 where it is unknown.
        is_between_fits: the run waits for another `fit`.
        epoch: the newest that has begun; that of the status follows with its first batch.
        before_end: called before the end is recorded, in the thread that ends the run.
        current_code: `since_ns` of a status, and the callback, or other Python, that runs since
        then.
        folder: the run folder; None where there is none, or none yet.
        lost: why rows do not get to disk, and since when; None where they do, or there is no
        folder.
        can_open: the folder has a manifest: a reader can open it.
    """

    def __init__(self, folder: Path | None, manifest: Manifest, clock: Clock = SYSTEM) -> None:
        self.folder: Path | None = None
        self.clock = clock
        self.status: Status = (Phase.STARTING, 0, 0, 0, "")
        self.training_thread = 0
        self.strategy_gpus: dict[str, str] = {}
        self.is_between_fits, self.epoch = False, 0
        self.before_end: Callable[[], None] = _nothing
        self.current_code = (0, "")
        self.lost: RecordingLost | None = None
        self.can_open = False
        self._progress_log = ProgressLog()
        self.progress = self._progress_log.reports
        self._ended_ns: int | None = None
        self._manifest = manifest
        self._manifest_lock = threading.Lock()
        self._place: WrittenFolder | None = None
        self._streams = {name: Stream(name) for name in layout.STREAMS}
        self._rows: dict[str, deque[bytes]] = {name: deque() for name in layout.STREAMS}
        self._events: deque[Event] = deque()
        self._seq = 0
        self._pulse = b""
        self._stale_manifest = True
        #: The other work of the writer's thread: at its begin, before and after each flush, ten
        #: times a second, and after the last one.
        self.at_begin: Callable[[], None] = _nothing
        self.take_requests: Callable[[], None] = _nothing
        self.after_flush: Callable[[], None] = _nothing
        self.after_last_flush: Callable[[], None] = _nothing
        self._closing = threading.Event()
        self._flush_lock = threading.Lock()
        self._has_flushed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tfwatch-writer", daemon=True)
        if folder:
            self.adopt(folder)

    # -- for any thread -------------------------------------------------------------------------

    def now_ns(self) -> int:
        """Nanoseconds since the run's clock origin."""
        return self.clock.now_ns() - self._manifest.origin_ns

    def step(
        self,
        start_ns: int,
        step: int,
        epoch: int,
        flags: int,
        wait_ms: float,
        dispatch_ms: float,
        compute_ms: float,
        host_ms: float,
        copy_ms: float = math.nan,
    ) -> None:
        """Append a row of `core.rows.STEP`."""
        self._rows[layout.STEPS].append(
            _STEP.pack(
                start_ns,
                step,
                epoch & 0xFFFF,
                flags,
                wait_ms,
                dispatch_ms,
                compute_ms,
                host_ms,
                copy_ms,
            )
        )

    def sample(self, at_ns: int, figures: Mapping[str, float]) -> None:
        """Append a row of `core.rows.SAMPLE` from columns by name; the other columns are
        missing."""
        values = (figures.get(name, math.nan) for name in _SAMPLE_COLUMNS[1:])
        self._rows[layout.SAMPLES].append(_SAMPLE.pack(at_ns, *values))

    def gpu(self, at_ns: int, gpu: int, busy: float, memory_bytes: float) -> None:
        """Append a row of `core.rows.GPU`; NaN is missing."""
        self._rows[layout.GPUS].append(_GPU.pack(at_ns, gpu, 0, busy, memory_bytes))

    def stage(self, *row: float) -> None:
        """Append a row of `core.rows.STAGE`: its columns in their order."""
        self._rows[layout.STAGES].append(_STAGE.pack(*row))

    def event(self, event: Event) -> None:
        """Append an event. A pause after the end is not one of the training: the screen may stay
        open for long."""
        is_late = (
            self._ended_ns is not None
            and isinstance(event, Paused)
            and event.at_ns > self._ended_ns
        )
        if not is_late:
            self._events.append(event)

    def note(self, text: str, *, is_refusal: bool = False) -> None:
        """Append a `Noted` event with the present time."""
        self.event(Noted(self.now_ns(), text, is_refusal))

    def phase(self, phase: Phase, detail: str = "") -> None:
        """Begin a phase of the training thread; step and epoch do not change."""
        _, _, step, epoch, _ = self.status
        self.status = (phase, self.now_ns(), step, epoch, detail)

    def end(self, cause: str, detail: str = "", at_ns: int | None = None) -> None:
        """End the run, at `at_ns` or now, and record its open phase."""
        phase, since_ns, step, *_ = self.status
        self._do(self.before_end)
        self.phase(Phase.ENDED)
        steps = max(0, step - 1) if phase.is_before_step else step
        self._ended_ns = at_ns = self.status[1] if at_ns is None else at_ns
        self.event(RunEnded(at_ns, cause, steps, detail, doing=phase.name, since_ns=since_ns))

    def manifest(self) -> Manifest:
        """Return the present manifest."""
        return self._manifest

    def describe(self, **changes: Any) -> None:
        """Change fields of the manifest; the next flush writes it."""
        with self._manifest_lock:
            before = self._manifest
            self._manifest = msgspec.structs.replace(before, **changes)
        self._stale_manifest = self._stale_manifest or self._manifest != before

    def adopt(self, folder: Path) -> None:
        """Record into this folder from now on, including rows in memory; a closed run is written
        too."""
        self._place = WrittenFolder(folder)
        for stream in self._streams.values():
            stream.folder = self._place
        self.folder = folder
        own_writers[folder.absolute()] = self
        if self._closing.is_set():
            self.flush()

    def start(self) -> None:
        """Start the writer's thread.

        Raises:
            RuntimeError: the system cannot start a thread.
        """
        self._thread.start()

    def wait_until_begun(self) -> bool:
        """Wait for the first flush; return False where the disk has not responded after 2 s."""
        return not self._is_writing or self._has_flushed.wait(BEGIN_S)

    def finish(self) -> None:
        """Have the writer's thread write the remaining rows and end. A second call does nothing."""
        self._closing.set()

    def close(self) -> bool:
        """Write the remaining rows and end the thread. A second call does nothing.

        Return False where the disk does not respond for 5 s: the process must be able to end, so
        the rest is lost.
        """
        is_writing = self._is_writing
        self.finish()
        if is_writing:
            self._thread.join(timeout=_END_S)
        else:
            self.flush()
        return not self._thread.is_alive()

    @property
    def _is_writing(self) -> bool:
        """True while the writer's thread runs, and this is not that thread: it cannot wait for
        itself."""
        return self._thread.is_alive() and self._thread is not threading.current_thread()

    def write_now(self) -> None:
        """Write everything appended so far, from another thread; give up where the disk does not
        respond for 5 s."""
        if self._is_writing:
            DiskCall(self.flush).wait(_END_S)

    # -- the writer's thread --------------------------------------------------------------------

    def _run(self) -> None:
        is_over = False
        self._do(self.at_begin)
        while not is_over:
            self._do(self.take_requests)
            self._do(self.flush)
            self._do(self.after_flush)
            self._has_flushed.set()
            is_over = self._closing.wait(FLUSH_S)
        self._do(self.take_requests)
        self._do(self.flush)
        self._do(self.after_last_flush)

    def _do(self, work: Callable[[], None]) -> None:
        with fails_open(lambda why: self.event(WatchFailed(self.now_ns(), why))):
            work()

    def flush(self) -> None:
        """Write everything appended so far to disk, or keep it in memory where that fails. Never
        raises."""
        parts = (
            self._append_progress,
            self._append_rows,
            self._write_streams,
            self._write_small_files,
        )
        with self._flush_lock:
            self._report_recording(next(filter(None, [_run_part(part) for part in parts]), ""))

    def _append_progress(self) -> None:
        # The screen of an ended run may stay open for long before the writer is closed.
        is_over = self._closing.is_set() or self._ended_ns is not None
        until_ns = self.now_ns() if self._ended_ns is None else min(self.now_ns(), self._ended_ns)
        row, events = self._progress_log.flush(until_ns, last=is_over)
        # `RunEnded`, which may already be there, stays the last
        self._events.extendleft(reversed(events))
        if row:
            self._rows[layout.PROGRESSES].append(row)

    def _append_rows(self) -> None:
        self._rows[layout.EVENTS].extend(map(_line, _take_all(self._events)))
        for name, rows in self._rows.items():
            self._streams[name].add(b"".join(_take_all(rows)))
        self._seq = (self._seq + 1) & 0xFFFFFFFF
        phase, since_ns, step, epoch, detail = self.status
        busy_since_ns, code = self.current_code
        if code and busy_since_ns == since_ns:
            detail = code
        now_ns, wall_ns = self.now_ns(), self.clock.wall_ns()
        why = self.lost.reason if self.lost else ""
        pulse = Pulse(now_ns, wall_ns, phase, since_ns, step, epoch, detail, why)
        self._pulse = pulse.encode(self._seq)

    def _write_streams(self) -> str:
        return next(filter(None, [stream.write() for stream in self._streams.values()]), "")

    def _write_small_files(self) -> str:
        if self._place is None:
            return ""
        unwritten, self._stale_manifest = self._stale_manifest, False
        try:
            # First: a folder may take no new file, and rows are read up to the pulse.
            write_at_start(self._place, layout.PULSES, self._pulse)
            if unwritten:
                with self._place.opened() as place:
                    text = self._manifest.encode()
                    layout.write_atomically(Path(layout.MANIFEST), text, place)
                unwritten, self.can_open = False, True
        except OSError as error:
            return why_not(error)
        finally:
            if unwritten:
                self._stale_manifest = True
        return ""

    def _report_recording(self, why: str) -> None:
        if bool(why) == bool(self.lost):
            return
        now = self.now_ns()
        self.lost = RecordingLost(now, why, self.status[2]) if why else None
        self.event(self.lost or RecordingResumed(now))


def _run_part(part: Callable[[], str | None]) -> str:
    """Run a part of a flush; return why it failed, empty where it did not."""
    why: list[str] = []
    with fails_open(why.append):
        return part() or ""
    return why[0]


def _line(event: Event) -> bytes:
    """Return the event's line of events.jsonl; an event that cannot be encoded becomes a note."""
    try:
        line = encode(event)
    except Exception as error:  # noqa: BLE001  a metric is the user's object: its conversion to a number may raise anything
        raise_interrupt(error)
        why = reason(error)
        line = encode(Noted(event.at_ns, f"{type(event).__name__} could not be recorded: {why}"))
    return line + b"\n"


def _take_all(queue: deque[Any]) -> list[Any]:
    return [queue.popleft() for _ in range(len(queue))]


#: images, step, epoch, epoch_step, loss; None where there is none.
Progress: TypeAlias = tuple[int, int, int, int, Any]

_ROW = struct.Struct("<QQIIIf")
_PERIOD_NS = 500_000_000
#: The largest float32.
_LARGEST = 3.4028234e38
#: Reports between two flushes: 0.1 s of ten thousand calls a second.
_MAX_REPORTS = 1024
#: A loss that diverges with every other batch would fill the events.
_MAX_DIVERGED = 50


class ProgressLog:
    """Turns the training thread's reports into rows of progress and events about the loss.

    reports: those since the last flush; the training thread appends to it and does nothing else.
    """

    def __init__(self) -> None:
        self.reports: deque[Progress] = deque(maxlen=_MAX_REPORTS)
        self._newest: Progress | None = None
        self._due_ns = 0
        self._ended = False
        self._finite_step = 0
        self._is_diverged = False
        self._diverged_count = 0
        self._has_noted = False

    def flush(self, now_ns: int, *, last: bool) -> tuple[bytes, list[Event]]:
        """Return the row of `core.rows.PROGRESS` that is due, or no bytes, and events about the
        loss.

        last: the run is over; a row is due unless one was written since.
        """
        if self.reports:
            self._newest, self._ended = self.reports[-1], False
        events = [
            event
            for _, step, _, _, loss in _take_all(self.reports)
            if (event := self._loss_event(now_ns, step, loss))
        ]
        if self._newest is None or (now_ns < self._due_ns and (self._ended or not last)):
            return b"", events
        *counts, value = self._newest
        loss, error = _as_float32(value)
        if error and not self._has_noted:
            self._has_noted = True
            words = f"the loss that the model reports is not a number: {error}"
            events.append(Noted(now_ns, words))
        self._due_ns, self._ended = now_ns + _PERIOD_NS, last
        return _ROW.pack(now_ns, *counts, loss), events

    def _loss_event(self, at_ns: int, step: int, loss: Any) -> Event | None:
        """Return an event where the loss becomes NaN or infinite. Only floats count: reading from a
        device would wait."""
        if not isinstance(loss, float):
            return None
        was_diverged, self._is_diverged = self._is_diverged, not math.isfinite(loss)
        if not self._is_diverged:
            self._finite_step = step
        elif not was_diverged and self._diverged_count < _MAX_DIVERGED:
            self._diverged_count += 1
            kind = "NaN" if math.isnan(loss) else "infinite"
            return LossDiverged(at_ns, step, kind, self._finite_step)
        return None


def _as_float32(value: Any) -> tuple[float, str]:
    """Return a number in the range of float32, NaN where the value is missing or not a number, and
    then the reason of the latter."""
    if value is None:
        return math.nan, ""
    try:
        return math.copysign(math.inf, value) if abs(value) > _LARGEST else float(value), ""
    except Exception as error:  # noqa: BLE001  the value is the user's, and may raise anything
        raise_interrupt(error)
        return math.nan, reason(error)

"""Writes a run folder. Appending never waits: a thread of its own takes what was appended to disk.

Writes a run folder. Appending never waits: a thread of its own takes what was appended to disk.

How far the training is: what is said after each call, the rows made of it, and when its loss is no finite number.
"""

from __future__ import annotations

import math
import struct
import threading
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import fails_open, reason
from tfwatch.core.events import (
    Event,
    LossDiverged,
    LossRecovered,
    Noted,
    RecordingLost,
    RecordingResumed,
    RunEnded,
    encode,
)
from tfwatch.core.rows import SAMPLE, Phase
from tfwatch.runs import format as layout
from tfwatch.runs.format import Pulse
from tfwatch.runs.streams import Stream, read_file, write_over

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tfwatch.runs.format import Manifest

_STEP = struct.Struct("<QIHHffff")
_SAMPLE = struct.Struct("<Qffffddddffffffffdfffffffff")
_STAGE = struct.Struct("<QHHIffffff")
_SAMPLE_COLUMNS = SAMPLE.names or ()
#: Rows reach the disk, and the pulse its file, this often: a killed run lacks at most its last 0.1 s.
FLUSH_S = 0.1
#: In these the number of a status is that of the step to come.
_OF_THE_NEXT = (Phase.WAIT, Phase.COMPUTE, Phase.COMPILE)
#: Seconds that a training waits for a disk at its begin, and at its end.
BEGIN_S = 2.0
_END_S = 5.0

#: phase, since_ns, step, epoch, detail
Status = tuple[Phase, int, int, int, str]


class RunWriter:
    """The one writer of a run folder, and the source that a reader in the same process follows.

    Attributes:
        status: what the training thread does now; assigned whole, so that no lock is needed.
        progress: how far it is after each call is appended, which is taken at the next flush.
        trains_in: the identifier of the thread that trains; 0 where nobody knows.
        busy_with: since_ns of a status and the callback that the training thread is in since then.
        folder: the run folder; None where there is none, or none yet.
        cpu_ns, stages_cpu_ns: CPU time of the writer's own thread, and of the one that reads the pipeline's stages.
        lost: since when, and why, what is appended does not get to disk; None where it does, or there is no folder.
        opens: the folder holds a manifest: a reader can open it.
        log: the file that descriptors 1 and 2 write to; None where they are left alone.
    """

    def __init__(self, folder: Path | None, manifest: Manifest, clock: Clock = SYSTEM) -> None:
        self.folder: Path | None = None
        self.log: Path | None = None
        self.clock = clock
        self.status: Status = (Phase.STARTING, 0, 0, 0, "")
        self.trains_in = 0
        self.busy_with = (0, "")
        self.cpu_ns = 0
        self.stages_cpu_ns = 0
        self.lost: RecordingLost | None = None
        self.opens = False
        self._advance = Advance()
        self.progress = self._advance.told
        self._ended_ns: int | None = None
        self._manifest = manifest
        self._describing = threading.Lock()
        self._streams = {name: Stream() for name in layout.STREAMS}
        self._rows: dict[str, deque[bytes]] = {name: deque() for name in layout.STREAMS}
        self._events: deque[Event] = deque()
        self._seq = 0
        self._pulse = b""
        self._stale_manifest = True
        self._closing = threading.Event()
        self._flushing = threading.Lock()
        self._answered = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tfwatch-writer", daemon=True)
        if folder:
            self.adopt(folder)

    # -- what any thread may call -------------------------------------------------------------

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
    ) -> None:
        """Append a row of `core.rows.STEP`."""
        self._rows[layout.STEPS].append(
            _STEP.pack(start_ns, step, epoch & 0xFFFF, flags, wait_ms, dispatch_ms, compute_ms, host_ms)
        )

    def sample(self, at_ns: int, figures: Mapping[str, float]) -> None:
        """Append a row of `core.rows.SAMPLE`, of its columns by name; those that are not given are missing."""
        values = (figures.get(name, math.nan) for name in _SAMPLE_COLUMNS[1:])
        self._rows[layout.SAMPLES].append(_SAMPLE.pack(at_ns, *values))

    def stage(
        self,
        at_ns: int,
        pipeline: int,
        stage: int,
        elements: int,
        busy_ms: float,
        parallelism: float,
        buffered: float,
        buffer_size: float,
        buffered_bytes: float,
        wait_cores: float,
    ) -> None:
        """Append a row of `core.rows.STAGE`."""
        self._rows[layout.STAGES].append(
            _STAGE.pack(
                at_ns,
                pipeline,
                stage,
                elements,
                busy_ms,
                parallelism,
                buffered,
                buffer_size,
                buffered_bytes,
                wait_cores,
            )
        )

    def event(self, event: Event) -> None:
        """Append an event."""
        self._events.append(event)

    def note(self, text: str, *, of_order: bool = False) -> None:
        """Append a `Noted` event of this moment."""
        self.event(Noted(self.now_ns(), text, of_order))

    def phase(self, phase: Phase, detail: str = "") -> None:
        """Say that the training thread begins something; step and epoch stay."""
        _, _, step, epoch, _ = self.status
        self.status = (phase, self.now_ns(), step, epoch, detail)

    def end(self, cause: str, detail: str = "", at_ns: int | None = None, **results: Any) -> None:
        """Say that the run is over, `at_ns` or now, and what was under way. `results`: more fields of `RunEnded`."""
        phase, since_ns, step, *_ = self.status
        self.phase(Phase.ENDED)
        steps = max(0, step - 1) if phase in _OF_THE_NEXT else step
        self._ended_ns = at_ns = self.status[1] if at_ns is None else at_ns
        self.event(RunEnded(at_ns, cause, steps, detail, doing=phase.name, since_ns=since_ns, **results))

    @property
    def has_trained(self) -> bool:
        """Whether a step is done."""
        return self._advance.has_begun

    def describe(self, **changes: Any) -> None:
        """Change fields of the manifest; written with the next flush."""
        with self._describing:
            self._manifest = replace(self._manifest, **changes)
        self._stale_manifest = True

    def adopt(self, folder: Path) -> None:
        """Record into this folder, where there was none: also what is in memory by now, and a run that is over."""
        for name, stream in self._streams.items():
            stream.path = folder / name
        self.folder = folder
        if self._closing.is_set():
            self.flush()

    def start(self) -> bool:
        """Start the thread that writes. False where the disk has not answered it after 2 s.

        Raises:
            RuntimeError: the system gives no thread.
        """
        self._thread.start()
        return self._answered.wait(BEGIN_S)

    def close(self) -> bool:
        """Write what is left and end the thread. A second call does nothing.

        False where the disk does not answer for 5 s: it is left alone, for the process must be able to end.
        """
        writes = self._thread.is_alive()
        self._closing.set()
        if writes:
            self._thread.join(timeout=_END_S)
        else:
            self.flush()
        return not self._thread.is_alive()

    # -- the source that a reader follows -----------------------------------------------------

    def manifest(self) -> Manifest:
        """The manifest as it is now."""
        return self._manifest

    def read(self, name: str, offset: int, limit: int) -> bytes:
        """Up to `limit` bytes of a file from `offset`, whether they are on disk or in memory only."""
        if name == layout.PULSES:
            return self._pulse
        if name == layout.LOG:
            return read_file(self.log, offset, limit) if self.log else b""
        return self._streams[name].read(offset, limit)

    def is_here(self) -> bool:
        """Whether the training runs in this very process."""
        return True

    # -- the writer's thread --------------------------------------------------------------------

    def _run(self) -> None:
        is_over = False
        while not is_over:
            self.flush()
            self._answered.set()
            self.cpu_ns = self.clock.thread_ns()
            is_over = self._closing.wait(FLUSH_S)
        self.flush()

    def flush(self) -> None:
        """Take everything appended so far to disk; what cannot be written stays in memory. Never raises."""
        with self._flushing:
            parts = (self._append_progress, self._append_rows, self._write_small_files)
            self._tell_recording(next(filter(None, [_tried(part) for part in parts]), ""))

    def _append_rows(self) -> str:
        self._rows[layout.EVENTS].extend(map(_line, _drained(self._events)))
        failures = [self._streams[name].append(_drain(rows)) for name, rows in self._rows.items()]
        return next(filter(None, failures), "")

    def _append_progress(self) -> str:
        # The screen of a run that is over may stay for long before the writer is closed.
        is_over = self._closing.is_set() or self._ended_ns is not None
        row, events = self._advance.flush(self._until_ns(), self._manifest.metric, last=is_over)
        self._events.extendleft(reversed(events))  # the run's end, which may be said already, stays the last
        if row:
            self._rows[layout.PROGRESSES].append(row)
        return ""

    def _until_ns(self) -> int:
        """Now, or when the run ended."""
        return self.now_ns() if self._ended_ns is None else min(self.now_ns(), self._ended_ns)

    def _write_small_files(self) -> str:
        self._seq = (self._seq + 1) & 0xFFFFFFFF
        phase, since_ns, step, epoch, detail = self.status
        busy_since_ns, callback = self.busy_with
        if callback and busy_since_ns == since_ns:
            detail = callback
        pulse = Pulse(self.now_ns(), self.clock.wall_ns(), phase, since_ns, step, epoch, detail)
        self._pulse = pulse.encode(self._seq)
        if self.folder is None:
            return ""
        unwritten, self._stale_manifest = self._stale_manifest, False
        try:
            if unwritten:
                layout.write_atomically(self.folder / layout.MANIFEST, self._manifest.encode())
                unwritten, self.opens = False, True
            write_over(self.folder / layout.PULSES, self._pulse)
        except OSError as error:
            return error.strerror or str(error)
        finally:
            if unwritten:
                self._stale_manifest = True
        return ""

    def _tell_recording(self, why: str) -> None:
        if bool(why) == bool(self.lost):
            return
        now = self.now_ns()
        self.lost = RecordingLost(now, why, self.status[2]) if why else None
        self.event(self.lost or RecordingResumed(now))


def _tried(part: Callable[[], str]) -> str:
    """Why a part of a flush failed; empty where it did not."""
    why: list[str] = []
    with fails_open(why.append):
        return part()
    return why[0]


def _line(event: Event) -> bytes:
    """An event as events.jsonl holds it; one that cannot be written is told as a note."""
    try:
        text = encode(event)
    except Exception as error:  # noqa: BLE001  a metric is the user's: to turn it into a number may raise anything
        why = reason(error)
        text = encode(Noted(event.at_ns, f"{type(event).__name__} could not be recorded: {why}"))
    return text.encode() + b"\n"


def _drained(queue: deque[Any]) -> list[Any]:
    return [queue.popleft() for _ in range(len(queue))]


def _drain(queue: deque[bytes]) -> bytes:
    return b"".join(_drained(queue))


#: images, step, epoch, epoch_step, loss, metric; the last two None where they are missing.
Progress: TypeAlias = tuple[int, int, int, int, Any, Any]

_ROW = struct.Struct("<QQIIIIff")
_PERIOD_NS = 500_000_000
#: The largest number of four bytes.
_LARGEST = 3.4028234e38
#: So much is kept between two flushes: 0.1 s of ten thousand calls a second.
_MOST = 1024
#: A loss that comes and goes with every batch would fill the events; after so many times it is told as gone.
_MOST_TOLD = 50


class Advance:
    """told: what the training thread said since the last flush; it appends there and does nothing else."""

    def __init__(self) -> None:
        self.told: deque[Progress] = deque(maxlen=_MOST)
        self._newest: Progress | None = None
        self._due_ns = 0
        self._ended = False
        self._finite_step = 0
        self._diverged = False
        self._diverged_times = 0
        self._no_figures: set[str] = set()

    @property
    def has_begun(self) -> bool:
        """Whether a step is done."""
        return self._newest is not None or bool(self.told)

    def flush(self, now_ns: int, metric: str, *, last: bool) -> tuple[bytes, list[Event]]:
        """The row of `core.rows.PROGRESS` that is due, else nothing, and what is to be told of the loss and the metric.

        metric: its name. last: the run is over, and a row is due where none has been written since.
        """
        if self.told:
            self._newest, self._ended = self.told[-1], False
        events = [
            event
            for _, step, _, _, loss, _ in [self.told.popleft() for _ in range(len(self.told))]
            if (event := self._changed(now_ns, step, loss))
        ]
        if self._newest is None or (now_ns < self._due_ns and (self._ended or not last)):
            return b"", events
        images, step, epoch, epoch_step, *figures = self._newest
        singles = []
        for name, value in zip(("loss", metric or "metric"), figures, strict=True):
            single, why_not = _single(value)
            singles.append(single)
            if why_not and name not in self._no_figures:
                self._no_figures.add(name)
                events.append(Noted(now_ns, f"the {name} that the model reports is no number: {why_not}"))
        self._due_ns, self._ended = now_ns + _PERIOD_NS, last
        return _ROW.pack(now_ns, images, step, epoch, epoch_step, 0, *singles), events

    def _changed(self, at_ns: int, step: int, loss: Any) -> Event | None:
        """What is new of a step's loss. Only a float is looked at: asking what lies on a device would wait for it."""
        if not isinstance(loss, float):
            return None
        was_diverged = self._diverged
        if not math.isfinite(loss):
            self._diverged = True
            if was_diverged:
                return None
            self._diverged_times += 1
            return LossDiverged(at_ns, step, "NaN" if math.isnan(loss) else "infinite", self._finite_step)
        self._finite_step = step
        if not was_diverged or self._diverged_times >= _MOST_TOLD:
            return None
        self._diverged = False
        return LossRecovered(at_ns, step)


def _single(value: Any) -> tuple[float, str]:
    """A figure as four bytes hold it, and why it is none: a model may report anything. NaN where it is none."""
    if value is None:
        return math.nan, ""
    try:
        return float(value) if math.isnan(value) or abs(value) <= _LARGEST else math.copysign(math.inf, value), ""
    except Exception as error:  # noqa: BLE001  the value is the user's, and may raise anything
        return math.nan, reason(error)

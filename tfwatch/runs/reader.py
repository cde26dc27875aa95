"""Reads a run folder, live or ended: one frozen snapshot a call."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

import numpy as np
import psutil

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.events import Event, RecordingLost, RecordingResumed, RunEnded, decode
from tfwatch.runs import format as layout
from tfwatch.runs.format import Manifest, NotARunError
from tfwatch.runs.machine import boot_id
from tfwatch.runs.pulse import Pulse, decode_pulse
from tfwatch.runs.pyramid import Pyramid
from tfwatch.runs.stream import read_file

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.core.rows import Rows

#: Steps kept in a snapshot: what the verdict and the single-step zoom look at.
RECENT = 4096
LOG_LINES = 2000
_CHUNK = 4 * 2**20
#: A pulse is written ten times a second; older than this it is no answer.
SILENT_S = 1.5


class Life(Enum):
    """What has become of the run's process."""

    RUNNING = "running"
    SILENT = "no answer"
    ENDED = "ended"
    KILLED = "killed"
    UNKNOWN = "unknown"


class Source(Protocol):
    """Where the bytes of a run come from: a folder, or the writer in this process."""

    def manifest(self) -> Manifest: ...

    def read(self, name: str, offset: int, limit: int) -> bytes: ...

    def is_here(self) -> bool: ...

    @property
    def folder(self) -> Path | None: ...


class FolderSource:
    """A run folder that another process writes or wrote."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def folder(self) -> Path | None:
        return self._folder

    def manifest(self) -> Manifest:
        """Read run.json.

        Raises:
            NotARunError: there is none, or it is not one that this tfwatch reads.
        """
        try:
            return Manifest.decode((self._folder / layout.MANIFEST).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise NotARunError(f"{self._folder} is no run folder: {error}") from error

    def read(self, name: str, offset: int, limit: int) -> bytes:
        """Bytes of one of its files; empty where there are none."""
        return read_file(self._folder / name, offset, limit)

    def is_here(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class ProgressNow:
    """How far the training is; `metric` is the one that `Manifest.metric` names. None is missing."""

    images: int
    step: int
    epoch: int
    epoch_step: int
    loss: float | None
    metric: float | None


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A run as it is now. Compared by identity.

    now_s: the reader's time, seconds since the clock origin; at the end of a run that is over, where it ended.
    steps: rows of `core.rows.STEP`, the last `RECENT`; steps_total: how many there are in all.
    samples, progress: rows of `core.rows.SAMPLE` and `PROGRESS`, all of them.
    torn: lines and rows that could not be read. silent_s: how old the pulse of a run without an answer is.
    unrecorded: why the disk takes nothing now; empty where it does.
    images_s: images a second over the last 5 s; None before there are any.
    """

    manifest: Manifest
    folder: Path | None
    life: Life
    here: bool
    now_s: float
    silent_s: float
    pulse: Pulse | None
    steps: Rows
    steps_total: int
    pyramid: Pyramid
    samples: Rows
    progress: Rows
    latest: ProgressNow | None
    images_s: float | None
    events: tuple[Event, ...]
    ended: RunEnded | None
    log: tuple[str, ...]
    unrecorded: str
    torn: int


class RunReader:
    """Follows one run. `tail` reads what came since the last call.

    Raises:
        NotARunError: the source holds no run that this tfwatch reads.
    """

    def __init__(self, source: Source, clock: Clock = SYSTEM) -> None:
        self._source = source
        self._clock = clock
        self._manifest = source.manifest()
        self._manifest_read_ns = clock.now_ns()
        self._offsets = dict.fromkeys((*layout.STREAMS, layout.LOG), 0)
        self._pyramid = Pyramid()
        self._recent = self._empty(layout.STEPS)
        self._total = 0
        self._samples = self._empty(layout.SAMPLES)
        self._progress = self._empty(layout.PROGRESSES)
        self._events: list[Event] = []
        self._log: deque[str] = deque(maxlen=LOG_LINES)
        self._torn = 0
        self._tails = {layout.EVENTS: b"", layout.LOG: b""}

    def tail(self) -> Snapshot:
        """Read what is new and say how the run is."""
        self._refresh_manifest()
        while len(rows := self._rows(layout.STEPS)):
            self._pyramid.add(rows)
            self._total += len(rows)
            self._recent = np.concatenate([self._recent, rows])[-RECENT:]
        while len(rows := self._rows(layout.SAMPLES)):
            self._samples = np.concatenate([self._samples, rows])
        while len(rows := self._rows(layout.PROGRESSES)):
            self._progress = np.concatenate([self._progress, rows])
        self._read_events()
        self._log.extend(line.decode(errors="replace").rstrip("\r") for line in self._lines(layout.LOG))
        return self._snapshot()

    def steps_between(self, first: int, last: int) -> Rows:
        """The rows of steps first to last (counted from 1, both included), as many as there are.

        Reads them from the source: a stretch long past costs a disk read.
        """
        itemsize = self._manifest.layout(layout.STEPS).itemsize
        first = max(first, 1)
        data = self._source.read(layout.STEPS, (first - 1) * itemsize, max(last - first + 1, 0) * itemsize)
        return self._whole(layout.STEPS, data)

    def _snapshot(self) -> Snapshot:
        pulse = decode_pulse(self._source.read(layout.PULSES, 0, 4096), self._manifest.layout(layout.PULSES))
        ended = next((e for e in reversed(self._events) if isinstance(e, RunEnded)), None)
        life, silent_s = self._life(pulse, ended)
        return Snapshot(
            manifest=self._manifest,
            folder=self._source.folder,
            life=life,
            here=self._source.is_here(),
            now_s=self._now_s(life, pulse, ended),
            silent_s=silent_s,
            pulse=pulse,
            steps=self._recent,
            steps_total=self._total,
            pyramid=self._pyramid,
            samples=self._samples,
            progress=self._progress,
            latest=_latest(self._progress),
            images_s=_images_s(self._progress),
            events=tuple(self._events),
            ended=ended,
            log=tuple(self._log),
            unrecorded=_unrecorded(self._events),
            torn=self._torn,
        )

    # -- reading ------------------------------------------------------------------------------

    def _empty(self, name: str) -> Rows:
        return np.empty(0, dtype=self._manifest.layout(name))

    def _rows(self, name: str) -> Rows:
        rows = self._whole(name, self._source.read(name, self._offsets[name], _CHUNK))
        self._offsets[name] += rows.nbytes
        return rows

    def _whole(self, name: str, data: bytes) -> Rows:
        row = self._manifest.layout(name)
        return np.frombuffer(data, dtype=row, count=len(data) // row.itemsize)

    def _lines(self, name: str) -> list[bytes]:
        lines: list[bytes] = []
        while data := self._source.read(name, self._offsets[name], _CHUNK):
            self._offsets[name] += len(data)
            *whole, self._tails[name] = (self._tails[name] + data).split(b"\n")
            lines.extend(whole)
        return lines

    def _read_events(self) -> None:
        for line in self._lines(layout.EVENTS):
            event = decode(line)
            if event is None:
                self._torn += 1
            else:
                self._events.append(event)

    def _refresh_manifest(self) -> None:
        """The writer fills the manifest in as it learns; its origin and layouts never change."""
        now = self._clock.now_ns()
        if not self._source.is_here() and now - self._manifest_read_ns < 1e9:
            return
        self._manifest_read_ns = now
        try:
            self._manifest = self._source.manifest()
        except NotARunError:
            return  # being replaced, or gone: the one in hand still holds

    # -- life -----------------------------------------------------------------------------------

    def _life(self, pulse: Pulse | None, ended: RunEnded | None) -> tuple[Life, float]:
        if ended:
            return Life.ENDED, 0.0
        if self._source.is_here():
            return Life.RUNNING, 0.0
        age_s = max(0.0, self._clock.wall_ns() - (pulse.wall_ns if pulse else self._manifest.origin_wall_ns)) / 1e9
        if self._manifest.boot_id != boot_id():
            other = self._manifest.machine.get("host") != os.uname().nodename
            if not other:
                return Life.KILLED, 0.0
            return (Life.UNKNOWN, age_s) if age_s > 60 else (Life.RUNNING, 0.0)
        if not _is_alive(self._manifest):
            return Life.KILLED, 0.0
        own_ns = self._clock.now_ns() - self._manifest.origin_ns
        age_s = (own_ns - (pulse.now_ns if pulse else 0)) / 1e9
        return (Life.SILENT, age_s) if age_s > SILENT_S else (Life.RUNNING, 0.0)

    def _now_s(self, life: Life, pulse: Pulse | None, ended: RunEnded | None) -> float:
        if ended:
            return ended.at_ns / 1e9
        if life in (Life.KILLED, Life.UNKNOWN):
            return max(self._pyramid.end_s, pulse.now_ns / 1e9 if pulse else 0.0)
        if self._manifest.boot_id == boot_id():
            return (self._clock.now_ns() - self._manifest.origin_ns) / 1e9
        return (self._clock.wall_ns() - self._manifest.origin_wall_ns) / 1e9


def _is_alive(manifest: Manifest) -> bool:
    try:
        process = psutil.Process(manifest.pid)
        same = abs(process.create_time() - manifest.process_started_s) < 2
        return bool(same and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _unrecorded(events: list[Event]) -> str:
    for event in reversed(events):
        if isinstance(event, RecordingLost):
            return event.reason
        if isinstance(event, RecordingResumed):
            return ""
    return ""


def _latest(progress: Rows) -> ProgressNow | None:
    if not len(progress):
        return None
    row = progress[-1]
    loss, metric = (None if np.isnan(row[name]) else float(row[name]) for name in ("loss", "metric"))
    return ProgressNow(int(row["images"]), int(row["step"]), int(row["epoch"]), int(row["epoch_step"]), loss, metric)


def _images_s(progress: Rows, window_s: float = 5.0) -> float | None:
    tail = progress[-64:]
    tail = tail[tail["at_ns"] >= tail["at_ns"][-1] - window_s * 1e9] if len(tail) else tail
    if len(tail) < 2:
        return None
    seconds = float(tail["at_ns"][-1] - tail["at_ns"][0]) / 1e9
    return float(tail["images"][-1] - tail["images"][0]) / seconds if seconds > 0 else None

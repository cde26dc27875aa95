"""Run folders for tests, under a stopped clock."""

import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tfwatch.core.clock import Clock
from tfwatch.core.events import Event
from tfwatch.core.rows import Rows
from tfwatch.runs.folder import RunFolder
from tfwatch.runs.format import Manifest
from tfwatch.runs.machine_info import boot_id
from tfwatch.runs.run import Run, open_run
from tfwatch.runs.snapshot import Snapshot
from tfwatch.runs.writer import RunWriter

ORIGIN_NS = 5_000_000_000
ORIGIN_WALL_NS = 1_800_000_000 * 10**9
HOST = os.uname().nodename


def open_in(folder: Path) -> list[int]:
    """Return the descriptors of this process that are open on a folder or on what is in it."""
    ours = {(one.st_dev, one.st_ino) for one in map(Path.lstat, (folder, *folder.rglob("*")))}
    found = []
    for number in map(int, os.listdir("/dev/fd")):
        with suppress(OSError):  # the listing's own, and those that other threads have closed since
            one = os.fstat(number)
            found += [number] if (one.st_dev, one.st_ino) in ours else []
    return found


@dataclass
class FakeClock:
    """Seconds since the run's origin, set by the test."""

    at_s: float = 0.0

    @property
    def clock(self) -> Clock:
        return Clock(self.now_ns, self.wall_ns, lambda: 0)

    def now_ns(self) -> int:
        return ORIGIN_NS + round(self.at_s * 1e9)

    def wall_ns(self) -> int:
        return ORIGIN_WALL_NS + round(self.at_s * 1e9)


def make_manifest(**changes: Any) -> Manifest:
    """Return the manifest of a run that this process writes."""
    values: dict[str, Any] = {
        "run": "2026-11-20T10-17-03_cnn",
        "workload": "cnn",
        "origin_ns": ORIGIN_NS,
        "origin_wall_ns": ORIGIN_WALL_NS,
        "pid": os.getpid(),
        "process_started_s": psutil.Process().create_time(),
        "boot_id": boot_id(),
        "machine": {"host": HOST},
    }
    return Manifest(**{**values, **changes})


def add_steps(writer: RunWriter, rows: Rows) -> None:
    """Append rows of `core.rows.STEP`, as a training does."""
    for row in rows:
        writer.step(*row.item())


def write_run(
    folder: Path | None, rows: Rows, *events: Event, clock: FakeClock | None = None, **changes: Any
) -> RunWriter:
    """Write a run of these steps and events, and close it."""
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
    writer = RunWriter(folder, make_manifest(**changes), (clock or FakeClock()).clock)
    add_steps(writer, rows)
    for event in events:
        writer.event(event)
    writer.close()
    return writer


def make_writer(folder: Path | None) -> RunWriter:
    """Return a writer whose clock is stopped, one second after the run's origin."""
    return RunWriter(folder, make_manifest(), FakeClock(1.0).clock)


def read(folder: Path) -> Snapshot:
    """Return a reader's first snapshot of a folder."""
    return Run(RunFolder(folder), FakeClock(1).clock).read()


def opened(folder: Path) -> Snapshot:
    """Return the run in a folder."""
    return open_run(folder, FakeClock(1).clock)


#: Holds the runs that a test writes without a folder.
_SCRATCH = tempfile.TemporaryDirectory(prefix="tfwatch-tests-")


class UnnamedFolder(RunFolder):
    """A run folder that no text names: its path differs with each test."""

    @property
    def folder(self) -> None:
        return None


def folder_of(writer: RunWriter) -> RunFolder:
    """Return the run that a writer has written so far; one without a folder gets one, which is not
    named."""
    if writer.folder is None:
        writer.adopt(Path(tempfile.mkdtemp(dir=_SCRATCH.name)))
    writer.flush()
    assert writer.folder
    kind = UnnamedFolder if writer.folder.parent == Path(_SCRATCH.name) else RunFolder
    return kind(writer.folder, writer.clock)


def reader_of(writer: RunWriter, clock: Clock | None = None) -> Run:
    """Return a reader of the run that a writer writes, by the writer's clock or another one."""
    return Run(folder_of(writer), clock or writer.clock)


def read_back(writer: RunWriter, clock: Clock | None = None) -> Snapshot:
    """Return the run that a writer has written so far."""
    return reader_of(writer, clock).read()


def written(writer: RunWriter, name: str) -> bytes:
    """Return what a writer has written so far to one of its files."""
    return folder_of(writer).read(name, 0, 10**6)


def kinds(folder: Path) -> list[str]:
    """Return the names of a run's events."""
    return [type(event).__name__ for event in opened(folder).events]

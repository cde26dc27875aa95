"""A run folder on any disk, and calls on it: a disk that hangs never blocks the keys of a
screen."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import stat
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import warn_user
from tfwatch.runs import format as layout
from tfwatch.runs.format import Manifest, NotARunError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tfwatch.core.rows import Rows

#: Errors of a folder that was moved, deleted or unmounted: ESTALE on a network disk, ENOTCONN of a
#: server that died.
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ESTALE, errno.ENOTCONN)
T = TypeVar("T")

#: Seconds that the calls of a frame may wait for the disk.
PATIENCE_S = 0.1
#: A disk that is silent for longer, seconds, is reported.
SLOW_S = 3.0
#: Seconds that the screen of a run waits for its disk before it shows.
FIRST_S = 10.0
#: The bytes of a run.json that are read, and from which on a file is looked through for holes.
_LARGE = 64 * 2**20
#: A manifest has some kilobytes.
_LONGEST_MANIFEST = 4 * 2**20


class SilentDiskError(OSError):
    """A disk does not respond; the message is a sentence for the user."""


class DiskCall(Generic[T]):
    """A call that has begun; where the system gives no thread for it, it is done at once.

    work: what the call does. clock: measures how long the disk is silent. name: the thread's.
    """

    def __init__(
        self, work: Callable[[], T], clock: Clock = SYSTEM, name: str = "tfwatch-disk"
    ) -> None:
        self._work, self._clock = work, clock
        self._begun_ns = clock.now_ns()
        self._answers: list[T] = []
        self._error: Exception | None = None
        self._done = threading.Event()
        #: The CPU time that its thread has taken, once it is done.
        self.cpu_ns = 0
        try:
            threading.Thread(target=self._run, name=name, daemon=True).start()
        except RuntimeError:
            self._run()

    def _run(self) -> None:
        try:
            self._answers.append(self._work())
        except Exception as error:  # noqa: BLE001  `answer` raises it
            self._error = error
        self.cpu_ns = self._clock.thread_ns()
        self._done.set()

    @property
    def is_done(self) -> bool:
        """True once `answer` may be called."""
        return self._done.is_set()

    @property
    def silent_s(self) -> float:
        """The seconds for which the disk has owed the answer; 0.0 where it is there."""
        return 0.0 if self.is_done else (self._clock.now_ns() - self._begun_ns) / 1e9

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the answer, at most so long, or without an end; return whether it is there."""
        return self._done.wait(seconds)

    def answer(self) -> T:
        """Return the result of the work once it is done, and raise what it raised."""
        if self._error:
            raise self._error
        return self._answers[0]


class LateCall(Generic[T]):
    """Calls on a disk for a screen, one at a time: one whose answer is late goes on in its thread.

    Attributes:
        patience_s: seconds that a call may wait for its answer; None: it is made in the thread of
        its caller.
        cpu_ns: the CPU time that its threads have taken.
    """

    def __init__(self, patience_s: float | None = PATIENCE_S, clock: Clock = SYSTEM) -> None:
        self.patience_s = patience_s
        self.cpu_ns = 0
        self._clock = clock
        self._call: DiskCall[T] | None = None

    def ask(self, work: Callable[[], T]) -> T | None:
        """Return the answer of the call that is under way, else of `work`; None where it is late.

        Raises what the work raises.
        """
        if self.patience_s is None:
            return work()
        self._call = self._call or DiskCall(work, self._clock)
        if not self._call.wait(self.patience_s):
            return None
        call, self._call = self._call, None
        self.cpu_ns += call.cpu_ns
        return call.answer()


def call_and_report(work: Callable[[], T], place: Path, patience_s: float | None = None) -> T:
    """Return the result of work, which a command waits for; a disk that is silent is reported, and
    ctrl+c works.

    place: what is read, named in the report. patience_s: the longest wait; None: without an end.
    Raises what the work raises.

    Raises:
        SilentDiskError: the disk has not responded for so long.
    """
    call = DiskCall(work)
    if not call.wait(SLOW_S):
        warn_user(
            f"waiting for the disk of {place}, which has not responded for {SLOW_S:g} s; ctrl+c"
            " ends the wait"
        )
    if not call.wait(patience_s):
        raise SilentDiskError(f"the disk of {place} has not responded for {patience_s:g} s")
    return call.answer()


def read_file(path: Path, offset: int, limit: int) -> bytes:
    """Return up to `limit` bytes of a file from `offset`; empty where it is unreadable or not a
    regular file."""
    with contextlib.suppress(OSError, ValueError, OverflowError), _opened(path) as file:
        return os.pread(file, min(limit, max(0, _end_of(file) - offset)), offset)
    return b""


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Within, the descriptor of a regular file of a run.

    Raises:
        OSError: it is none. A pipe would wait for its writer, and a link lead anywhere.
    """
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        yield file
    finally:
        with contextlib.suppress(OSError):  # of a file system that went away meanwhile
            os.close(file)


def _end_of(file: int) -> int:
    """Return the size of a file; of a large one up to its first hole, since a writer leaves none: a
    damaged file may have terabytes of nothing."""
    size = os.fstat(file).st_size
    if size > _LARGE:
        with contextlib.suppress(OSError):  # the file system does not know its holes
            return os.lseek(file, 0, os.SEEK_HOLE)
    return size


class RunFolder:
    """A run folder, whether its process still writes it or has ended.

    clock: measures how long the disk is silent.
    """

    def __init__(self, folder: Path, clock: Clock = SYSTEM) -> None:
        self._folder = folder
        self._clock = clock
        #: When the disk was asked; None where it has answered.
        self._asked_ns: int | None = None

    @property
    def folder(self) -> Path | None:
        """The folder; None for a script that has no run yet."""
        return self._folder

    @property
    def silent_s(self) -> float:
        """The seconds for which the disk has owed an answer; else 0.0."""
        asked_ns = self._asked_ns
        return 0.0 if asked_ns is None else (self._clock.now_ns() - asked_ns) / 1e9

    def manifest(self) -> Manifest:
        """Read run.json.

        Raises:
            NotARunError: it is missing, this tfwatch cannot read it, or a file of the run is not
            readable.
        """
        with self._asks():
            return self._read_manifest()

    def read(self, name: str, offset: int, limit: int) -> bytes:
        """Read up to `limit` bytes of a file from `offset`; empty where there are none."""
        with self._asks():
            return self._read(name, offset, limit)

    def rows(self, name: str) -> Rows:
        """Return a view of a binary file: a copy of ten million steps takes 320 MB."""
        row = layout.TABLES[name]
        rows: Rows = np.empty(0, dtype=row)
        with self._asks(), contextlib.suppress(OSError), _opened(self._folder / name) as file:
            if count := _end_of(file) // row.itemsize:
                data = mmap.mmap(file, count * row.itemsize, access=mmap.ACCESS_READ)
                rows = np.frombuffer(data, dtype=row)
        return rows

    def is_gone(self) -> bool:
        """Return whether the folder is gone; an unreadable one may still exist."""
        try:
            with self._asks():
                self._folder.stat()
        except OSError as error:
            return error.errno in _GONE
        return False

    @contextlib.contextmanager
    def _asks(self) -> Iterator[None]:
        self._asked_ns = self._clock.now_ns()
        try:
            yield
        finally:
            self._asked_ns = None

    def _read(self, name: str, offset: int, limit: int) -> bytes:
        return read_file(self._folder / name, offset, limit)

    def _read_manifest(self) -> Manifest:
        try:
            if (self._folder / layout.GROUP_FILE).is_file():
                raise NotARunError(
                    f"it is a group of ranks: name one of them, as {self._folder.name}/rank-0"
                )
            with _opened(self._folder / layout.MANIFEST) as file:
                text = os.read(file, _LONGEST_MANIFEST)
            manifest = Manifest.decode(text.decode(errors="replace"))
            paths = [one for name in layout.STREAMS if (one := self._folder / name).exists()]
            if closed := [one.name for one in paths if not os.access(one, os.R_OK)]:
                raise NotARunError(f"no permission to read its {' and '.join(closed)}")
            return manifest
        except NotARunError as error:
            raise NotARunError(f"{self._folder}: {error}") from error
        except OSError as error:
            raise NotARunError(
                f"{self._folder} is not a run folder: {layout.MANIFEST}: {error.strerror}"
            ) from error

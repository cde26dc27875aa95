"""A run folder on any disk: one that hangs never blocks the keys of a screen.

Where there is a limit, the calls of a frame are made in threads of their own. They wait
`PATIENCE_S` in all, and raise a `DiskSilentError` after that. The read goes on, and its answer is
kept for the same call: the next frame finds it, so that a slow disk takes several frames and not
for ever.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import warn_user
from tfwatch.runs import format as layout
from tfwatch.runs.format import Manifest, NotARunError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tfwatch.core.rows import Rows

#: Bytes of a pulse, and more.
_PULSE_BYTES = 4096

Call = tuple[object, ...]
T = TypeVar("T")

#: Seconds that the calls of a frame may wait for the disk.
PATIENCE_S = 0.1
#: A disk that is silent for longer, seconds, is reported.
SLOW_S = 3.0
#: Seconds that the screen of a run waits for its disk before it shows.
FIRST_S = 10.0


class DiskSilentError(OSError):
    """The disk has not responded in time."""


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
        try:
            threading.Thread(target=self._run, name=name, daemon=True).start()
        except RuntimeError:
            self._run()

    def _run(self) -> None:
        try:
            self._answers.append(self._work())
        except Exception as error:  # noqa: BLE001  `answer` raises it
            self._error = error
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


def call_and_report(work: Callable[[], T], place: Path) -> T:
    """Return the result of work, which a command waits for; a disk that is silent is reported, and
    ctrl+c works.

    place: what is read, named in the report. Raises what the work raises.
    """
    call = DiskCall(work)
    if not call.wait(SLOW_S):
        warn_user(
            f"waiting for the disk of {place}, which has not responded for {SLOW_S:g} s; ctrl+c"
            " ends the wait"
        )
    call.wait()
    return call.answer()


def read_file(path: Path, offset: int, limit: int) -> bytes:
    """Return up to `limit` bytes of a file from `offset`; empty where it is unreadable or not a
    regular file."""
    try:
        fd = os.open(
            path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        )  # opening a pipe would wait for its writer
    except (OSError, ValueError):
        return b""
    try:
        return os.pread(fd, limit, offset) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    except (OSError, OverflowError):
        return b""
    finally:
        with contextlib.suppress(OSError):  # of a file system that went away meanwhile
            os.close(fd)


class RunFolder:
    """A run folder, whether its process still writes it or has ended.

    `manifest`, `read` and `ask` are for one thread; `manifest_now`, `read_now` and `rows` for any.

    Attributes:
        patience_s: seconds that the calls of a frame may wait for the disk; None where they wait
        for its answer.

    Args:
        clock: measures how long the disk is silent.
    """

    def __init__(
        self, folder: Path, clock: Clock = SYSTEM, patience_s: float | None = None
    ) -> None:
        self._folder = folder
        self._clock = clock
        self.patience_s = patience_s
        self._left_s = patience_s or 0.0
        #: Those without an answer. The log has its own: it may lie on another disk than the rows.
        self._calls: dict[str, tuple[Call, DiskCall[Any]]] = {}
        self._answers: dict[Call, DiskCall[Any] | bytes] = {}

    @property
    def folder(self) -> Path | None:
        """The folder; None for a script that has no run yet."""
        return self._folder

    # -- straight from the disk -----------------------------------------------------------------

    def manifest_now(self) -> Manifest:
        """Read run.json.

        Raises:
            NotARunError: it is missing, this tfwatch cannot read it, or a file of the run is not
            readable.
        """
        try:
            path = self._folder / layout.MANIFEST
            if (self._folder / layout.GROUP_FILE).is_file():
                raise NotARunError(
                    f"it is a group of ranks: name one of them, as {self._folder.name}/rank-0"
                )
            if not stat.S_ISREG(path.stat().st_mode):  # a pipe would block
                raise NotARunError(f"its {layout.MANIFEST} is not a file")
            manifest = Manifest.decode(path.read_text(encoding="utf-8"))
        except NotARunError as error:
            raise NotARunError(f"{self._folder}: {error}") from error
        except UnicodeDecodeError as error:
            raise NotARunError(
                f"{self._folder}: its {layout.MANIFEST} is not text: {error}"
            ) from error
        except OSError as error:
            raise NotARunError(
                f"{self._folder} is not a run folder: {layout.MANIFEST}: {error.strerror}"
            ) from error
        paths = (self._folder / name for name in layout.STREAMS)
        if closed := [
            path.name for path in paths if path.exists() and not os.access(path, os.R_OK)
        ]:
            raise NotARunError(f"{self._folder}: no permission to read its {' and '.join(closed)}")
        return manifest

    def read_now(self, name: str, offset: int, limit: int) -> bytes:
        """Return bytes of one of its files; empty where there are none."""
        return read_file(self._folder / name, offset, limit)

    def rows(self, name: str) -> Rows:
        """Return a view of a binary file: a copy of ten million steps takes 320 MB."""
        path, row = self._folder / name, layout.TABLES[name]
        rows: Rows = np.empty(0, dtype=row)
        with contextlib.suppress(OSError):  # missing, or not a file: no rows
            if count := path.stat().st_size // row.itemsize:
                rows = np.memmap(path, dtype=row, mode="r", shape=(count,))
        return rows

    def count(self, name: str, newest: int | None) -> int:
        """Return the number of rows of a binary file before its `newest` ones; 0 for None."""
        return 0 if newest is None else max(0, len(self.rows(name)) - newest)

    # -- in time --------------------------------------------------------------------------------

    def manifest(self) -> Manifest:
        """Return the manifest.

        Raises:
            NotARunError: the folder has no run that this tfwatch reads.
            DiskSilentError: the disk has not responded in time.
        """
        manifest: Manifest = self.ask(("manifest",), self.manifest_now)
        return manifest

    def read(self, name: str, offset: int, limit: int) -> bytes:
        """Return up to `limit` bytes of a file from `offset`; of the log none while the disk is
        silent.

        Raises:
            DiskSilentError: the disk has not responded in time.
        """
        try:
            data: bytes = self.ask(
                (name, offset, limit), lambda: self.read_now(name, offset, limit)
            )
        except DiskSilentError:
            if name != layout.LOG:
                raise
            return b""
        return data

    # -- for a frame -------------------------------------------------------------------------------

    def read_ahead(self, offsets: Mapping[str, int], limit: int) -> None:
        """Read each file from its offset, and the pulse, as one call: each by itself would begin a
        thread.

        Raises:
            DiskSilentError: the disk has not responded in time.
        """
        if self.patience_s is None:
            return
        wanted = [(name, offset, limit) for name, offset in offsets.items() if name != layout.LOG]
        wanted.append((layout.PULSES, 0, _PULSE_BYTES))
        if not all(call in self._answers for call in wanted):
            self._take_all(
                self.ask(("ahead", *wanted), lambda: [self.read_now(*call) for call in wanted]),
                wanted,
            )

    def _take_all(self, parts: list[bytes], wanted: list[tuple[str, int, int]]) -> None:
        for (name, offset, limit), data in zip(wanted, parts, strict=True):
            self._answers[name, offset, limit] = data
            if name != layout.PULSES and len(data) < limit:
                self._answers[name, offset + len(data), limit] = (
                    b""  # the end, which the reader asks for next
                )

    def begin_frame(self) -> None:
        """Begin a frame: its calls may wait, unless the answer to an earlier one is still
        missing."""
        self._left_s = self.patience_s or 0.0

    def end_frame(self) -> None:
        """Forget the answers: the frame has all that it wants, and the next one asks the disk
        again."""
        self._answers.clear()

    @property
    def silent_s(self) -> float:
        """The seconds for which the disk has owed an answer; else 0.0."""
        return max((made.silent_s for _, made in self._calls.values()), default=0.0)

    # -- the threads -------------------------------------------------------------------------------

    def ask(self, call: Call, work: Callable[[], Any]) -> Any:
        """Return the result of work on the disk; call: its name.

        Raises:
            DiskSilentError: the disk has not responded in time.
        """
        if self.patience_s is None:
            return work()
        self._take_answers()
        if call not in self._answers:
            self._wait_for(self._begin(call, work))
            self._take_answers()
        answer = self._answers.get(call)
        if answer is None:
            raise DiskSilentError(f"{self.folder} does not respond")
        if isinstance(answer, bytes):
            return answer
        try:
            return answer.answer()
        except Exception:
            del self._answers[call]
            raise

    def _begin(self, call: Call, work: Callable[[], Any]) -> DiskCall[Any]:
        kind = layout.LOG if call[0] == layout.LOG else ""
        if kind in self._calls:
            raise DiskSilentError(f"{self.folder} does not respond")
        made = DiskCall(work, self._clock)
        self._calls[kind] = call, made
        return made

    def _wait_for(self, made: DiskCall[Any]) -> None:
        """Wait for an answer, as long as there is patience left."""
        begun_ns = SYSTEM.now_ns()
        made.wait(self._left_s)
        self._left_s = max(0.0, self._left_s - (SYSTEM.now_ns() - begun_ns) / 1e9)

    def _take_answers(self) -> None:
        for kind, (call, made) in tuple(self._calls.items()):
            if made.is_done:
                self._answers[call] = made
                del self._calls[kind]

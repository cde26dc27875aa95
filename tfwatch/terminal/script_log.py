"""The log of a script's output: that of its newest run, and a line that overwrites itself once a
second."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from queue import SimpleQueue
from typing import TYPE_CHECKING

from tfwatch.core.errors import fails_open
from tfwatch.runs.buffers import LONGEST_LINE, visible_end
from tfwatch.runs.format import FILE_MODE, LOG
from tfwatch.runs.script_process import Announcements

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: A line that overwrites itself is logged once in this time: ten hours of a progress bar take 6 MB.
_REDRAW_NS = 10**9
_CHUNK = 64 * 2**10
#: Parts of output, of up to 64 KiB each, that wait for a disk that hangs.
_MOST_WAITING = 256
#: The end of a script waits so long for such a disk.
_END_S = 1.5


class ScriptLog:
    """The log of the newest run; before the first run a file of its own, which the first run's log
    begins with."""

    def __init__(self, folder: Path) -> None:
        self._runs = Announcements(folder / "runs")
        early = _append_to(folder / LOG)
        self._early = early
        self._fd = os.open(os.devnull, os.O_WRONLY) if early is None else early
        self._condenser = Condenser()

    def announced(self) -> list[Path]:
        """Return the runs that were announced since the last call."""
        return self._runs.take()

    def begin(self, runs: Sequence[Path]) -> None:
        """Begin the logs of further runs."""
        for run in runs:
            self._begin(run)

    def write(self, data: bytes) -> None:
        """Write output; where the disk takes none, it is lost."""
        write_all(self._fd, self._condenser.take(data, time.monotonic_ns()))

    def end(self) -> None:
        """Write what waits."""
        write_all(self._fd, self._condenser.take(b"", 2**63))

    def _begin(self, run: Path) -> None:
        log = _append_to(run / LOG)
        if log is None:
            return
        write_all(self._fd, self._condenser.begin())
        # A log that has begun already is continued: the process that wrote it was killed.
        if self._early is not None and os.fstat(log).st_size == 0:
            _copy(self._early, log)
        self._early = None
        os.close(self._fd)
        self._fd = log


class LogThread:
    """Writes a log in a thread of its own: a disk that hangs holds neither the output nor the
    script that writes it.

    Begin one in the process that reads. Output beyond `_MOST_WAITING` parts is lost.
    """

    def __init__(self, log: ScriptLog) -> None:
        self._log = log
        self._jobs: SimpleQueue[bytes | Sequence[Path] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="tfwatch-log", daemon=True)
        self._thread.start()

    def write(self, data: bytes) -> None:
        """Have output written; no bytes write what waits to be condensed."""
        if self._jobs.qsize() < (_MOST_WAITING if data else 1):
            self._jobs.put(data)

    def begin(self, runs: Sequence[Path]) -> None:
        """Have the logs of further runs begun."""
        if runs:
            self._jobs.put(runs)

    def end(self) -> None:
        """Write what waits, and end the thread; a disk that hangs is not waited for."""
        self._jobs.put(None)
        self._thread.join(_END_S)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            with fails_open(lambda _: None):
                if isinstance(job, bytes):
                    self._log.write(job)
                else:
                    self._log.begin(job)
        self._log.end()


class Condenser:
    """Takes a terminal's output, and returns it for a log: of a line that overwrites itself, one
    state a second."""

    def __init__(self) -> None:
        self._line = b""
        self._written = b""
        self._due_ns = 0

    def take(self, data: bytes, now_ns: int) -> bytes:
        """Return the bytes to append to the log now; an empty `data` returns what waits."""
        *whole, rest = (self._line + data).split(b"\n")
        out = b"".join(self._finish(line) for line in whole)
        self._line = visible_end(rest)
        if self._line.startswith(self._written) or now_ns >= self._due_ns:
            out += self._state(now_ns)
        if len(self._line) > LONGEST_LINE:
            out += self.begin()
        return out

    def begin(self) -> bytes:
        """Return what waits; a new line begins."""
        out = self._state(0)
        self._line = self._written = b""
        return out

    def _finish(self, line: bytes) -> bytes:
        self._line = visible_end(line)
        return self.begin() + b"\n"

    def _state(self, now_ns: int) -> bytes:
        """Return the bytes that bring the line in the log to its present state."""
        before, self._written = self._written, self._line.rstrip(b"\r\b")
        if self._written.startswith(before):
            return self._written[len(before) :]
        self._due_ns = now_ns + _REDRAW_NS
        return b"\r" + self._written


def _append_to(path: Path) -> int | None:
    """Return a descriptor of a log; None where it cannot be opened."""
    with contextlib.suppress(OSError):
        return os.open(
            path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE
        )
    return None


def write_all(fd: int, data: bytes) -> bool:
    """Write all data; return False where that fails."""
    with contextlib.suppress(OSError):
        while data:
            data = data[os.write(fd, data) :]
    return not data


def _copy(source: int, target: int) -> None:
    offset = 0
    while data := os.pread(source, _CHUNK, offset):
        write_all(target, data)
        offset += len(data)

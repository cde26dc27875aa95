"""The output of a script: a pseudo terminal, and a process that takes it to the logs.

The process keeps the other end of the pseudo terminal open when tfwatch is closed or killed: a
write to a pseudo terminal that nobody holds would raise in the script. Where it is killed too, the
script drops its own output (`watch/script/bootstrap.py`).

Under the live screen that is all output. Without it, it is what the script writes to descriptor 2,
and to 1 where both are the same file, so that their order stays; it is copied to where it went. A
pipe takes the place of the pseudo terminal where that is no terminal.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import pty
import re
import select
import shutil
import signal
import struct
import termios
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, NoReturn

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import fails_open
from tfwatch.core.temporary_files import TemporaryFolder, remove_orphans
from tfwatch.runs.format import FILE_MODE, LOG
from tfwatch.runs.script_process import Announcements

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Seconds between two looks for a run that begins.
_NEWS_S = 0.1
_CHUNK = 64 * 2**10
_IGNORED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGPIPE,
    signal.SIGTTOU,
)
#: A script that writes without end has more to read at any moment.
_MOST_WAITING = 2**20
_END = b"e"
_NO, _YES, _NO_NOTES = range(3)
#: What TensorFlow logs as it starts and ends, a page that hides what the script itself writes.
_TENSORFLOWS_NOTE = re.compile(
    rb"\d{4}-[\d-]+ [\d:.]+: [IW] |[IW]\d{4} [\d:.]+ +\d+ |\s+\[\[\{\{node "
    rb"|WARNING: All log messages before absl::|To enable the following instructions: "
)
#: The end of a script waits so long for what it has written.
_END_OF_OUTPUT_S = 2.0
#: The descriptor whose output is copied without a screen.
_COPIED = 2


class OutputRelay:
    """A script's pseudo terminal, and the process that reads it. Make it before any thread starts.

    copies: without a screen, the output goes on to descriptor 2.
    slave: the descriptor for the script's output. for_script: two more descriptors for the script:
    the other end of the pseudo terminal, and a pipe that ends with the process.
    `close_script_ends` once the script has them.
    early_log: the output before the script's first run. runs: the file in which the script
    announces its runs.

    Raises:
        OSError: the system gives no pseudo terminal, process or folder.
    """

    def __init__(self, *, copies: bool = False) -> None:
        remove_orphans()
        self._folder = TemporaryFolder()
        self.early_log, self.runs = self._folder.path / LOG, self._folder.path / "runs"
        os.close(os.open(self.runs, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
        self._terminal_fd = _COPIED if copies else 0
        is_terminal = not copies or os.isatty(_COPIED)
        self._master, self.slave = pty.openpty() if is_terminal else os.pipe()
        self._size = os.terminal_size((0, 0))
        if is_terminal:
            _set_raw(self.slave)
            self.copy_size()
        self._shows = mmap.mmap(-1, 1)
        self._shows[0] = _YES if copies else _NO
        here, self._here = os.pipe()
        self._ended, ended = os.pipe()
        alive, self._alive = os.pipe()
        self.for_script = self._master, alive
        self._pid = os.fork()
        if self._pid == 0:
            for fd in (self.slave, self._here, self._ended, alive):
                os.close(fd)
            _run(lambda: _Reader(self, self._shows, here, ended, copies=copies))
        os.close(here)
        os.close(ended)
        os.close(self._alive)

    def close_script_ends(self) -> None:
        """Close this process's copies of what the script has: the relay ends when the script has
        closed the slave."""
        os.close(self.slave)
        os.close(self.for_script[1])

    def copy_size(self) -> bool:
        """Give the pseudo terminal the size of the terminal; return whether it is another one than
        before.

        The system signals nobody: the pseudo terminal controls no session.
        """
        with contextlib.suppress(OSError):
            before, self._size = self._size, os.get_terminal_size(self._terminal_fd)
            if self._size != before:
                size = struct.pack("HHHH", self._size.lines, self._size.columns, 0, 0)
                fcntl.ioctl(self._master, termios.TIOCSWINSZ, size)
                return True
        return False

    def show_on_terminal(self, *, has_notes: bool) -> None:
        """Write further output to the terminal too. has_notes: also what TensorFlow logs as it
        ends."""
        self._shows[0] = _YES if has_notes else _NO_NOTES

    def finish_reading(self) -> None:
        """Wait until the output of a script that has ended is written.

        A process that the script left behind may hold the pseudo terminal: its output goes to the
        log.
        """
        select.select([self._ended], [], [], _END_OF_OUTPUT_S)

    def close(self) -> None:
        """Close the pseudo terminal, and remove the folder."""
        for fd in (self._here, self._master, self._ended):
            os.close(fd)
        self._folder.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, os.WNOHANG)


def _set_raw(slave: int) -> None:
    """Turn off what a terminal adds: echo, and a carriage return before each end of a line."""
    state = termios.tcgetattr(slave)
    state[1] &= ~termios.OPOST
    state[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG)
    termios.tcsetattr(slave, termios.TCSANOW, state)


def without_notes(output: bytes) -> bytes:
    """Return output without the notes of TensorFlow's log."""
    lines = output.splitlines(keepends=True)
    return b"".join(line for line in lines if not _TENSORFLOWS_NOTE.match(line))


def is_one_output() -> bool:
    """Return whether descriptors 1 and 2 are the same file."""
    with contextlib.suppress(OSError):
        return os.path.sameopenfile(1, 2)
    return False


# -- the process -----------------------------------------------------------------------------------


def _run(make_reader: Callable[[], _Reader]) -> NoReturn:
    """Run the relay's process, until nobody holds the pseudo terminal."""
    try:
        os.setsid()
        for signum in _IGNORED:
            signal.signal(signum, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        make_reader().read_until_end()
    finally:
        os._exit(0)


class _Reader:
    """Takes the output to the log, and on to the terminal.

    shows: a byte that the screen's process shares: whether output is written to the terminal too,
    and with TensorFlow's notes.
    here: a pipe that ends with the screen's process and its guard: from then on the terminal is a
    shell's. ended: the pipe that the end is written to. copies: without a screen the output goes
    on, to the terminal of its size.
    """

    def __init__(
        self, relay: OutputRelay, shows: mmap.mmap, here: int, ended: int, *, copies: bool
    ) -> None:
        self._relay, self._master, self._shows = relay, relay.for_script[0], shows
        self._here, self._ended, self._copies = here, ended, copies
        self._log = ScriptLog(relay.early_log.parent)
        self._runs = Announcements(relay.runs)
        self._survives = fails_open(lambda _: None)

    def read_until_end(self) -> None:
        """Read until the end of the output, and then of the screen's process."""
        log = LogThread(self._log)
        while (data := self._next()) is not None:
            self._take(data, log)
        log.end()
        with contextlib.suppress(OSError):
            os.write(self._ended, _END)
        select.select([self._here], [], [])
        # A killed screen leaves it.
        shutil.rmtree(self._relay.early_log.parent, ignore_errors=True)

    def _take(self, data: bytes, log: LogThread) -> None:
        runs: list[Path] = []
        with self._survives:
            runs = self._runs.take()
        # What the script wrote before it announced a run belongs to the log before it.
        data += self._waiting() if runs else b""
        self._show(data)
        log.write(data)
        for run in runs:
            log.begin(run)

    def _show(self, data: bytes) -> None:
        """Write output to the terminal; a terminal or a reader that is gone gets none, and the
        script goes on."""
        if self._shows[0] == _NO_NOTES:
            data = without_notes(data)
        if not data or self._shows[0] == _NO:
            return
        if self._copies:
            self._relay.copy_size()
        is_shells = not self._copies and bool(select.select([self._here], [], [], 0)[0])
        if is_shells or not write_all(_COPIED if self._copies else 1, data):
            self._shows[0] = _NO

    def _next(self) -> bytes | None:
        """Return the next output, no bytes where there was none for a while; None at its end."""
        if not select.select([self._master], [], [], _NEWS_S)[0]:
            return b""
        return self._read() or None

    def _read(self) -> bytes:
        """Return output that is there; no bytes at its end."""
        with contextlib.suppress(OSError):  # Linux raises where macOS returns nothing
            return os.read(self._master, _CHUNK)
        return b""

    def _waiting(self) -> bytes:
        """Return the output that can be read now, up to `_MOST_WAITING` and a little more."""
        data = b""
        while len(data) < _MOST_WAITING and select.select([self._master], [], [], 0)[0]:
            if not (more := self._read()):
                break
            data += more
        return data


# -- the logs --------------------------------------------------------------------------------------

#: A line that overwrites itself is logged once in this time: ten hours of a progress bar take 6 MB.
_REDRAW_NS = 10**9
#: Parts of output, of up to 64 KiB each, that wait for a disk that hangs.
_MOST_PARTS = 256
#: The end of a script waits so long for such a disk.
_END_S = 1.5


class ScriptLog:
    """The log of the newest run; before the first run a file of its own, which the first run's log
    begins with. Of a line that overwrites itself it takes one state a second."""

    def __init__(self, folder: Path, clock: Clock = SYSTEM) -> None:
        early = _append_to(folder / LOG)
        self._early = early
        self._fd = os.open(os.devnull, os.O_WRONLY) if early is None else early
        self._clock = clock
        self._waiting = b""
        self._due_ns = 0

    def write(self, data: bytes) -> None:
        """Write output; where the disk takes none, it is lost."""
        self._waiting += data
        is_due = self._clock.now_ns() >= self._due_ns or len(self._waiting) > _CHUNK
        if is_due or b"\r" not in self._waiting:
            self.end()

    def end(self) -> None:
        """Write what waits."""
        if b"\r" in self._waiting:
            self._due_ns = self._clock.now_ns() + _REDRAW_NS
        data, self._waiting = self._waiting, b""
        write_all(self._fd, b"\n".join(map(_last_state, data.split(b"\n"))))

    def begin(self, run: Path) -> None:
        """Begin the log of a further run; without one the log before it goes on."""
        log = _append_to(run / LOG)
        if log is None:
            return
        self.end()
        # A log that has begun already is continued: the process that wrote it was killed.
        if self._early is not None and os.fstat(log).st_size == 0:
            _copy(self._early, log)
        self._early = None
        os.close(self._fd)
        self._fd = log


class LogThread:
    """Writes a log in a thread of its own: a disk that hangs holds neither the output nor the
    script that writes it.

    Begin one in the process that reads. Output beyond `_MOST_PARTS` parts is lost.
    """

    def __init__(self, log: ScriptLog) -> None:
        self._log = log
        self._jobs: SimpleQueue[bytes | Path | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="tfwatch-log", daemon=True)
        self._thread.start()

    def write(self, data: bytes) -> None:
        """Have output written; no bytes write what waits to be condensed."""
        if self._jobs.qsize() < (_MOST_PARTS if data else 1):
            self._jobs.put(data)

    def begin(self, run: Path) -> None:
        """Have the log of a further run begun."""
        self._jobs.put(run)

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


def _last_state(line: bytes) -> bytes:
    """Return what overwrites a line last, with the return to its begin."""
    return line[max(0, line.rstrip(b"\r\b").rfind(b"\r")) :]


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

"""The output of a script under the live screen: a pseudo terminal, and a process that takes it to the logs.

The process keeps the pseudo terminal's other end open when the screen is closed or killed: a write to a pseudo terminal
that nobody holds would raise in the script.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import shutil
import signal
import struct
import tempfile
import termios
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tfwatch.core.errors import fails_open
from tfwatch.runs.buffers import LONGEST_LINE, visible_end
from tfwatch.runs.format import FILE_MODE, LOG
from tfwatch.runs.scripts.announcements import Announcements

if TYPE_CHECKING:
    from collections.abc import Sequence

#: A line that overwrites itself is logged once in this time: ten hours of a progress bar take 6 MB.
_REDRAW_NS = 10**9
#: Seconds between two looks for a run that begins.
_NEWS_S = 0.1
_CHUNK = 64 * 2**10
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE, signal.SIGTTOU)
#: A script that writes without end has more to read at any moment.
_MOST_WAITING = 2**20
#: The order to write to the terminal too.
_SHOW = b"s"
_LOOK_S = 0.02


class OutputRelay:
    """A script's pseudo terminal, and the process that reads it. Make it before any thread starts.

    slave: the descriptor for the script's output; `close_slave` once the script has it.
    early_log: the output before the script's first run. runs: the file in which the script announces its runs.

    Raises:
        OSError: the system gives no pseudo terminal, process or folder.
    """

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="tfwatch-"))
        self.early_log, self.runs = self._folder / LOG, self._folder / "runs"
        os.close(os.open(self.runs, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
        self._master, self.slave = pty.openpty()
        _set_raw(self.slave)
        self.copy_size()
        orders, self._pipe = os.pipe()
        screen = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self.slave)
            os.close(self._pipe)
            _relay(self._master, orders, self._folder, screen)
        os.close(orders)

    def close_slave(self) -> None:
        """Close this process's copy of the slave: the relay ends when the script has closed its own."""
        os.close(self.slave)

    def copy_size(self) -> None:
        """Give the pseudo terminal the size of the terminal, which sends the script no signal."""
        with contextlib.suppress(OSError):
            size = os.get_terminal_size(0)
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", size.lines, size.columns, 0, 0))

    def show_on_terminal(self) -> None:
        """Write further output to the terminal too."""
        with contextlib.suppress(OSError):
            os.write(self._pipe, _SHOW)

    def finish_reading(self, patience_s: float = 2.0) -> None:
        """Wait until the output of a script that has ended is written.

        A process that the script left behind may hold the pseudo terminal: its output goes to the log.
        """
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline and not self._has_ended():
            time.sleep(_LOOK_S)

    def close(self) -> None:
        """Close the pseudo terminal, and remove the folder."""
        os.close(self._pipe)
        os.close(self._master)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _has_ended(self) -> bool:
        try:
            return os.waitpid(self._pid, os.WNOHANG)[0] != 0
        except ChildProcessError:  # it has been waited for
            return True


def _set_raw(slave: int) -> None:
    """Turn off what a terminal adds: echo, and a carriage return before each end of a line."""
    state = termios.tcgetattr(slave)
    state[1] &= ~termios.OPOST
    state[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG)
    termios.tcsetattr(slave, termios.TCSANOW, state)


def _relay(master: int, orders: int, folder: Path, screen: int) -> NoReturn:
    """Run the relay's process, until nobody holds the pseudo terminal. screen: the id of the screen's process."""
    try:
        os.setsid()
        for signum in _IGNORED:
            signal.signal(signum, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        log = _Log(folder)
        terminal, survives = _Terminal(orders), fails_open(lambda _: None)
        while (data := _next(master, terminal)) is not None:
            runs: list[Path] = []
            with survives:
                runs = log.announced()
            # What the script wrote before it announced a run belongs to the log before it.
            data += _waiting(master) if runs else b""
            terminal.write(data)
            with survives:
                log.write(data)
                log.begin(runs)
        with survives:
            log.end()
        # Not by the end of the pipe: the guard, which restores the terminal, holds it longer than a killed screen.
        if os.getppid() != screen:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os._exit(0)


def _next(master: int, terminal: _Terminal) -> bytes | None:
    """Return the next output, no bytes where there was none for a while; None at its end."""
    ready = select.select([master, *terminal.orders], [], [], _NEWS_S)[0]
    if set(terminal.orders) & set(ready):
        terminal.obey()
    if master not in ready:
        return b""
    try:
        return os.read(master, _CHUNK) or None
    except OSError:  # Linux raises where macOS returns nothing
        return None


def _waiting(master: int) -> bytes:
    """Return the output that can be read now, up to `_MOST_WAITING` and a little more."""
    data = b""
    while len(data) < _MOST_WAITING and select.select([master], [], [], 0)[0]:
        try:
            more = os.read(master, _CHUNK)
        except OSError:
            return data
        if not more:
            return data
        data += more
    return data


class _Terminal:
    """The user's terminal, on descriptor 1.

    orders: the pipe of the orders; empty once the screen's process has ended.
    """

    def __init__(self, orders: int) -> None:
        self.orders = [orders]
        self._shows = False

    def obey(self) -> None:
        """Take an order. A shell's terminal is left alone when the screen's process has ended."""
        self._shows = bool(os.read(self.orders[0], 1))
        if not self._shows:
            self.orders = []

    def write(self, data: bytes) -> None:
        """Write output; a terminal that is gone gets none."""
        if self._shows:
            self._shows = _write(1, data)


class _Log:
    """The log of the newest run; before the first run a file of its own, which the first run's log begins with."""

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
        _write(self._fd, self._condenser.take(data, time.monotonic_ns()))

    def end(self) -> None:
        """Write what waits."""
        _write(self._fd, self._condenser.take(b"", 2**63))

    def _begin(self, run: Path) -> None:
        log = _append_to(run / LOG)
        if log is None:
            return
        _write(self._fd, self._condenser.begin())
        if self._early is not None:
            _copy(self._early, log)
            self._early = None
        os.close(self._fd)
        self._fd = log


class Condenser:
    """Takes a terminal's output, and returns it for a log: of a line that overwrites itself, one state a second."""

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
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
    return None


def _write(fd: int, data: bytes) -> bool:
    """Write all data; return False where that fails."""
    with contextlib.suppress(OSError):
        while data:
            data = data[os.write(fd, data) :]
    return not data


def _copy(source: int, target: int) -> None:
    offset = 0
    while data := os.pread(source, _CHUNK, offset):
        _write(target, data)
        offset += len(data)

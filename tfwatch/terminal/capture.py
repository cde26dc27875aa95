"""Descriptors 1 and 2, the terminal's state and the signals while a command runs, and the guard
that restores the terminal of a process that is killed."""

from __future__ import annotations

import contextlib
import errno
import faulthandler
import io
import os
import select
import signal
import sys
import tempfile
import termios
import traceback
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from tfwatch.core.errors import printable
from tfwatch.terminal.output import WITHOUT_UNICODE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_STOPS = (signal.SIGINT, signal.SIGTERM)
KILLED = "killed or crashed."
#: Ends what a Textual app turns on: mouse, focus and paste reports, kitty keys, no wrapping, the
#: alternate screen.
_LEAVE_SCREEN = (
    b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l\x1b[?1004l\x1b[?2004l\x1b[?2048l\x1b[<u"
    b"\x1b[?7h\x1b[?1049l\x1b[?25h\x1b[0m"
)
#: A forked data worker keeps the pipe open after its parent's death: the child looks for the parent
#: this often.
_CHECK_S = 1.0
_TAIL_BYTES = 64 * 1024
_BLOCKED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
#: The mark of a regular end.
_END = b"\0"


class Capture:
    """Redirects descriptors 1 and 2, and Python's prints, to a log file; only tfwatch writes to the
    terminal.

    C++ code writes to the descriptors themselves. A file, unlike a pipe, needs no reader, never
    blocks and survives an abort; it has no name, and ends with this process and its guard. Enter
    this before any thread starts.

    out, err: text streams on the original descriptors 1 and 2. Writing to them never raises.
    on_hangup: called once, from any thread, when the terminal is gone.
    if_killed: the sentence that is printed where this process is killed.
    apart: descriptors that the guard closes, whose end others wait for.
    """

    def __init__(self, *, if_killed: str = KILLED, apart: Sequence[int] = ()) -> None:
        self.on_hangup: Callable[[], None] = lambda: None
        self._if_killed = if_killed
        self._apart = apart
        self._hung_up = False

    def __enter__(self) -> Capture:
        open_missing()
        self._log = _open_log()
        self._guard = _start_guard(self._log, self._if_killed, self._apart)
        self._saved = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
        self._state = _terminal_state(0)
        flush(sys.stdout, sys.stderr)
        self.out, self.err = (_text(_SafeWriter(os.dup(fd), on_dead=self.hang_up)) for fd in (1, 2))
        self._terminals = tuple(
            stream.fileno() for stream in (self.out, self.err) if stream.isatty()
        )
        # Textual draws on __stderr__ and takes its size from __stdout__.
        drawn = self.err if self.err.isatty() else self.out
        sys.__stdout__, sys.__stderr__ = self.out, drawn  # type: ignore[misc, assignment]
        os.dup2(self._log, 1)
        os.dup2(self._log, 2)
        self._prints = _text(_SafeWriter(2, closefd=False))
        self.log_prints()
        faulthandler.enable(self._log)
        return self

    def ring(self, bell: str) -> None:
        """Write what rings the bell, where descriptor 2 is a terminal."""
        if self.err.isatty():
            self.err.write(bell)
            self.err.flush()

    def __exit__(self, *_: object) -> None:
        flush(sys.stdout, self.out, self.err)
        for stream, fd in ((self.out, 1), (self.err, 2)):
            os.dup2(stream.fileno(), fd)
            stream.close()
        self._terminals = ()
        sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__ = self._saved  # type: ignore[misc]
        if self._guard:
            pid, pipe = self._guard
            with contextlib.suppress(OSError):
                os.write(pipe, _END)
            os.close(pipe)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
        faulthandler.enable(2)
        os.close(self._log)

    def log_prints(self) -> None:
        """Send Python's prints to the log. Textual redirects prints while it runs: call this again
        then."""
        sys.stdout = sys.stderr = self._prints

    def log_traceback(self) -> None:
        """Write the traceback of the present exception to the log."""
        os.write(self._log, traceback.format_exc().encode(errors="replace"))

    def end_of_log(self) -> str:
        """Return the last lines of the log, each with its end; empty where it has none."""
        flush(self._prints)
        return "".join(f"  {line}\n" for line in _last_lines(self._log))

    def hang_up(self) -> None:
        """Drop all further output, because the terminal is lost. Any thread may call this, more
        than once.

        A terminal that still lives, as after `kill -HUP`, leaves mouse mode and the alternate
        screen.
        """
        if self._hung_up:
            return
        self._hung_up = True
        living = _reopen(self._terminals)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for fd in self._terminals:
            os.dup2(nowhere, fd)
        os.close(nowhere)
        if living is not None:
            with contextlib.suppress(OSError):
                os.write(living, _LEAVE_SCREEN)
            os.close(living)
        self.on_hangup()

    def restore(self, *, leave_screen: bool = False) -> None:
        """Restore the terminal's state; `leave_screen` also ends the modes of an app that died."""
        if leave_screen:
            self.out.write(_LEAVE_SCREEN.decode())
            self.out.flush()
        if self._state:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(0, termios.TCSANOW, self._state)


@contextlib.contextmanager
def passed_signals(
    stop: Callable[[int], None], hangup: Callable[[], None], *, quits: bool = False
) -> Iterator[None]:
    """Within, SIGINT and SIGTERM call `stop(signum)` and SIGHUP calls `hangup()`, all in the main
    thread.

    Signals that `held_signals` held are delivered on entry. SIGTTOU is ignored: a run in the
    background continues when it writes. quits: SIGQUIT calls `stop` too.
    """
    stops = (*_STOPS, signal.SIGQUIT) if quits else _STOPS
    handlers: dict[int, Any] = {signum: lambda signum, _: stop(signum) for signum in stops}
    handlers |= {signal.SIGHUP: lambda *_: hangup(), signal.SIGTTOU: signal.SIG_IGN}
    before = {signum: signal.signal(signum, handler) for signum, handler in handlers.items()}
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


@contextlib.contextmanager
def held_signals() -> Iterator[None]:
    """Hold SIGINT and SIGTERM until `passed_signals` is entered: a half-begun run cannot record its
    end."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def restored_signals() -> Iterator[None]:
    """Restore the handlers that Textual replaces and leaves behind: without its app they would
    block."""
    signums = (signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH, signal.SIGTTOU, signal.SIGTTIN)
    before = [(signum, signal.getsignal(signum)) for signum in signums]
    try:
        yield
    finally:
        for signum, handler in before:
            signal.signal(signum, handler)


def set_screen_signals(resumed: Callable[[], None]) -> None:
    """Set the signals of a screen: ignore SIGTSTP, which would suspend training, and call `resumed`
    after a SIGSTOP.

    Textual's own handler of SIGCONT starts the screen's threads a second time, and closing it then
    hangs.
    """
    signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    signal.signal(signal.SIGCONT, lambda *_: resumed())


class _SafeWriter(io.FileIO):
    """A descriptor whose writes never raise; a dead terminal is reported to `on_dead`."""

    def __init__(
        self, fd: int, closefd: bool = True, on_dead: Callable[[], None] | None = None
    ) -> None:
        super().__init__(fd, "wb", closefd=closefd)
        self._on_dead = on_dead if os.isatty(fd) else None

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or 0
        except OSError as error:
            if error.errno == errno.EIO and self._on_dead:
                self._on_dead()
            return memoryview(data).nbytes


def _text(raw: io.FileIO) -> TextIO:
    encoding = getattr(sys.__stderr__, "encoding", None) or "utf-8"
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=encoding, errors=WITHOUT_UNICODE, line_buffering=True
    )


def flush(*streams: TextIO | None) -> None:
    """Flush streams, of which one may be closed, or none."""
    for stream in streams:
        with contextlib.suppress(OSError, ValueError):
            if stream:
                stream.flush()


def _open_log() -> int:
    """Return the descriptor of a file without a name; that of /dev/null where there is no room."""
    try:
        with tempfile.TemporaryFile() as file:
            return os.dup(file.fileno())
    except OSError:
        return os.open(os.devnull, os.O_RDWR)


def open_missing() -> None:
    """Open /dev/null on the standard descriptors that are closed, so that no file of tfwatch takes
    their number."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(fd)


def _reopen(fds: Sequence[int]) -> int | None:
    """Return a non-blocking descriptor of a terminal that still works; None where it is gone."""
    for fd in fds:
        with contextlib.suppress(OSError):
            return os.open(os.ttyname(fd), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    return None


# -- the guard -------------------------------------------------------------------------------------


def _start_guard(log: int, if_killed: str, apart: Sequence[int]) -> tuple[int, int] | None:
    """Start a small child process that restores the terminal when this process is killed or
    crashes; call this before any thread starts. Return the child, and the pipe that takes the mark
    of a regular end; None where no process can be created.

    An abort inside TensorFlow's C++, or SIGKILL, leaves the alternate screen, the mouse mode and
    raw mode on and prints nothing. The child sleeps on the pipe; where that closes without an end
    mark, it restores the terminal and prints the last lines of the log.

    log: the descriptor of the log whose end it prints, after the sentence `if_killed`. apart:
    descriptors that the child closes.
    """
    parent, before = os.getpid(), _terminal_state(1)
    reader, pipe = os.pipe()
    # Blocked, not ignored: a signal that kills the parent must not kill the child, not even right
    # after the fork.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
    try:
        pid = os.fork()
        if pid == 0:
            for fd in (pipe, *apart):
                os.close(fd)
            _run_child(reader, parent, before, log, if_killed)
    except OSError:
        os.close(reader)
        os.close(pipe)
        return None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    os.close(reader)
    return pid, pipe


def _run_child(
    reader: int, parent: int, before: list[Any] | None, log: int, if_killed: str
) -> NoReturn:
    """Run the child. before: the terminal's state to restore, None without a terminal."""
    try:
        os.setsid()
        if not _ends_well(reader, parent):
            if before:
                _restore(before)
            lines = [f"tfwatch: {if_killed}", *(f"  {line}" for line in _last_lines(log))]
            text = "".join(f"\r\n{line}" for line in lines)
            os.write(2, f"{text}\r\n".encode(errors="replace"))
    finally:
        os._exit(0)


def _ends_well(reader: int, parent: int) -> bool:
    """Wait for the parent's end; return whether it was a regular one."""
    while not select.select([reader], [], [], _CHECK_S)[0]:
        if os.getppid() != parent:
            return False
    return bool(os.read(reader, 1))


def _terminal_state(fd: int) -> list[Any] | None:
    """Return the attributes of the terminal that a descriptor has open; None where it has none."""
    try:
        return termios.tcgetattr(fd)
    except termios.error:
        return None


def _restore(before: list[Any]) -> None:
    with contextlib.suppress(OSError):
        os.write(1, _LEAVE_SCREEN)
    now = _terminal_state(1)
    # Without ISIG the app's raw mode is still on; with it a shell has already set its own mode,
    # which is kept.
    if now and not now[3] & termios.ISIG:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(1, termios.TCSANOW, before)


def _last_lines(log: int) -> list[str]:
    """Return the lines around the stack of a fatal signal in a log; without one the last ten."""
    size = os.fstat(log).st_size
    text = os.pread(log, _TAIL_BYTES, max(0, size - _TAIL_BYTES)).decode(errors="replace")
    lines = [printable(line)[:400] for line in text.splitlines()]
    fatal = next((n for n, line in enumerate(lines) if line.startswith("Fatal Python error")), None)
    return lines[-10:] if fatal is None else lines[max(0, fatal - 5) : fatal + 25]

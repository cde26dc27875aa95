"""Descriptors 1 and 2, the terminal's state and the signals while a command runs."""

from __future__ import annotations

import codecs
import contextlib
import errno
import faulthandler
import io
import os
import signal
import sys
import tempfile
import termios
import textwrap
import traceback
from typing import TYPE_CHECKING, Any, TextIO

from tfwatch.terminal.guard import LEAVE_SCREEN, last_lines, start_guard, terminal_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_STOPS = (signal.SIGINT, signal.SIGTERM)
#: The indent of a line of the summary that is code to paste: it is never wrapped.
CODE = "    "
KILLED = "killed or crashed."
#: An error handler of encodings without Unicode: `→` as `>`, other characters as Python escapes
#: them.
WITHOUT_UNICODE = "tfwatch.without_unicode"


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

    def __init__(self, *, screen: bool, if_killed: str = KILLED, apart: Sequence[int] = ()) -> None:
        self.on_hangup: Callable[[], None] = lambda: None
        self._screen = screen
        self._if_killed = if_killed
        self._apart = apart
        self._hung_up = False

    def __enter__(self) -> Capture:
        open_missing()
        self._log = _open_log()
        self._guard = start_guard(self._screen, self._log, self._if_killed, self._apart)
        self._saved = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
        self._state = terminal_state(0) if self._screen else None
        flush(sys.stdout, sys.stderr)
        self._ends = tuple(_SafeWriter(os.dup(fd), on_dead=self.hang_up) for fd in (1, 2))
        self.out, self.err = map(_text, self._ends)
        self._terminals = tuple(
            stream.fileno() for stream in (self.out, self.err) if stream.isatty()
        )
        # Textual draws on __stderr__ and takes its size from __stdout__.
        drawn = self.err if self.err.isatty() or not self._screen else self.out
        sys.__stdout__, sys.__stderr__ = self.out, drawn  # type: ignore[misc, assignment]
        os.dup2(self._log, 1)
        os.dup2(self._log, 2)
        self._prints = _text(_SafeWriter(2, closefd=False))
        self.log_prints()
        faulthandler.enable(self._log)
        return self

    @property
    def write_error(self) -> str:
        """The reason why text written to `out` is lost; empty where it is not, or where the reader
        closed the pipe."""
        return self._ends[0].write_error

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
            self._guard.end()
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
        return "".join(f"  {line}\n" for line in last_lines(self._log))

    def hang_up(self) -> None:
        """Drop all further output, because the terminal is lost. Any thread may call this, more
        than once.

        A terminal that still lives, as after `kill -HUP`, leaves mouse mode and the alternate
        screen.
        """
        if self._hung_up:
            return
        self._hung_up = True
        living = _reopen(self._terminals) if self._screen else None
        nowhere = os.open(os.devnull, os.O_RDWR)
        for fd in self._terminals:
            os.dup2(nowhere, fd)
        os.close(nowhere)
        if living is not None:
            with contextlib.suppress(OSError):
                os.write(living, LEAVE_SCREEN)
            os.close(living)
        self.on_hangup()

    def restore(self, *, leave_screen: bool = False) -> None:
        """Restore the terminal's state; `leave_screen` also ends the modes of an app that died."""
        if leave_screen:
            self.out.write(LEAVE_SCREEN.decode())
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


def terminal_columns(out: TextIO) -> int | None:
    """Return the width of the terminal behind an output; None where it is not a terminal."""
    try:
        return os.get_terminal_size(out.fileno()).columns or None
    except (OSError, ValueError):
        return None


def wrapped(text: str, columns: int | None) -> str:
    """Return the text with its lines wrapped between words to a terminal's width; code to paste is
    not wrapped."""
    if columns is None:
        return text
    return "\n".join(
        (
            line
            if len(line) <= columns or line.startswith(CODE)
            else textwrap.fill(
                line,
                columns,
                subsequent_indent=" " * (len(line) - len(line.lstrip()) + 2),
                break_long_words=False,
                break_on_hyphens=False,
            )
        )
        for line in text.split("\n")
    )


def why_no_screen(environ: Mapping[str, str]) -> str:
    """Return why the live screen cannot be shown here; empty where it can."""
    if not os.isatty(1):
        return "stdout is not a terminal: use --headless"
    if not os.isatty(0):
        return "stdin is not a terminal, so keys cannot be read: use --headless"
    if environ.get("TERM", "") in ("", "dumb"):
        return (
            f"a terminal of type {environ.get('TERM') or 'unknown'} (TERM) cannot show the screen:"
            " use --headless"
        )
    return ""


def has_colour(environ: Mapping[str, str]) -> bool:
    """Return whether to draw in colour: not with NO_COLOR (https://no-color.org) nor on a
    monochrome terminal."""
    return not environ.get("NO_COLOR") and not environ.get("TERM", "").startswith(
        ("vt1", "vt2", "dumb")
    )


def has_unicode(environ: Mapping[str, str]) -> bool:
    """Return whether to draw with Unicode blocks, by the user's locale; True where none is set.

    Python itself sets LC_CTYPE=C.UTF-8 where LANG=C (PEP 538), which does not count. The font of
    the Linux console lacks the partial blocks. PYTHONIOENCODING overrides the locale.
    """
    written = environ.get("PYTHONIOENCODING", "").partition(":")[0] or "utf"
    if environ.get("TERM") == "linux" or "utf" not in written.lower():
        return False
    ctype = environ.get("LC_CTYPE", "")
    coerced = ctype in ("C.UTF-8", "C.utf8", "UTF-8") and environ.get("LANG") in ("C", "POSIX")
    locale = environ.get("LC_ALL") or ("" if coerced else ctype) or environ.get("LANG") or "UTF-8"
    return "utf" in locale.lower()


def _replace_character(error: UnicodeError) -> tuple[str | bytes, int]:
    assert isinstance(error, UnicodeEncodeError)
    if error.object[error.start] == "→":
        return ">", error.start + 1
    error.end = error.start + 1
    return codecs.backslashreplace_errors(error)


codecs.register_error(WITHOUT_UNICODE, _replace_character)


class _SafeWriter(io.FileIO):
    """A descriptor whose writes never raise; a dead terminal is reported to `on_dead`."""

    def __init__(
        self, fd: int, closefd: bool = True, on_dead: Callable[[], None] | None = None
    ) -> None:
        super().__init__(fd, "wb", closefd=closefd)
        self._on_dead = on_dead if os.isatty(fd) else None
        self.write_error = ""

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or 0
        except OSError as error:
            if error.errno == errno.EIO and self._on_dead:
                self._on_dead()
            elif error.errno not in (errno.EIO, errno.EPIPE):
                self.write_error = error.strerror or str(error)
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

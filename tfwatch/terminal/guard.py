"""A small child process that restores the terminal when this process is killed or crashes.

An abort inside TensorFlow's C++, or SIGKILL, leaves the alternate screen, the mouse mode and raw
mode on and prints nothing. The child sleeps on a pipe; where the pipe closes without an end mark,
it restores the terminal and prints the last lines of the log.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import termios
from typing import TYPE_CHECKING, Any, NoReturn

from tfwatch.core.errors import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Ends what a Textual app turns on: mouse, focus and paste reports, kitty keys, no wrapping, the
#: alternate screen.
LEAVE_SCREEN = (
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


class Guard:
    """The parent's end of the pipe, which takes the mark of a regular end."""

    def __init__(self, pid: int, pipe: int) -> None:
        self._pid = pid
        self._pipe = pipe

    def end(self) -> None:
        """Mark a regular end and wait for the child."""
        with contextlib.suppress(OSError):
            os.write(self._pipe, _END)
        os.close(self._pipe)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)


def start_guard(screen: bool, log: int, if_killed: str, apart: Sequence[int] = ()) -> Guard | None:
    """Fork the child; call this before any thread starts. None where no process can be created.

    screen: restore the terminal on descriptor 1 too. log: the descriptor of the log whose end it
    prints, after the sentence `if_killed`. apart: descriptors that the child closes.
    """
    parent, before = os.getpid(), terminal_state(1) if screen else None
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
    return Guard(pid, pipe)


def _run_child(
    reader: int, parent: int, before: list[Any] | None, log: int, if_killed: str
) -> NoReturn:
    """Run the child. before: the terminal's state to restore, None without a screen."""
    try:
        os.setsid()
        if not _ends_well(reader, parent):
            if before:
                _restore(before)
            lines = [f"tfwatch: {if_killed}", *(f"  {line}" for line in last_lines(log))]
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


def terminal_state(fd: int) -> list[Any] | None:
    """Return the attributes of the terminal that a descriptor has open; None where it has none."""
    try:
        return termios.tcgetattr(fd)
    except termios.error:
        return None


def _restore(before: list[Any]) -> None:
    with contextlib.suppress(OSError):
        os.write(1, LEAVE_SCREEN)
    now = terminal_state(1)
    # Without ISIG the app's raw mode is still on; with it a shell has already set its own mode,
    # which is kept.
    if now and not now[3] & termios.ISIG:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(1, termios.TCSANOW, before)


def last_lines(log: int) -> list[str]:
    """Return the lines around the stack of a fatal signal in a log; without one the last ten."""
    size = os.fstat(log).st_size
    text = os.pread(log, _TAIL_BYTES, max(0, size - _TAIL_BYTES)).decode(errors="replace")
    lines = [printable(line)[:400] for line in text.splitlines()]
    fatal = next((n for n, line in enumerate(lines) if line.startswith("Fatal Python error")), None)
    return lines[-10:] if fatal is None else lines[max(0, fatal - 5) : fatal + 25]

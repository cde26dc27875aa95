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
from pathlib import Path
from typing import Any, NoReturn

from tfwatch.config import short_path
from tfwatch.core.errors import printable

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
#: The mark of a regular end; no path contains it.
_END = b"\0"


class Guard:
    """The parent's end of the pipe: it sends the path of the log, and the mark of a regular end."""

    def __init__(self, pid: int, pipe: int) -> None:
        self._pid = pid
        self._pipe = pipe

    def set_log(self, log: Path) -> None:
        """Send the path of the log whose end the child prints. Call it once."""
        with contextlib.suppress(OSError):
            os.write(self._pipe, os.fsencode(log))

    def end(self) -> None:
        """Mark a regular end and wait for the child. A second call does nothing."""
        if self._pipe < 0:
            return
        with contextlib.suppress(OSError):
            os.write(self._pipe, _END)
        os.close(self._pipe)
        self._pipe = -1
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)


def start_guard(screen: bool, if_killed: str) -> Guard | None:
    """Fork the child; call this before any thread starts. None where no process can be created.

    screen: restore the terminal on descriptor 1 too. if_killed: the sentence that it prints.
    """
    parent, before = os.getpid(), terminal_state(1) if screen else None
    reader, pipe = os.pipe()
    # Blocked, not ignored: a signal that kills the parent must not kill the child, not even right
    # after the fork.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
    try:
        pid = os.fork()
        if pid == 0:
            _run_child(reader, pipe, parent, before, if_killed)
    except OSError:
        os.close(reader)
        os.close(pipe)
        return None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    os.close(reader)
    return Guard(pid, pipe)


def _run_child(
    reader: int, pipe: int, parent: int, before: list[Any] | None, if_killed: str
) -> NoReturn:
    """Run the child. before: the terminal's state to restore, None without a screen."""
    try:
        os.close(pipe)
        os.setsid()
        received = _receive(reader, parent)
        if not received.endswith(_END):
            if before:
                _restore(before)
            os.write(
                2, _last_lines(Path(os.fsdecode(received)), if_killed).encode(errors="replace")
            )
    finally:
        os._exit(0)


def _receive(reader: int, parent: int) -> bytes:
    """Return the bytes that the parent sent until its regular end or its death."""
    received = b""
    while not received.endswith(_END):
        if select.select([reader], [], [], _CHECK_S)[0]:
            more = os.read(reader, 4096)
            if not more:
                break
            received += more
        elif os.getppid() != parent:
            break
    return received


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


def _last_lines(log: Path, if_killed: str) -> str:
    lines = _select(_tail(log))
    end = (
        f" The end of {short_path(log)}:\r\n" + "".join(f"  {line}\r\n" for line in lines)
        if lines
        else "\r\n"
    )
    return f"\r\ntfwatch: {if_killed}{end}"


def _tail(log: Path) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return [printable(line)[:400] for line in text.splitlines()]


def _select(lines: list[str]) -> list[str]:
    """Return the lines around the stack of a fatal signal; without one the last ten."""
    fatal = next((n for n, line in enumerate(lines) if line.startswith("Fatal Python error")), None)
    return lines[-10:] if fatal is None else lines[max(0, fatal - 5) : fatal + 25]

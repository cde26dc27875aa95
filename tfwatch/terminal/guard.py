"""A tiny child process that puts the terminal right when this process dies without a word.

An abort inside TensorFlow's C++, or SIGKILL, leaves the alternate screen, the mouse and raw mode behind and says
nothing. The child sleeps on a pipe; where the pipe closes and nobody said goodbye, it cleans up and tells the
log's last lines.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import termios
from pathlib import Path
from typing import Any, NoReturn

from tfwatch.core.errors import printable

#: Ends what a Textual app turns on: mouse, focus and paste reports, kitty keys, no wrapping, the alternate screen.
LEAVE_SCREEN = (
    b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l\x1b[?1004l\x1b[?2004l\x1b[?2048l\x1b[<u"
    b"\x1b[?7h\x1b[?1049l\x1b[?25h\x1b[0m"
)
#: A forked data worker keeps the pipe open beyond its parent's death, so the parent is looked for this often.
_LOOK_S = 1.0
_TAIL_BYTES = 64 * 1024
_DEAF_TO = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
#: No path holds it.
_GOODBYE = b"\0"


class Guard:
    """The parent's end: the child hears which log to tell of, and the goodbye that ends it without a word."""

    def __init__(self, pid: int, pipe: int) -> None:
        self._pid = pid
        self._pipe = pipe

    def tell(self, log: Path) -> None:
        """Name the log whose end the user is shown. Call it once."""
        with contextlib.suppress(OSError):
            os.write(self._pipe, os.fsencode(log))

    def goodbye(self) -> None:
        """Say that this process leaves in order. A second call does nothing."""
        if self._pipe < 0:
            return
        with contextlib.suppress(OSError):
            os.write(self._pipe, _GOODBYE)
        os.close(self._pipe)
        self._pipe = -1
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)


def post_guard(screen: bool) -> Guard | None:
    """Fork the child; call it before any thread starts. None where no process can be made.

    `screen`: the terminal on descriptor 1 is to be put right too.
    """
    parent, before = os.getpid(), _terminal_state() if screen else None
    reader, pipe = os.pipe()
    # Blocked and not ignored: the child must not die of what kills its parent, from its very first moment on.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _DEAF_TO)
    try:
        pid = os.fork()
        if pid == 0:
            _live(reader, pipe, parent, before)
    except OSError:
        os.close(reader)
        os.close(pipe)
        return None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    os.close(reader)
    return Guard(pid, pipe)


def _live(reader: int, pipe: int, parent: int, before: list[Any] | None) -> NoReturn:
    """The child, all its life; `before` is the terminal's state to go back to, None without a screen."""
    try:
        os.close(pipe)
        os.setsid()
        said = _hear(reader, parent)
        if not said.endswith(_GOODBYE):
            if before:
                _put_right(before)
            os.write(2, _last_words(Path(os.fsdecode(said))).encode(errors="replace"))
    finally:
        os._exit(0)


def _hear(reader: int, parent: int) -> bytes:
    """All that the parent said until its goodbye or its death."""
    said = b""
    while not said.endswith(_GOODBYE):
        if select.select([reader], [], [], _LOOK_S)[0]:
            more = os.read(reader, 4096)
            if not more:
                break
            said += more
        elif os.getppid() != parent:
            break
    return said


def _terminal_state() -> list[Any] | None:
    try:
        return termios.tcgetattr(1)
    except termios.error:
        return None


def _put_right(before: list[Any]) -> None:
    with contextlib.suppress(OSError):
        os.write(1, LEAVE_SCREEN)
    now = _terminal_state()
    # Without ISIG it is still the app's raw mode; with it a shell has set its own already, which stays.
    if now and not now[3] & termios.ISIG:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(1, termios.TCSANOW, before)


def _last_words(log: Path) -> str:
    lines = _interesting(_tail(log))
    end = f" The end of {short(log)}:\r\n" + "".join(f"  {line}\r\n" for line in lines) if lines else "\r\n"
    return f"\r\ntfwatch: killed or crashed; what was recorded up to then is kept.{end}"


def _tail(log: Path) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return [printable(line)[:400] for line in text.splitlines()]


def _interesting(lines: list[str]) -> list[str]:
    """From shortly before a fatal signal's stack on; without one the last ten lines."""
    fatal = next((n for n, line in enumerate(lines) if line.startswith("Fatal Python error")), None)
    return lines[-10:] if fatal is None else lines[max(0, fatal - 5) : fatal + 25]


def short(path: Path) -> str:
    """A path with the user's home as `~`."""
    try:
        return f"~/{path.relative_to(Path.home())}"
    except (ValueError, RuntimeError):
        return str(path)

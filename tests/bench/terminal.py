"""Runs a program on a pseudo terminal whose output is discarded."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import termios
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: The interval between two calls of `keys`, which take time from the measured program.
ASK_S = 0.5


def run_on_terminal(
    command: list[str], size: tuple[int, int], keys: Callable[[], bytes] = bytes
) -> None:
    """Run a program to its end on `size` columns and rows, and type the result of `keys` twice a
    second."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
        os.execv(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    due_s = 0.0
    while _goes_on(terminal):
        if time.monotonic() >= due_s:
            due_s = time.monotonic() + ASK_S
            if typed := keys():
                os.write(terminal, typed)
    os.waitpid(pid, 0)
    os.close(terminal)


def _goes_on(terminal: int) -> bool:
    readable, _, _ = select.select([terminal], [], [], ASK_S)
    try:
        return not readable or bool(os.read(terminal, 65536))
    except OSError:  # Linux' way to say that the other end is closed
        return False

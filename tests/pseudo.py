"""A program in its own pseudo terminal, as in a user's shell."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

_SEQUENCE = re.compile(r"\x1b\[[0-9;?<>]*[a-zA-Z]")
_USUAL = {"TERM": "xterm-256color", "PYTHONPATH": str(Path(__file__).parent.parent)}
#: Processes that a program leaves behind are found by this variable.
MARK = "TFWATCH_TEST_TERMINAL"
ROOT = Path(__file__).parent.parent
#: Of the modules of a program: what this process finds, it does.
PATH = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))


class Pseudo:
    """A Python program whose standard descriptors are a terminal; a context manager that kills it
    on exit, and all that it has started."""

    def __init__(self, *args: str, columns: int = 80, rows: int = 24, **environ: str) -> None:
        self._master, self.slave = pty.openpty()
        self.resize(columns, rows)
        self.before = termios.tcgetattr(self.slave)
        self.output = b""
        self.mark = uuid.uuid4().hex
        self.process = subprocess.Popen(
            [sys.executable, *args],
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            cwd=ROOT,
            env={
                **os.environ,
                "TERM": "xterm-256color",
                "PYTHONPATH": PATH,
                MARK: self.mark,
                **environ,
            },
            start_new_session=True,
            preexec_fn=_take_terminal,
        )

    def __enter__(self) -> Pseudo:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(timeout=10)
        kill_marked(self.mark)
        for fd in (self._master, self.slave):
            with contextlib.suppress(OSError):
                os.close(fd)

    def resize(self, columns: int, rows: int) -> None:
        """Resize the window."""
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys: str) -> None:
        """Type keys."""
        os.write(self._master, keys.encode())

    def answer(self, key: str) -> None:
        """Press q, and answer the question of the screen."""
        self.press("q")
        self.wait_for("Quit?")
        self.press(key)

    def wait_for(self, text: str, timeout_s: float = 20) -> str:
        """Read until the text appears, in any colours, and return all the output.

        Raises:
            AssertionError: the text did not appear in time.
        """
        deadline = time.monotonic() + timeout_s
        while text not in self.words:
            assert time.monotonic() < deadline, f"{text!r} never came: {self.words[-1000:]!r}"
            self.read(0.1)
        return self.output.decode(errors="replace")

    def read_until(self, condition: Callable[[], object], timeout_s: float = 20) -> None:
        """Read until a condition holds and the terminal is quiet: a full one takes no more output.

        Raises:
            AssertionError: it did not come to hold in time.
        """
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, f"it never came to hold: {self.words[-1000:]!r}"
            self.read(0.01)
        while self.read(0.05):
            pass

    def wait(self, timeout_s: float = 20) -> int:
        """Read until the program ends and its terminal is quiet; return its exit code."""
        deadline = time.monotonic() + timeout_s
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it never ended: {self.words[-1000:]!r}"
            self.read(0.02)
        while self.read(0.3):  # the guard may still write
            pass
        return self.process.returncode

    def hang_up(self) -> None:
        """Take the terminal away, as a dropped connection does."""
        os.close(self.slave)
        os.close(self._master)

    @property
    def words(self) -> str:
        """The output without colours and cursor movements."""
        return _SEQUENCE.sub("", self.output.decode(errors="replace"))

    @property
    def state(self) -> list[Any]:
        """The terminal's current settings."""
        return termios.tcgetattr(self.slave)

    def read(self, timeout_s: float) -> bool:
        """Take what the program writes within a time; return whether it has written."""
        if not select.select([self._master], [], [], timeout_s)[0]:
            return False
        try:
            more = os.read(self._master, 65536)
        except OSError:
            return False
        self.output += more
        return bool(more)


def kill_marked(mark: str) -> None:
    """Kill the processes that a test has left behind, whoever their parent is by now."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(MARK) == mark:
                process.kill()


def _take_terminal() -> None:
    for signum in (
        signal.SIGINT,
        signal.SIGQUIT,
    ):  # a background job of a shell inherits that they are ignored
        signal.signal(signum, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)

"""Keeps the machine awake while a run lasts (`--keep-awake`), with the tool of the operating
system."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

from tfwatch.core.system_tool import NotStartedError, start_long_running

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: A tool that runs for this long works.
_FAILS_WITHIN_S = 2.0
_LEAVES_WITHIN_S = 1.0


class KeepAwake:
    """A context in which the machine does not fall asleep by itself. Closing the lid still puts
    most to sleep.

    notify: called once, from any thread, with a sentence on whether it works. Training goes on
    either way.
    """

    def __init__(self, notify: Callable[[str], None], argv: Sequence[str] | None = None) -> None:
        self._notify = notify
        self._argv = tool_for(os.getpid()) if argv is None else argv
        self._process: subprocess.Popen[bytes] | None = None
        self._leaving = threading.Event()

    def __enter__(self) -> KeepAwake:
        if not self._argv:
            self._notify("--keep-awake has no tool for this system: the machine may fall asleep")
            return self
        try:
            self._process = start_long_running(
                self._argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
            )
        except NotStartedError as error:
            self._fail(str(error))
        else:
            threading.Thread(
                target=self._watch, args=(self._process,), name="tfwatch-awake", daemon=True
            ).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving.set()
        if self._process is None:
            return
        with contextlib.suppress(OSError):
            self._process.kill()  # it inherits that SIGTERM is held back (`held_signals`)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_LEAVES_WITHIN_S)

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until it is clear whether the tool works."""
        try:
            process.wait(_FAILS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._notify(f"kept awake by {self._name} until the run ends")
            return
        if not self._leaving.is_set():
            assert process.stderr
            words = process.stderr.read(1000).decode(errors="replace").strip()
            self._fail(words.split("\n")[0] or f"it ended with {process.returncode}")

    def _fail(self, why: str) -> None:
        self._notify(
            f"--keep-awake does not work here, the machine may fall asleep: {self._name}: {why}"
        )

    @property
    def _name(self) -> str:
        return os.path.basename(self._argv[0]) if self._argv else ""


def tool_for(pid: int, system: str = sys.platform) -> list[str]:
    """Return the command that keeps this system awake while process `pid` lives; empty where none
    is known.

    systemd-inhibit lasts as long as its child: a cat that reads a pipe of this process.
    """
    if system == "darwin":
        return ["/usr/bin/caffeinate", "-i", "-w", str(pid)]
    if system.startswith("linux"):
        what = ["--what=idle:sleep", "--mode=block", "--who=tfwatch", "--why=a training runs"]
        return ["/usr/bin/systemd-inhibit", *what, "/bin/cat"]
    return []

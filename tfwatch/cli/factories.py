"""The factories of the parts of a command. Each imports its part when it is called; tests replace
them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tfwatch.doctor.checks import CheckUp
    from tfwatch.doctor.packages import Installed
    from tfwatch.screens.dialogs.leave import Leave
    from tfwatch.screens.doctor import RunCheckup

#: The last of the standard descriptors.
_STANDARD = 2


class Screen(Protocol):
    """The part of `tfwatch.app.TfwatchApp` that a command uses."""

    def run(self) -> Leave | None: ...

    def exit_with(self, leave: Leave) -> None: ...

    def suspend(self) -> AbstractContextManager[None]: ...


class Launching(Screen, Protocol):
    """The part of `tfwatch.screens.launcher.LauncherApp` that a command uses."""

    words: tuple[str, ...]


def _app(*args: Any, **options: Any) -> Screen:
    from tfwatch.app import TfwatchApp

    return TfwatchApp(*args, **options)


def _launcher(*args: Any, **options: Any) -> Launching:
    from tfwatch.screens.launcher import LauncherApp

    return LauncherApp(*args, **options)


def _installed() -> Installed:
    from tfwatch.doctor.packages import Installed

    return Installed.here()


def _command_line(words: Sequence[str]) -> list[str]:
    own = len(sys.orig_argv) - len(sys.argv[1:])
    return [sys.executable, *sys.orig_argv[1:own], *words]


def _run_command(words: Sequence[str]) -> int:
    return subprocess.run(_command_line(words), check=False).returncode


def _exec_command(words: Sequence[str]) -> None:
    for name in os.listdir(
        "/dev/fd"
    ):  # a driver's files that stayed open would keep the GPU's memory
        with contextlib.suppress(OSError):
            os.set_inheritable(int(name), int(name) <= _STANDARD)
    os.execv(sys.executable, _command_line(words))


@dataclass(frozen=True)
class Factories:
    """The factories of one run.

    exit_now: ends the process at once. exec_command: replaces the process by `tfwatch` with these
    words. run_command: runs it in a child process, and returns its exit code.
    `app` and `launcher` take the arguments of `TfwatchApp` and `LauncherApp`.
    """

    app: Callable[..., Screen] = _app
    launcher: Callable[..., Launching] = _launcher
    installed: Callable[[], Installed] = _installed
    exit_now: Callable[[int], Any] = os._exit
    exec_command: Callable[[Sequence[str]], Any] = _exec_command
    run_command: Callable[[Sequence[str]], int] = _run_command


def make_checkup(runs_dir: Path, data: Path | None = None) -> RunCheckup:
    """Return a function that checks this machine and the folders of a run. data: None is
    `runs_dir`."""

    def run_checkup(is_beside_training: bool, notify: Callable[[str], None]) -> CheckUp:
        from tfwatch.doctor.checkup import Scope, check_up

        return check_up(Scope(runs_dir, data, is_beside_training), notify)

    return run_checkup

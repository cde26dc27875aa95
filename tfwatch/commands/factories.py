"""What a command is built of, loaded when it is needed; tests put others in.

The check-up that a screen shows. What it takes is loaded when somebody asks for it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tfwatch.doctor.packages import Installed

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tfwatch.core.clock import Clock
    from tfwatch.doctor.check import CheckUp
    from tfwatch.doctor.checkup import Scope
    from tfwatch.doctor.facts import Facts
    from tfwatch.runs.control import Control
    from tfwatch.runs.writer import RunWriter
    from tfwatch.screens.doctor import Look
    from tfwatch.screens.leave import Leave
    from tfwatch.training.request import Plan
    from tfwatch.training.trainer import Outcome

#: The last of the descriptors that a program is begun with.
_STANDARD = 2


class Training(Protocol):
    """What a command needs of `tfwatch.training.trainer.Trainer`."""

    done: threading.Event
    outcome: Outcome | None

    def start(self) -> None: ...

    def save_weights(self, path: Path) -> str: ...


class Sensing(Protocol):
    """What a command needs of `tfwatch.sensors.runner.Sensors`."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


class Screen(Protocol):
    """What a command needs of `tfwatch.app.TfwatchApp`."""

    def run(self) -> Leave | None: ...

    def exit_with(self, leave: Leave) -> None: ...

    def suspend(self) -> AbstractContextManager[None]: ...


class Checking(Screen, Protocol):
    """What a command needs of `tfwatch.app.DoctorApp`."""

    @property
    def found(self) -> CheckUp | None: ...


class Launching(Screen, Protocol):
    """What a command needs of `tfwatch.screens.launcher.LauncherApp`."""

    words: tuple[str, ...]


def _trainer(plan: Plan, writer: RunWriter, control: Control, clock: Clock) -> Training:
    from tfwatch.training.trainer import Trainer

    return Trainer(plan, writer, control, clock)


def _sensors(writer: RunWriter, clock: Clock, gpu: str) -> Sensing:
    from tfwatch.sensors.runner import Sensors

    return Sensors(writer, clock, gpu)


def _app(*args: Any, **options: Any) -> Screen:
    from tfwatch.app import TfwatchApp

    return TfwatchApp(*args, **options)


def _doctor(*args: Any, **options: Any) -> Checking:
    from tfwatch.app import DoctorApp

    return DoctorApp(*args, **options)


def _launcher(*args: Any, **options: Any) -> Launching:
    from tfwatch.screens.launcher import LauncherApp

    return LauncherApp(*args, **options)


def _become(words: Sequence[str]) -> None:
    own = len(sys.orig_argv) - len(sys.argv[1:])
    for name in os.listdir("/dev/fd"):  # a driver's files that stayed open would keep the GPU's memory
        with contextlib.suppress(OSError):
            os.set_inheritable(int(name), int(name) <= _STANDARD)
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:own], *words])


@dataclass(frozen=True)
class Parts:
    """The makers of a run's parts. `exit_now` ends the process on the spot, `become` makes it tfwatch with these words.

    `app` takes what `TfwatchApp` takes, `doctor` what `DoctorApp` takes, `launcher` what
    `LauncherApp` takes.
    """

    trainer: Callable[[Plan, RunWriter, Control, Clock], Training] = _trainer
    sensors: Callable[[RunWriter, Clock, str], Sensing] = _sensors
    app: Callable[..., Screen] = _app
    doctor: Callable[..., Checking] = _doctor
    launcher: Callable[..., Launching] = _launcher
    installed: Callable[[], Installed] = Installed.here
    exit_now: Callable[[int], Any] = os._exit
    become: Callable[[Sequence[str]], Any] = _become


def look_at(runs_dir: Path, data: Path | None = None) -> Look:
    """The check-up of this machine, with the folders that a run uses: `data` as `tfwatch train --data` takes it."""

    def look(gently: bool, told: Callable[[str], None]) -> CheckUp:
        from tfwatch.doctor.checkup import gather

        return check_up(gather(scope_of(runs_dir, data, gently), told))

    return look


def scope_of(runs_dir: Path, data: Path | None, gently: bool = False) -> Scope:
    """Where to look; data: the folder whose disk is read, None where tfwatch keeps its own images.

    Raises:
        BadInputError: the data folder is not there.
    """
    from tfwatch.doctor.checkup import Scope
    from tfwatch.screens.keys import SMALLEST
    from tfwatch.workloads.data.image_folder import cache_dir
    from tfwatch.workloads.workload import BadInputError

    if data is not None and not os.path.isdir(data):
        raise BadInputError(f"there is no folder {data}")
    return Scope(runs_dir, data or cache_dir(), SMALLEST, gently)


def check_up(facts: Facts) -> CheckUp:
    """What the facts come to."""
    from tfwatch.doctor.check import CheckUp
    from tfwatch.doctor.checkup import examine
    from tfwatch.doctor.quick_facts import machine_line

    return CheckUp(machine_line(facts), tuple(examine(facts)))

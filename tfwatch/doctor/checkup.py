"""The check-up: collects the facts of this machine, then runs every check over them, worst result first.

Slow sources have a time limit, and a source that fails becomes a fact itself.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import psutil

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import fails_open
from tfwatch.doctor import check_installation, check_machine, check_tensorflow
from tfwatch.doctor.check import Check, worst_first
from tfwatch.doctor.facts import Cores, DiskSpeed, Facts, Machine, RunsFolder
from tfwatch.doctor.packages import Installed, providers
from tfwatch.doctor.probes import (
    backend,
    describe_mount,
    interpreter,
    nvidia,
    read_speed,
    runs_folder,
    terminal,
)
from tfwatch.doctor.trial import Trial, try_tensorflow
from tfwatch.runs.machine_info import limits
from tfwatch.sensors.gpu.sensor import choose_sources
from tfwatch.sensors.host import host_sensors
from tfwatch.sensors.protocol import Availability, Unavailable, reason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tfwatch.sensors.protocol import GpuSource, Sensor


_T = TypeVar("_T")
#: A folder on a lost network answers after minutes, or never.
_PATIENCE_S = 10.0
_HANGS = "is a network folder gone?"
#: Variables that affect TensorFlow and Keras.
_VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "KERAS_BACKEND",
    "TF_ENABLE_ONEDNN_OPTS",
    "TF_USE_LEGACY_KERAS",
)
_WHILE_TRAINING = "skipped while a training runs, because the TensorFlow check takes cores from it: press t to run it"
#: Checks of the same status are shown in this order.
CHECKS = (
    check_installation.python,
    check_installation.rosetta,
    check_installation.versions,
    check_installation.keras,
    check_tensorflow.importing,
    check_tensorflow.devices,
    check_tensorflow.products,
    check_tensorflow.training_step,
    check_tensorflow.fallback,
    check_tensorflow.cuda,
    check_tensorflow.avx,
    check_tensorflow.onednn,
    check_machine.cores,
    check_machine.memory,
    check_machine.swap,
    check_machine.pressure,
    check_machine.heat,
    check_machine.disk,
    check_machine.runs_folder,
    check_machine.terminal,
    check_machine.gpu_counters,
    check_machine.powermetrics,
    check_machine.neural_engine,
)


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope of a check-up.

    data: the folder whose disk is read. smallest: columns and rows that the screen needs.
    is_beside_training: a training runs, so the check-up neither starts TensorFlow nor reads the disk.
    """

    runs_dir: Path
    data: Path
    smallest: tuple[int, int]
    is_beside_training: bool = False


def run_checks(facts: Facts) -> list[Check]:
    """Run every check; return the results, worst first."""
    return worst_first(check(facts) for check in CHECKS)


def collect_facts(scope: Scope, notify: Callable[[str], None], clock: Clock = SYSTEM) -> Facts:
    """Collect the facts, which takes a few seconds and TensorFlow's import; `notify` gets the name of each part."""
    notify("the installation")
    installed = Installed.here()
    environ = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    machine = _Machine(clock)
    trial = _trial(installed, scope, notify)
    notify("the disk")
    disk = _disk(scope, clock)
    notify("the machine")
    powermetrics, counters = _gpu_counters(installed.system)
    return Facts(
        interpreter=interpreter(installed.system),
        installed=installed,
        providers=providers(),
        environ=environ,
        backend=_backend(Path(os.path.expanduser("~"))),
        trial=trial,
        nvidia=nvidia(os.environ),
        machine=machine.read(),
        cores=_cores(),
        disk=disk,
        gpu_counters=counters,
        powermetrics=powermetrics,
        terminal=terminal(os.environ, scope.smallest),
        runs=_runs(scope.runs_dir, clock),
    )


def _runs(folder: Path, clock: Clock) -> RunsFolder | Unavailable:
    found = _within_limit(lambda: runs_folder(folder, clock), "the runs folder")
    if isinstance(found, Unavailable) and found.fix == _HANGS:
        return RunsFolder(
            str(folder), hangs=f"{_PATIENCE_S:g} s; it is on {describe_mount(folder)}"
        )
    return found


def _backend(home: Path) -> str:
    """Return Keras' backend; its default where the home folder hangs, which the check of the runs folder reports."""
    found = _within_limit(lambda: backend(os.environ, home), "the home folder")
    return "tensorflow" if isinstance(found, Unavailable) else found


def _trial(installed: Installed, scope: Scope, notify: Callable[[str], None]) -> Trial:
    if "tensorflow" not in installed.versions:
        return Trial("skipped")
    if scope.is_beside_training:
        return Trial("skipped", log_text=_WHILE_TRAINING)
    return try_tensorflow(lambda stage: notify(f"TensorFlow: {stage}"))


def _disk(scope: Scope, clock: Clock) -> DiskSpeed | Unavailable:
    if scope.is_beside_training:
        return Unavailable("skipped while a training runs: press t to read it", "")
    return _within_limit(lambda: read_speed(scope.data, clock), "the disk")


class _Machine:
    """The sensors of a run; the first reading is at construction, so that rates span the time until `read`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sensors: list[Sensor] = []
        self._gaps: dict[str, Unavailable] = {}
        for sensor in host_sensors():
            with self._fails_open(sensor):
                answer = sensor.available()
                if isinstance(answer, Unavailable):
                    self._gaps[sensor.name] = answer
                else:
                    self._sensors.append(sensor)
        self._read()

    def read(self) -> Machine:
        """Return the figures since construction."""
        allowed = limits().memory_bytes
        return Machine(
            psutil.virtual_memory().total, allowed, _swap_total(), self._read(), self._gaps
        )

    def _read(self) -> dict[str, float]:
        figures: dict[str, float] = {}
        for sensor in self._sensors:
            figures.update(self._read_one(sensor))
        return figures

    def _read_one(self, sensor: Sensor) -> Mapping[str, float]:
        with self._fails_open(sensor):
            return sensor.read(self._clock.now_ns())
        return {}

    def _fails_open(self, sensor: Sensor) -> fails_open:
        """Record a sensor's failure, so that it stops no other sensor."""

        def publish(why: str) -> None:
            self._gaps[sensor.name] = Unavailable(why, "")

        return fails_open(publish, reason)


def _swap_total() -> float | None:
    try:
        return float(psutil.swap_memory().total)
    except (OSError, RuntimeError):
        return None


def _cores() -> Cores:
    installed = psutil.cpu_count() or 1
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else installed
    quota = limits().cores
    return Cores(installed, bound, quota if quota is not None and quota < bound else None)


def _gpu_counters(system: str) -> tuple[Availability | None, tuple[str, Availability]]:
    """Return the availability of powermetrics (None off macOS), and the first GPU source that works, else the last."""
    asked = {
        one.name: _within_limit(partial(_ask, one), one.name, "is its driver stuck?")
        for one in choose_sources("auto", system)
    }
    working = [name for name, answer in asked.items() if not isinstance(answer, Unavailable)]
    name = working[0] if working else list(asked)[-1]
    return asked.get("powermetrics"), (name, asked[name])


def _ask(source: GpuSource) -> Availability:
    try:
        return source.available()
    finally:
        source.close()


def _within_limit(read: Callable[[], _T], name: str, guess: str = _HANGS) -> _T | Unavailable:
    """Return the result of `read`; a call that hangs in the kernel is abandoned after `_PATIENCE_S`."""
    found: list[_T | Unavailable] = []
    thread = threading.Thread(
        target=lambda: found.append(_read_or_reason(read)), daemon=True, name="tfwatch-doctor"
    )
    thread.start()
    thread.join(_PATIENCE_S)
    return (
        found[0] if found else Unavailable(f"{name} did not answer within {_PATIENCE_S:g} s", guess)
    )


def _read_or_reason(read: Callable[[], _T]) -> _T | Unavailable:
    reasons: list[str] = []
    with fails_open(reasons.append, reason):
        return read()
    return Unavailable(reasons[0], "")

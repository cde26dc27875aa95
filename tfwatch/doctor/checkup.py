"""The check-up: gathers the facts of this machine, then judges them by pure functions, the worst first.

Collects the facts of this machine. Slow things are bounded, and each failure is a fact of its own.

The check-up: all checks over the facts, the worst first.
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
from tfwatch.doctor.facts import Cores, DiskSpeed, Facts, Machine
from tfwatch.doctor.packages import Installed, providers
from tfwatch.doctor.probes import backend, interpreter, nvidia, read_speed, runs_folder, terminal
from tfwatch.doctor.trial import Trial, try_tensorflow
from tfwatch.runs.machine_info import limits
from tfwatch.sensors.gpu.sensor import sources_of
from tfwatch.sensors.host import host_sensors
from tfwatch.sensors.protocol import Availability, Unavailable, reason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tfwatch.sensors.protocol import GpuSource, Sensor

_T = TypeVar("_T")
#: A folder on a network that is gone answers after minutes, or never.
_PATIENCE_S = 10.0
#: Variables that change what TensorFlow and Keras do.
_VARIABLES = ("CUDA_VISIBLE_DEVICES", "KERAS_BACKEND", "TF_ENABLE_ONEDNN_OPTS", "TF_USE_LEGACY_KERAS")
_WHILE_TRAINING = "TensorFlow trains beside this, and the trial would take cores from it: t tries it all the same"


@dataclass(frozen=True, slots=True)
class Scope:
    """What is looked at. data: the folder whose disk is read. smallest: columns and rows that the screen needs.

    gently: a training runs beside it, so neither TensorFlow is tried nor the disk read.
    """

    runs_dir: Path
    data: Path
    smallest: tuple[int, int]
    gently: bool = False


def gather(scope: Scope, told: Callable[[str], None], clock: Clock = SYSTEM) -> Facts:
    """Collect them; `told` hears what is looked at. It takes as long as TensorFlow's import, and some seconds."""
    told("the installation")
    installed = Installed.here()
    environ = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    machine = _Machine(clock)
    trial = _trial(installed, scope, told)
    told("the disk")
    disk = _disk(scope, clock)
    told("the machine")
    powermetrics, counters = _gpu_counters(installed.system)
    return Facts(
        interpreter=interpreter(installed.system),
        installed=installed,
        providers=providers(),
        environ=environ,
        backend=backend(os.environ, Path(os.path.expanduser("~"))),
        trial=trial,
        nvidia=nvidia(os.environ),
        machine=machine.read(),
        cores=_cores(),
        disk=disk,
        gpu_counters=counters,
        powermetrics=powermetrics,
        terminal=terminal(os.environ, scope.smallest),
        runs=_in_time(lambda: runs_folder(scope.runs_dir, clock), "the runs folder"),
    )


def _trial(installed: Installed, scope: Scope, told: Callable[[str], None]) -> Trial:
    if "tensorflow" not in installed.versions:
        return Trial("untried")
    if scope.gently:
        return Trial("untried", words=_WHILE_TRAINING)
    return try_tensorflow(lambda stage: told(f"TensorFlow: {stage}"))


def _disk(scope: Scope, clock: Clock) -> DiskSpeed | Unavailable:
    if scope.gently:
        return Unavailable("not read while a training runs: t reads it all the same", "")
    return _in_time(lambda: read_speed(scope.data, clock), "the disk")


class _Machine:
    """The sensors that a run reads too: asked once at the beginning, so that rates are of the time in between."""

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
        """The figures since the beginning."""
        allowed = limits().memory_bytes
        return Machine(psutil.virtual_memory().total, allowed, _swap_total(), self._read(), self._gaps)

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
        """One sensor's failure must not stop another."""

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
    """Whether powermetrics is permitted, None off macOS; and the first source that can be read, else the last's why."""
    asked = {
        one.name: _in_time(partial(_ask, one), one.name, "is its driver stuck?") for one in sources_of("auto", system)
    }
    working = [name for name, answer in asked.items() if not isinstance(answer, Unavailable)]
    name = working[0] if working else list(asked)[-1]
    return asked.get("powermetrics"), (name, asked[name])


def _ask(source: GpuSource) -> Availability:
    try:
        return source.available()
    finally:
        source.close()


def _in_time(look: Callable[[], _T], what: str, guess: str = "is a share gone?") -> _T | Unavailable:
    """What a look gives; one that hangs in the kernel is left to itself."""
    found: list[_T | Unavailable] = []
    thread = threading.Thread(target=lambda: found.append(_whole(look)), daemon=True, name="tfwatch-doctor")
    thread.start()
    thread.join(_PATIENCE_S)
    return found[0] if found else Unavailable(f"{what} did not answer within {_PATIENCE_S:g} s", guess)


def _whole(look: Callable[[], _T]) -> _T | Unavailable:
    why: list[str] = []
    with fails_open(why.append, reason):
        return look()
    return Unavailable(why[0], "")


#: In the order in which those of one status are shown.
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


def examine(facts: Facts) -> list[Check]:
    """Every check, the worst first."""
    return worst_first(check(facts) for check in CHECKS)

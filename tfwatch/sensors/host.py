"""The machine and this process, from the operating system's own counters, and a laptop's power supply.

The counters update about 100 times a second. On battery, systems lower clocks.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

import psutil

from tfwatch.sensors import linux, macos
from tfwatch.sensors.cpu import CoreKindsSensor, CpuSensor, has_core_kinds
from tfwatch.sensors.protocol import Availability, Available, Rate, Sensor, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping


def host_sensors(system: str = sys.platform) -> list[Sensor]:
    """Return this machine's sensors, one for each source that can fail by itself."""
    cpu = CpuSensor()
    return [
        cpu,
        ProcessSensor(),
        *_system_sensors(system),
        DiskSensor(),
        *([CoreKindsSensor(cpu, system)] if has_core_kinds(system) else []),
        *([PowerSupplySensor()] if has_battery() else []),
    ]


def _system_sensors(system: str) -> list[Sensor]:
    if system == "darwin":
        return [macos.MemorySensor(), macos.PressureSensor(), macos.ThermalSensor()]
    return [
        linux.MemorySensor(),
        linux.SwapSensor(),
        linux.PressureSensor(),
        linux.ThermalSensor(),
    ]


class ProcessSensor:
    """Cores and resident memory of the training process."""

    name = "process"

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._rate = Rate()

    def available(self) -> Availability:
        """Return `Available`: it is this process."""
        return Available()

    def read(self, now_ns: int) -> Mapping[str, float]:
        """Return `process_cores` since the last call, and `process_bytes`."""
        with self._process.oneshot():
            times, memory = self._process.cpu_times(), self._process.memory_info()
        return {"process_cores": self._rate.of(now_ns, times.user + times.system), "process_bytes": memory.rss}


class DiskSensor:
    """Bytes read from all local disks by all programs, without reads from the file cache."""

    name = "disk"

    def __init__(self) -> None:
        self._rate = Rate()

    def available(self) -> Availability:
        """Return `Unavailable` where the system shows no disks, as in some containers."""
        if psutil.disk_io_counters() is None:
            return Unavailable("this system shows no disk counters", "run outside the container to see disk reads")
        return Available()

    def read(self, now_ns: int) -> Mapping[str, float]:
        """Return `disk_read_bytes_s` since the last call."""
        counters = psutil.disk_io_counters(nowrap=False)
        return {"disk_read_bytes_s": math.nan if counters is None else self._rate.of(now_ns, counters.read_bytes)}


#: Some laptops' controllers take tens of milliseconds to read the battery.
PERIOD_NS = 10 * 10**9


class PowerSupplySensor:
    """The power supply: mains or battery."""

    name = "mains"

    def __init__(self) -> None:
        self._due_ns = -math.inf
        self._on_mains = math.nan

    def available(self) -> Availability:
        """Return `Available` where there is a battery."""
        return Available() if has_battery() else Unavailable("this machine has no battery", fix="")

    def read(self, now_ns: int) -> Mapping[str, float]:
        """Return `on_mains`, at most ten seconds old."""
        if now_ns >= self._due_ns:
            self._due_ns = now_ns + PERIOD_NS
            battery = psutil.sensors_battery()
            plugged = battery.power_plugged if battery else None
            self._on_mains = math.nan if plugged is None else float(plugged)
        return {"on_mains": self._on_mains}


def has_battery() -> bool:
    """Return whether the system reports a battery; psutil supports batteries on some systems only."""
    try:
        return psutil.sensors_battery() is not None
    except (AttributeError, OSError, NotImplementedError, ValueError):
        return False

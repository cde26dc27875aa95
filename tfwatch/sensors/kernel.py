"""Memory pressure and heat, as the kernels of Linux and macOS count them.

A temperature does not show heat's effect: 95 degrees are usual for one processor and too much for
another.
"""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from tfwatch.core.system_tool import run
from tfwatch.runs.machine_info import kernel_text, parse_limit
from tfwatch.sensors.sensor import Rate, Sensor, SensorError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping


def kernel_sensors(system: str) -> list[Sensor]:
    """Return the sensors of memory pressure and heat of a system, as `sys.platform` names it."""
    if system == "darwin":
        return [MacPressureSensor(), MacThermalSensor()]
    return [ThermalSensor()]


# -- Linux -----------------------------------------------------------------------------------------

#: Counted since Linux 5.6 on Intel's processors (arch/x86/kernel/cpu/mce/therm_throt.c), for each
#: package.
_PACKAGES = "topology/physical_package_id"
_THROTTLED = "thermal_throttle/package_throttle_total_time_ms"
#: From this share of time at a lowered clock the level is heavy; below it is light.
_HEAVY = 0.1


class ThermalSensor(Sensor):
    """The slowdown of a processor by heat: the time in which the kernel lowered its clock."""

    name = "heat"

    def __init__(self, cpus: Path = Path("/sys/devices/system/cpu")) -> None:
        packages = {
            kernel_text(cpu / _PACKAGES): cpu / _THROTTLED for cpu in cpus.glob("cpu[0-9]*")
        }
        self._counters = {path: Rate() for path in packages.values() if not math.isnan(_ms(path))}

    def why_unavailable(self) -> Unavailable | None:
        """Other processors than Intel's, and virtual machines, are not counted."""
        if self._counters:
            return None
        return Unavailable(
            "this kernel does not count the time for which heat slows this processor"
        )

    def read(self, now_ns: int) -> Mapping[str, float]:
        """Return `thermal_level` of the hottest package: nominal, light or heavy since the last
        call."""
        shares = [rate.of(now_ns, _ms(path) / 1e3) for path, rate in self._counters.items()]
        hottest = max((share for share in shares if not math.isnan(share)), default=math.nan)
        if math.isnan(hottest):
            return {}
        return {"thermal_level": 3.0 if hottest >= _HEAVY else 1.0 if hottest > 0 else 0.0}


def _ms(path: Path) -> float:
    milliseconds = parse_limit(kernel_text(path))
    return math.nan if milliseconds is None else milliseconds


# -- macOS -----------------------------------------------------------------------------------------

#: The time limit of a tool, seconds: a call takes some milliseconds.
PATIENCE_S = 1.0


class ToolSensor(Sensor):
    """A level that a tool of macOS prints, which any program may run."""

    command: tuple[str, ...] = ()
    pattern = re.compile("")
    period_s = 0.0

    def __init__(self) -> None:
        self._due_ns = -math.inf
        self._newest = 0

    def why_unavailable(self) -> Unavailable | None:
        try:
            self.level(0)
        except SensorError as error:
            return Unavailable(str(error))
        self._due_ns = -math.inf
        return None

    def level(self, now_ns: int) -> int:
        """Return the level that the tool printed last, at most a period ago.

        Raises:
            SensorError: it printed none; it runs again in the next period.
        """
        if now_ns >= self._due_ns:
            self._due_ns = now_ns + self.period_s * 1e9
            self._newest = -1
            self._newest = self._run()
        if self._newest < 0:
            raise SensorError(f"{os.path.basename(self.command[0])} printed no level")
        return self._newest

    def _run(self) -> int:
        tool = os.path.basename(self.command[0])
        result = run(self.command, PATIENCE_S)
        if result.failure:
            raise SensorError(f"{tool}: {result.failure}")
        if match := self.pattern.search(result.out):
            return int(match[1])
        words = " ".join(result.out.split())[:100]
        raise SensorError(f"{tool} prints {words!r}, which tfwatch cannot parse")


#: `memory_level` in `core.rows.SAMPLE` for the kernel's levels normal, warning and critical.
_LEVELS = {1: 0, 2: 1, 4: 2}


class MacPressureSensor(ToolSensor):
    """The kernel's memory pressure level."""

    name = "pressure"
    command: tuple[str, ...] = ("/usr/sbin/sysctl", "-i", "kern.memorystatus_vm_pressure_level")
    pattern = re.compile(
        r"^kern\.memorystatus_vm_pressure_level(?:: | = )([124])\s*$", re.MULTILINE | re.ASCII
    )
    #: A call takes some 3 ms of a core.
    period_s = 2.0

    def read(self, now_ns: int) -> Mapping[str, float]:
        """Return `memory_level`."""
        return {"memory_level": _LEVELS[self.level(now_ns)]}


#: nominal, moderate, heavy, trapping and sleeping (libkern/OSThermalNotification.h) as
#: `thermal_level` of `core.rows.SAMPLE`: this system has no light, and the levels after heavy are
#: critical.
HEAT = (0.0, 2.0, 3.0, 4.0, 4.0)


class MacThermalSensor(ToolSensor):
    """The slowdown of the machine by heat."""

    name = "heat"
    command: tuple[str, ...] = (
        "/usr/bin/notifyutil",
        "-g",
        "com.apple.system.thermalpressurelevel",
    )
    pattern = re.compile(
        r"^com\.apple\.system\.thermalpressurelevel ([0-4])[ \t\r]*$", re.MULTILINE | re.ASCII
    )
    #: A call takes some 8 ms of a core, and heat changes slowly.
    period_s = 4.0

    _is_reported = False

    def read(self, now_ns: int) -> Mapping[str, float]:
        """Return `thermal_level`.

        Raises:
            SensorError: the level is 0 and has never been another one, so nothing may report it on
            this machine.
        """
        level = self.level(now_ns)
        self._is_reported |= level > 0
        if not self._is_reported:
            raise SensorError("notifyutil prints 0, as it does for a level that nothing reports")
        return {"thermal_level": HEAT[level]}

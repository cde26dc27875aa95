"""Memory pressure and heat on macOS, by the system's own levels, which any program may read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tfwatch.sensors.protocol import SensorError
from tfwatch.sensors.tool_readers import PolledTool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfwatch.sensors.protocol import Availability

PRESSURE = "kern.memorystatus_vm_pressure_level"
SYSCTL = ("/usr/sbin/sysctl", "-i", PRESSURE)
#: A call takes some 3 ms of a core.
PERIOD_S = 2.0
#: `memory_level` in `core.rows.SAMPLE` for the kernel's levels normal, warning and critical.
_LEVELS = {"1": 0, "2": 1, "4": 2}
_PRESSURE = re.compile(rf"^{re.escape(PRESSURE)}(?:: | = )([124])\s*$", re.MULTILINE | re.ASCII)


class PressureSensor:
    """The kernel's memory pressure level."""

    name = "pressure"

    def __init__(self) -> None:
        self._tool = PolledTool(SYSCTL, parse_sysctl, PERIOD_S)

    def available(self) -> Availability:
        """Return `Available` where sysctl works."""
        return self._tool.available()

    def read(self, now_ns: int) -> Mapping[str, float]:
        """Return `memory_level`."""
        newest = self._tool.newest(now_ns)
        return {} if newest is None else {"memory_level": newest[1]}


def parse_sysctl(text: str) -> int | None:
    """Return the level of sysctl's output; None without one."""
    match = _PRESSURE.search(text)
    return _LEVELS[match[1]] if match else None


KEY = "com.apple.system.thermalpressurelevel"
NOTIFYUTIL = ("/usr/bin/notifyutil", "-g", KEY)
#: A call takes some 8 ms of a core, and heat changes slowly.
THERMAL_PERIOD_S = 4.0
#: nominal, moderate, heavy, trapping and sleeping (libkern/OSThermalNotification.h) as
#: `thermal_level` of `core.rows.SAMPLE`: this system has no light, and the levels after heavy are
#: critical.
LEVELS = (0.0, 2.0, 3.0, 4.0, 4.0)

_LEVEL = re.compile(rf"^{re.escape(KEY)} ([0-4])[ \t\r]*$", re.MULTILINE | re.ASCII)


class ThermalSensor:
    """The slowdown of the machine by heat."""

    name = "heat"

    def __init__(self) -> None:
        self._tool = PolledTool(NOTIFYUTIL, parse_notifyutil, THERMAL_PERIOD_S)
        self._is_reported = False

    def available(self) -> Availability:
        """Return `Available` where notifyutil works."""
        return self._tool.available()

    def read(self, now_ns: int) -> Mapping[str, float]:
        """Return `thermal_level`.

        Raises:
            SensorError: the level is 0 and has never been another one, so nothing may report it on
            this machine.
        """
        newest = self._tool.newest(now_ns)
        if newest is None:
            return {}
        self._is_reported |= newest[1] > 0
        if not self._is_reported:
            raise SensorError("notifyutil prints 0, as it does for a level that nothing reports")
        return {"thermal_level": LEVELS[newest[1]]}


def parse_notifyutil(text: str) -> int | None:
    """Return the level, an index of `LEVELS`; None where the tool prints an error instead."""
    match = _LEVEL.search(text)
    return int(match[1]) if match else None

"""Memory and heat on macOS.

Memory, which the GPU shares: from vm_stat and sysctl. Heat: the system's thermal pressure, which
any program may read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from tfwatch.sensors.protocol import Rate, SensorError
from tfwatch.sensors.tool_readers import PolledTool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfwatch.sensors.protocol import Availability

VM_STAT = ("/usr/bin/vm_stat",)
SYSCTL = ("/usr/sbin/sysctl", "-i", "vm.swapusage", "kern.memorystatus_vm_pressure_level")
#: Each of the two tools takes some 3 ms of a core.
PERIOD_S = 2.0

_PAGE = re.compile(r"page size of (\d{1,7}) bytes", re.ASCII)
#: A number ends with a full stop or a line end: the text may be cut in a number.
_COUNT = re.compile(
    r'^"?([A-Z][A-Za-z -]{1,60})"?:[ \t]{1,80}(\d{1,18})(?:\.[ \t\r]{0,9}$|[ \t\r]{0,9}\n)',
    re.MULTILINE | re.ASCII,
)
_SETTING = re.compile(
    r"^([a-z][\w.]{1,80})[ \t]{0,9}[:=][ \t]{0,9}(\S.{0,200})$", re.MULTILINE | re.ASCII
)
_USED = re.compile(r"\bused\s*=\s*(\d{1,15}(?:\.\d{1,6})?)([KMGT])", re.ASCII)
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
#: `memory_level` in `core.rows.SAMPLE` for the kernel's levels normal, warning and critical.
_LEVELS = {"1": 0, "2": 1, "4": 2}


@dataclass(frozen=True, slots=True)
class VmStat:
    """Bytes; None is n/a. used: by programs, the kernel and the compressor, as in Activity Monitor.

    swapped_in, swapped_out: since the boot.
    """

    used: int | None = None
    swapped_in: int | None = None
    swapped_out: int | None = None


@dataclass(frozen=True, slots=True)
class MemoryStatus:
    """None is n/a. swap_used: bytes. level: as `memory_level` in `core.rows.SAMPLE`."""

    swap_used: float | None = None
    level: int | None = None


class MemorySensor:
    """Memory used, and available without swapping, and swap traffic."""

    name = "memory"

    def __init__(self) -> None:
        self._tool = PolledTool(VM_STAT, parse_vm_stat, PERIOD_S)
        self._installed = psutil.virtual_memory().total
        self._rates = {"swap_in_bytes_s": Rate(), "swap_out_bytes_s": Rate()}
        self._known: dict[str, float] = {}
        self._newest_ns = -1

    def available(self) -> Availability:
        """Return `Available` where vm_stat works."""
        return self._tool.available()

    def read(self, now_ns: int) -> Mapping[str, float]:
        """Return `memory_used_bytes`, `memory_available_bytes`, `swap_in_bytes_s` and
        `swap_out_bytes_s`."""
        newest = self._tool.newest(now_ns)
        if newest and newest[0] != self._newest_ns:
            self._newest_ns = newest[0]
            self._known = self._figures(*newest)
        return self._known

    def _figures(self, at_ns: int, stat: VmStat) -> dict[str, float]:
        figures: dict[str, float] = {}
        if stat.used is not None:
            figures["memory_used_bytes"] = stat.used
            figures["memory_available_bytes"] = max(self._installed - stat.used, 0)
        for column, moved in (
            ("swap_in_bytes_s", stat.swapped_in),
            ("swap_out_bytes_s", stat.swapped_out),
        ):
            if moved is not None:
                figures[column] = self._rates[column].of(at_ns, moved)
        return figures


class PressureSensor:
    """The kernel's memory pressure level, and swapped memory."""

    name = "pressure"

    def __init__(self) -> None:
        self._tool = PolledTool(SYSCTL, parse_sysctl, PERIOD_S)

    def available(self) -> Availability:
        """Return `Available` where sysctl works."""
        return self._tool.available()

    def read(self, now_ns: int) -> Mapping[str, float]:
        """Return `memory_level` and `swap_used_bytes`."""
        newest = self._tool.newest(now_ns)
        if newest is None:
            return {}
        figures = {"memory_level": newest[1].level, "swap_used_bytes": newest[1].swap_used}
        return {name: value for name, value in figures.items() if value is not None}


def parse_vm_stat(text: str) -> VmStat | None:
    """Parse the output of vm_stat; None where it has no page size or none of the counts."""
    page = _PAGE.search(text)
    if page is None or not int(page[1]):
        return None
    size = int(page[1])
    pages: dict[str, int] = {}
    for name, count in _COUNT.findall(text):
        pages.setdefault(name, int(count))
    parts = [
        pages.get(name)
        for name in ("Anonymous pages", "Pages wired down", "Pages occupied by compressor")
    ]
    used = None if None in parts else sum(filter(None, parts)) - pages.get("Pages purgeable", 0)
    moved = [None if name not in pages else pages[name] * size for name in ("Swapins", "Swapouts")]
    read = VmStat(None if used is None else max(used, 0) * size, *moved)
    return None if read == VmStat() else read


def parse_sysctl(text: str) -> MemoryStatus | None:
    """Parse `vm.swapusage` and `kern.memorystatus_vm_pressure_level`; None where both are
    missing."""
    settings: dict[str, str] = {}
    for name, value in _SETTING.findall(text):
        settings.setdefault(name, value.strip())
    used = _USED.search(settings.get("vm.swapusage", ""))
    read = MemoryStatus(
        swap_used=float(used[1]) * _UNITS[used[2]] if used else None,
        level=_LEVELS.get(settings.get("kern.memorystatus_vm_pressure_level", "")),
    )
    return None if read == MemoryStatus() else read


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

"""Memory pressure and heat on Linux.

Pressure: time lost to waiting for memory. Heat: the time in which the kernel reports that a
processor ran slower because of heat. A temperature does not show that: 95 degrees are usual for one
processor and too much for another.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING

from tfwatch.runs.machine_info import ProcessLimits, kernel_text, limits, parse_limit
from tfwatch.sensors.protocol import Availability, Available, Rate, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Pressure stall information, Documentation/accounting/psi.rst: `some avg10=0.00 ...
#: total=MICROSECONDS`.
_SOME = re.compile(r"^some (?:\S{1,40} ){0,9}total=(\d{1,19})$", re.MULTILINE | re.ASCII)
_PRESSURE = Path("/proc/pressure/memory")


class PressureSensor:
    """The share of time in which some task waited for memory, in a limited container or on the
    machine."""

    name = "pressure"

    def __init__(self, allowed: ProcessLimits | None = None) -> None:
        group = (limits() if allowed is None else allowed).group
        # cgroup v1 does not count it for a group.
        self._path = own if group and (own := group / "memory.pressure").exists() else _PRESSURE
        self._rate = Rate()

    def available(self) -> Availability:
        """Return `Unavailable` on kernels that do not count it."""
        try:
            known = (
                parse_pressure(self._path.read_text(encoding="ascii", errors="replace")) is not None
            )
        except OSError:
            known = False
        fix = "start Linux 4.20 or newer with psi=1"
        return (
            Available()
            if known
            else Unavailable("this kernel does not count waits for memory (PSI)", fix)
        )

    def read(self, now_ns: int) -> Mapping[str, float]:
        """Return `memory_stalled` since the last call."""
        waited_us = parse_pressure(self._path.read_text(encoding="ascii", errors="replace"))
        waited_s = math.nan if waited_us is None else waited_us / 1e6
        return {"memory_stalled": min(self._rate.of(now_ns, waited_s), 1.0)}


def parse_pressure(text: str) -> int | None:
    """Return the microseconds since the boot in which some task waited; None where the text has
    none."""
    match = _SOME.search(text)
    return int(match[1]) if match else None


#: Counted since Linux 5.6 on Intel's processors (arch/x86/kernel/cpu/mce/therm_throt.c), for each
#: package.
_PACKAGES = "topology/physical_package_id"
_THROTTLED = "thermal_throttle/package_throttle_total_time_ms"
#: From this share of time at a lowered clock the level is heavy; below it is light.
_HEAVY = 0.1


class ThermalSensor:
    """The slowdown of a processor by heat."""

    name = "heat"

    def __init__(self, cpus: Path = Path("/sys/devices/system/cpu")) -> None:
        self._cpus = cpus
        self._counters: dict[Path, Rate] = {}

    def available(self) -> Availability:
        """Return `Unavailable` where the kernel does not count it: other processors than Intel's,
        virtual machines."""
        packages = {
            kernel_text(cpu / _PACKAGES): cpu / _THROTTLED
            for cpu in sorted(self._cpus.glob("cpu[0-9]*"))
        }
        self._counters = {
            path: Rate() for path in packages.values() if parse_limit(kernel_text(path)) is not None
        }
        if self._counters:
            return Available()
        return Unavailable(
            "this kernel does not count the time for which heat slows this processor", fix=""
        )

    def read(self, now_ns: int) -> Mapping[str, float]:
        """Return `thermal_level`: nominal, light or heavy, over the time since the last call."""
        shares = [rate.of(now_ns, _seconds(path)) for path, rate in self._counters.items()]
        known = [share for share in shares if not math.isnan(share)]
        return {"thermal_level": level(max(known))} if known else {}


def level(share: float) -> float:
    """Return `thermal_level` of `core.rows.SAMPLE` from the share of time at a lowered clock, 0 to
    1."""
    if share >= _HEAVY:
        return 3.0
    return 1.0 if share > 0 else 0.0


def _seconds(path: Path) -> float:
    milliseconds = parse_limit(kernel_text(path))
    return math.nan if milliseconds is None else milliseconds / 1e3

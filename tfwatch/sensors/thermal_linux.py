"""Heat on Linux: the time for which the kernel says that a processor ran slower because it was hot.

Temperatures alone say nothing: 95 degrees are usual for one processor and too much for another.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from tfwatch.runs.container import parse_limit
from tfwatch.sensors import Availability, Available, Unavailable
from tfwatch.sensors.rate import Rate

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Counted since Linux 5.6 on Intel's processors (arch/x86/kernel/cpu/mce/therm_throt.c), for each package.
_PACKAGES = "topology/physical_package_id"
_THROTTLED = "thermal_throttle/package_throttle_total_time_ms"
#: The share of time at a lowered clock from which on the level is heavy; below it is light.
_HEAVY = 0.1


class ThermalSensor:
    """Whether heat makes a processor slower."""

    name = "heat"

    def __init__(self, cpus: Path = Path("/sys/devices/system/cpu")) -> None:
        self._cpus = cpus
        self._counters: dict[Path, Rate] = {}

    def available(self) -> Availability:
        """Not where the kernel does not count it: other processors than Intel's, virtual machines."""
        packages = {_read(cpu / _PACKAGES): cpu / _THROTTLED for cpu in sorted(self._cpus.glob("cpu[0-9]*"))}
        self._counters = {path: Rate() for path in packages.values() if parse_limit(_read(path)) is not None}
        if self._counters:
            return Available()
        return Unavailable("this kernel does not count the time for which heat slows this processor", fix="")

    def read(self, now_ns: int) -> Mapping[str, float]:
        """`thermal_level`: nominal, light or heavy, of the time since the last call."""
        shares = [rate.of(now_ns, _seconds(path)) for path, rate in self._counters.items()]
        known = [share for share in shares if not math.isnan(share)]
        return {"thermal_level": level(max(known))} if known else {}


def level(share: float) -> float:
    """`thermal_level` in `core.rows.SAMPLE`, given the share of time at a lowered clock, 0 to 1."""
    if share >= _HEAVY:
        return 3.0
    return 1.0 if share > 0 else 0.0


def _seconds(path: Path) -> float:
    milliseconds = parse_limit(_read(path))
    return math.nan if milliseconds is None else milliseconds / 1e3


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""

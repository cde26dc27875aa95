"""Whether a laptop runs on its battery, where systems lower clocks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import psutil

from tfwatch.sensors import Availability, Available, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Some laptops' controllers take tens of milliseconds to tell of the battery.
PERIOD_NS = 10 * 10**9


class MainsSensor:
    """On mains or on battery."""

    name = "mains"

    def __init__(self) -> None:
        self._due_ns = -math.inf
        self._on_mains = math.nan

    def available(self) -> Availability:
        """Where there is a battery."""
        return Available() if has_battery() else Unavailable("this machine has no battery", fix="")

    def read(self, now_ns: int) -> Mapping[str, float]:
        """`on_mains`, of the last ten seconds."""
        if now_ns >= self._due_ns:
            self._due_ns = now_ns + PERIOD_NS
            battery = psutil.sensors_battery()
            plugged = battery.power_plugged if battery else None
            self._on_mains = math.nan if plugged is None else float(plugged)
        return {"on_mains": self._on_mains}


def has_battery() -> bool:
    """Whether the system tells of one; psutil does not know of batteries everywhere."""
    try:
        return psutil.sensors_battery() is not None
    except (AttributeError, OSError, NotImplementedError, ValueError):
        return False

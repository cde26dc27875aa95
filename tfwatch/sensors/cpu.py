"""Cores in use: all, and the busiest."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import psutil

from tfwatch.sensors.protocol import Availability, Available

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class CpuSensor:
    """Cores in use by all programs, and the busiest core."""

    name = "CPU"

    def __init__(self) -> None:
        self._before: list[tuple[float, float]] = []

    def available(self) -> Availability:
        """Return `Available`: psutil works everywhere."""
        return Available()

    def read(self, now_ns: int) -> Mapping[str, float]:
        """Return `cpu_cores` and `core_max`, over the time since the last call."""
        del now_ns
        times = [_busy_and_total(core) for core in psutil.cpu_times(percpu=True)]
        before, self._before = self._before, times
        shares = busy_shares(before, times)
        if not shares:
            return {"cpu_cores": math.nan, "core_max": math.nan}
        return {"cpu_cores": sum(shares), "core_max": max(shares)}


def busy_shares(
    before: Sequence[tuple[float, float]], after: Sequence[tuple[float, float]]
) -> list[float]:
    """Return each core's share of busy time, 0 to 1, from two readings of (busy, total) seconds.

    Empty where the readings do not match (a core came or went) or no time has passed.
    """
    if len(before) != len(after):
        return []
    spans = [(now[0] - then[0], now[1] - then[1]) for then, now in zip(before, after, strict=True)]
    if any(span <= 0 for _, span in spans):
        return []
    return [min(max(busy / span, 0.0), 1.0) for busy, span in spans]


def _busy_and_total(times: Any) -> tuple[float, float]:
    """Return (busy, total) seconds of a core. Linux counts guests' time twice: within user and nice
    too."""
    spent = times._asdict()
    total = sum(spent.values()) - spent.get("guest", 0.0) - spent.get("guest_nice", 0.0)
    return total - times.idle - spent.get("iowait", 0.0), total

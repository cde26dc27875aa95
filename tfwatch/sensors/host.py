"""The machine and this process, from the operating system's own counters. They update 100 times a second or so."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import psutil

from tfwatch.sensors import Availability, Available, Sensor, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def host_sensors() -> list[Sensor]:
    """One sensor for each thing that can fail by itself."""
    return [CpuSensor(), ProcessSensor(), MemorySensor(), SwapSensor(), DiskSensor()]


class Rate:
    """The change of a counter per second."""

    def __init__(self) -> None:
        self._before: tuple[int, float] | None = None

    def of(self, now_ns: int, value: float) -> float:
        """Since the last call; NaN at the first one, and where the counter fell (it started anew)."""
        before, self._before = self._before, (now_ns, value)
        if before is None or now_ns <= before[0] or value < before[1]:
            return math.nan
        return (value - before[1]) / (now_ns - before[0]) * 1e9


class CpuSensor:
    """Cores in use by everything on the machine, and the busiest core."""

    name = "CPU"

    def __init__(self) -> None:
        self._before: list[tuple[float, float]] = []

    def available(self) -> Availability:
        """Wherever psutil runs."""
        return Available()

    def read(self, now_ns: int) -> Mapping[str, float]:
        """`cpu_cores` and `core_max`, over the time since the last call."""
        del now_ns
        times = [_busy_and_all(core) for core in psutil.cpu_times(percpu=True)]
        before, self._before = self._before, times
        shares = busy_shares(before, times)
        if not shares:
            return {"cpu_cores": math.nan, "core_max": math.nan}
        return {"cpu_cores": sum(shares), "core_max": max(shares)}


def busy_shares(before: Sequence[tuple[float, float]], after: Sequence[tuple[float, float]]) -> list[float]:
    """Each core's share of busy time, 0 to 1, from two readings of (busy, all) seconds.

    Empty where the readings do not belong together (a core came or went) or no time has passed.
    """
    if len(before) != len(after):
        return []
    spans = [(now[0] - then[0], now[1] - then[1]) for then, now in zip(before, after, strict=True)]
    if any(span <= 0 for _, span in spans):
        return []
    return [min(max(busy / span, 0.0), 1.0) for busy, span in spans]


def _busy_and_all(times: Any) -> tuple[float, float]:
    """(busy, all) seconds of a core. Linux counts guests' time a second time, within user and nice."""
    spent = times._asdict()
    total = sum(spent.values()) - spent.get("guest", 0.0) - spent.get("guest_nice", 0.0)
    return total - times.idle - spent.get("iowait", 0.0), total


class ProcessSensor:
    """Cores and resident memory of the process that trains."""

    name = "process"

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._rate = Rate()

    def available(self) -> Availability:
        """Wherever psutil runs: it is this very process."""
        return Available()

    def read(self, now_ns: int) -> Mapping[str, float]:
        """`process_cores` since the last call, and `process_bytes`."""
        with self._process.oneshot():
            times, memory = self._process.cpu_times(), self._process.memory_info()
        return {"process_cores": self._rate.of(now_ns, times.user + times.system), "process_bytes": memory.rss}


class MemorySensor:
    """The machine's memory."""

    name = "memory"

    def available(self) -> Availability:
        """Wherever psutil runs."""
        return Available()

    def read(self, now_ns: int) -> Mapping[str, float]:
        """`memory_used_bytes`, and `memory_available_bytes`: what can be had without swapping."""
        del now_ns
        memory = psutil.virtual_memory()
        return {"memory_used_bytes": memory.used, "memory_available_bytes": memory.available}


class SwapSensor:
    """Memory moved to disk."""

    name = "swap"

    def available(self) -> Availability:
        """Wherever psutil runs."""
        return Available()

    def read(self, now_ns: int) -> Mapping[str, float]:
        """`swap_used_bytes`."""
        del now_ns
        return {"swap_used_bytes": psutil.swap_memory().used}


class DiskSensor:
    """Bytes read from all local disks by everything on the machine; what memory had cached is not among them."""

    name = "disk"

    def __init__(self) -> None:
        self._rate = Rate()

    def available(self) -> Availability:
        """Not where the system shows no disks, as in some containers."""
        if psutil.disk_io_counters() is None:
            return Unavailable("this system shows no disk counters", "run outside the container to see disk reads")
        return Available()

    def read(self, now_ns: int) -> Mapping[str, float]:
        """`disk_read_bytes_s` since the last call."""
        counters = psutil.disk_io_counters(nowrap=False)
        return {"disk_read_bytes_s": math.nan if counters is None else self._rate.of(now_ns, counters.read_bytes)}

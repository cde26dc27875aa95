"""Memory on Linux: the machine's, or what a container leaves of it; swap traffic; time lost to waiting for memory."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from tfwatch.runs.container import Limits, limits, parse_stat, used_bytes
from tfwatch.sensors import Availability, Available, Unavailable
from tfwatch.sensors.rate import Rate

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Pressure stall information, Documentation/accounting/psi.rst: `some avg10=0.00 ... total=MICROSECONDS`.
_SOME = re.compile(r"^some (?:\S{1,40} ){0,9}total=(\d{1,19})$", re.MULTILINE | re.ASCII)
_VMSTAT = Path("/proc/vmstat")
_PRESSURE = Path("/proc/pressure/memory")


class MemorySensor:
    """What is used and what can be had without swapping, within what a container leaves of it."""

    name = "memory"

    def __init__(self, allowed: Limits | None = None) -> None:
        self._allowed = limits() if allowed is None else allowed

    def available(self) -> Availability:
        """Wherever psutil runs."""
        return Available()

    def read(self, now_ns: int) -> Mapping[str, float]:
        """`memory_used_bytes` and `memory_available_bytes`."""
        del now_ns
        memory = psutil.virtual_memory()
        limit, group = self._allowed.memory_bytes, self._allowed.group
        used = used_bytes(group) if group else None
        if limit is None or used is None:
            return {"memory_used_bytes": memory.used, "memory_available_bytes": memory.available}
        return {"memory_used_bytes": used, "memory_available_bytes": min(max(limit - used, 0), memory.available)}


class SwapSensor:
    """Memory moved to disk, and what is moved now."""

    name = "swap"

    def __init__(self, vmstat: Path = _VMSTAT) -> None:
        self._vmstat = vmstat
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._rates = {"swap_in_bytes_s": ("pswpin", Rate()), "swap_out_bytes_s": ("pswpout", Rate())}

    def available(self) -> Availability:
        """Wherever psutil runs."""
        return Available()

    def read(self, now_ns: int) -> Mapping[str, float]:
        """`swap_used_bytes`, and since the last call `swap_in_bytes_s` and `swap_out_bytes_s`."""
        text = self._vmstat.read_text(encoding="ascii", errors="replace")
        figures = {"swap_used_bytes": float(psutil.swap_memory().used)}
        for column, (counter, rate) in self._rates.items():
            pages = parse_stat(text, counter)
            figures[column] = rate.of(now_ns, math.nan if pages is None else pages * self._page)
        return figures


class PressureSensor:
    """The share of time in which some task waited for memory: of the container where it is limited, else of all."""

    name = "pressure"

    def __init__(self, allowed: Limits | None = None) -> None:
        group = (limits() if allowed is None else allowed).group
        self._path = group / "memory.pressure" if group else _PRESSURE
        self._rate = Rate()

    def available(self) -> Availability:
        """Not on kernels that do not count it."""
        try:
            known = parse_pressure(self._path.read_text(encoding="ascii", errors="replace")) is not None
        except OSError:
            known = False
        fix = "start Linux 4.20 or newer with psi=1"
        return Available() if known else Unavailable("this kernel does not count waits for memory (PSI)", fix)

    def read(self, now_ns: int) -> Mapping[str, float]:
        """`memory_stalled` since the last call."""
        waited_us = parse_pressure(self._path.read_text(encoding="ascii", errors="replace"))
        waited_s = math.nan if waited_us is None else waited_us / 1e6
        return {"memory_stalled": min(self._rate.of(now_ns, waited_s), 1.0)}


def parse_pressure(text: str) -> int | None:
    """Microseconds since the boot in which some task waited; None where the text does not say."""
    found = _SOME.search(text)
    return int(found[1]) if found else None

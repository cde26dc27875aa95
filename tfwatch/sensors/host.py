"""The machine and this process, from the operating system's own counters: load, and
pressure.

The counters update about 100 times a second.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from tfwatch.core.events import Paused
from tfwatch.runs.machine_info import ProcessLimits, bound_cores, limits, used_bytes
from tfwatch.sensors.sensor import Rate, Sensor, SensorError, output_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfwatch.runs.writer import RunWriter


def host_sensors(system: str = sys.platform) -> list[Sensor]:
    """Return this machine's sensors, one for each source that can fail by itself."""
    return [
        CpuSensor(),
        ProcessSensor(),
        MemorySensor(),
        SwapSensor(system),
        *([MacPressureSensor(), MacThermalSensor()] if system == "darwin" else []),
    ]


class CpuSensor(Sensor):
    """Cores in use by all programs, of those that this process is bound to."""

    name = "CPU"

    def __init__(self) -> None:
        self._bound = bound_cores()
        self._has_begun = False

    def read(self, now_ns: int) -> Mapping[str, float]:
        """Return `cpu_cores` over the time since the last call; nothing at the first."""
        shares = psutil.cpu_percent(percpu=True)
        # A container may list its own cores alone, from 0 on.
        is_of_all = self._bound[-1] < len(shares)
        cores = sum(shares[n] for n in self._bound) / 100 if is_of_all else sum(shares) / 100
        had_begun, self._has_begun = self._has_begun, True
        return {"cpu_cores": cores} if had_begun else {}


#: The processes that the training began are listed this often.
_LISTED_NS = 5_000_000_000


class ProcessSensor(Sensor):
    """Cores of the training process and of those that it began, e.g. workers of a `PyDataset`; its
    resident memory."""

    name = "process"

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._rates: dict[psutil.Process, Rate] = {self._process: Rate()}
        self._listed_ns = -_LISTED_NS

    def read(self, now_ns: int) -> Mapping[str, float]:
        """Return `process_cores` since the last call, and `process_bytes`."""
        if now_ns - self._listed_ns >= _LISTED_NS:
            self._listed_ns = now_ns
            found = [self._process, *_children()]
            self._rates = {one: self._rates.get(one) or Rate() for one in found}
        own, *others = (_cores(one, rate, now_ns) for one, rate in self._rates.items())
        # A child has no rate at first, and none once it has ended.
        cores = own + sum(one for one in others if not math.isnan(one))
        return {"process_cores": cores, "process_bytes": self._process.memory_info().rss}


def _children() -> list[psutil.Process]:
    """Return the processes that this one began: from the lists of its threads, which Linux has, in
    1 ms, else from all processes of the machine in 15 ms."""
    lists = [*Path("/proc/self/task").glob("*/children")]
    found: list[psutil.Process] = [] if lists else psutil.Process().children()
    for path in lists:
        with contextlib.suppress(OSError, psutil.Error):  # a thread, or a child, has ended
            found += [psutil.Process(int(pid)) for pid in path.read_text().split()]
    return found


def _cores(process: psutil.Process, rate: Rate, now_ns: int) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:  # it has ended, or is another user's by now
        return math.nan
    return rate.of(now_ns, times.user + times.system)


class MemorySensor(Sensor):
    """Memory used, and available without swapping, within a container's limit."""

    name = "memory"

    def __init__(self, allowed: ProcessLimits | None = None) -> None:
        self._allowed = limits() if allowed is None else allowed

    def read(self, now_ns: int) -> Mapping[str, float]:
        """Return `memory_used_bytes` and `memory_available_bytes`."""
        memory = psutil.virtual_memory()
        limit, group = self._allowed.memory_bytes, self._allowed.group
        used = used_bytes(group) if group else None
        if limit is None or used is None:
            return {"memory_used_bytes": memory.used, "memory_available_bytes": memory.available}
        return {
            "memory_used_bytes": used,
            "memory_available_bytes": min(max(limit - used, 0), memory.available),
        }


class SwapSensor(Sensor):
    """Swapped memory, and swap traffic where the system counts it: macOS counts files too."""

    name = "swap"

    def __init__(self, system: str = sys.platform) -> None:
        self._counts = system == "linux"
        self._traffic = Rate()

    def read(self, now_ns: int) -> Mapping[str, float]:
        """Return `swap_used_bytes`, and `swap_bytes_s`, in and out, since the last call."""
        swap = psutil.swap_memory()
        figures: dict[str, float] = {"swap_used_bytes": swap.used}
        if self._counts:
            figures["swap_bytes_s"] = self._traffic.of(now_ns, swap.sin + swap.sout)
        return figures


# -- memory pressure and heat, as the kernel of macOS counts them ---------------------------------
#
# A temperature does not show heat's effect: 95 degrees are usual for one processor and too much for
# another.

#: The time limit of a tool, seconds: a call takes some milliseconds.
PATIENCE_S = 1.0


class ToolSensor(Sensor):
    """A level that a tool of macOS prints, which any program may run."""

    command: tuple[str, ...] = ()
    pattern = re.compile("")
    period_s = 0.0

    def __init__(self) -> None:
        self._due_ns = -math.inf
        self._newest = -1

    def why_unavailable(self) -> None:
        """Raise a `SensorError` where the tool prints no level."""
        self.level(0)

    def level(self, now_ns: int) -> int:
        """Return the level that the tool printed last, at most a period ago.

        Raises:
            SensorError: it printed none; it runs again in the next period.
        """
        tool = os.path.basename(self.command[0])
        if now_ns >= self._due_ns:
            self._due_ns, self._newest = now_ns + self.period_s * 1e9, -1
            out = output_of(self.command, PATIENCE_S)
            if not (match := self.pattern.search(out)):
                words = " ".join(out.split())[:100]
                raise SensorError(f"{tool} prints {words!r}, which tfwatch cannot parse")
            self._newest = int(match[1])
        if self._newest < 0:
            raise SensorError(f"{tool} printed no level")
        return self._newest


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


# -- pressure --------------------------------------------------------------------------------------

#: Contention: a CPU that is this full, cores that others use, and preemptions of this process a
#: second. Niced programs count: Linux shares the cores among sessions first (autogroup), and two
#: at nice 19 in another session made steps take 1.43 times as long, in this one 1.06 (medians of 24
#: interleaved pairs on two busy cores).
_FULL = 0.9
_OTHERS_CORES = 0.4
_PREEMPTIONS_S = 20.0
#: Bytes swapped in half a second: an idle machine swaps half of that.
_SWAPPED = 16 * 2**20
#: A lasting pressure is reported at this interval, so it has a name before it ends.
_CHUNK_NS = 5_000_000_000
#: The names of the levels of `thermal_level` (see `core.rows.SAMPLE`) that hold a training up.
_HEAT = {3.0: "heavy", 4.0: "critical"}


class Pressure:
    """Detects pressure in the samples of the machine; a pressure over several samples is one
    event."""

    def __init__(self, writer: RunWriter) -> None:
        self._writer = writer
        self._cores = len(bound_cores())
        self._swap = math.nan
        self._preempted = _preemptions()
        self._at_ns = writer.now_ns()
        self._open: dict[str, tuple[int, str]] = {}

    def update(self, figures: Mapping[str, float]) -> None:
        """Add a sample's figures."""
        now_ns = self._writer.now_ns()
        preempted = _preemptions()
        seconds = max((now_ns - self._at_ns) / 1e9, 1e-3)
        preemptions_s = (preempted - self._preempted) / seconds
        self._follow("CPU contention", now_ns, self._contention(figures, preemptions_s))
        self._follow("swap", now_ns, self._swapping(figures, seconds))
        self._follow("thermal limit", now_ns, _HEAT.get(figures["thermal_level"], ""))
        self._preempted, self._at_ns = preempted, now_ns

    def _contention(self, figures: Mapping[str, float], preemptions_s: float) -> str:
        others = figures["cpu_cores"] - figures["process_cores"]
        full = figures["cpu_cores"] >= _FULL * self._cores
        if full and others >= _OTHERS_CORES and preemptions_s >= _PREEMPTIONS_S:
            return f"other processes use {others:.1f} of {self._cores} cores"
        return ""

    def _swapping(self, figures: Mapping[str, float], seconds: float) -> str:
        """Return the swap traffic as text; where it is unknown, the change of swapped memory."""
        used = figures["swap_used_bytes"]
        before, self._swap = self._swap, used
        traffic = figures["swap_bytes_s"] * seconds
        moved = abs(used - before) if math.isnan(traffic) else traffic
        return f"{moved / 2**20:.0f} MB" if moved >= _SWAPPED else ""

    def _follow(self, cause: str, now_ns: int, detail: str) -> None:
        begin_ns, known = self._open.get(cause, (self._at_ns, ""))
        if known and (not detail or now_ns - begin_ns >= _CHUNK_NS):
            end_ns = now_ns if detail else self._at_ns
            self._writer.event(Paused(end_ns, cause, (end_ns - begin_ns) / 1e6, known))
            begin_ns = end_ns
        self._open[cause] = (begin_ns if known and detail else self._at_ns, detail)


def _preemptions() -> int:
    """Return the number of preemptions of this process' threads."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw

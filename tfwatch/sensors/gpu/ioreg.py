"""An Apple GPU: ioreg, which any program may run, and over its activity that of powermetrics, where
this is permitted."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.system_tool import run
from tfwatch.sensors.gpu.powermetrics import Powermetrics
from tfwatch.sensors.sensor import GpuReading, GpuSource, SensorError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COMMAND = ("/usr/sbin/ioreg", "-r", "-d", "1", "-w", "0", "-c", "IOAccelerator")
#: A call takes some 15 ms; it ends before the sensor counts as hung.
_TIMEOUT_S = 0.6

_STATISTICS = re.compile(r'"PerformanceStatistics"\s?=\s?\{([^\n]*)')
_MODEL = re.compile(r'"model"\s?=\s?<?"([^"\n]{1,80})"')


def _counter(key: str) -> re.Pattern[str]:
    """Return a pattern of the whole quoted key, because some are prefixes of others, and of a
    complete number."""
    return re.compile(rf'"{re.escape(key)}"\s?=\s?(\d{{1,20}})(?=\s?[,}}])', re.ASCII)


_BUSY = _counter("Device Utilization %")
_MEMORY = _counter("In use system memory")
#: The largest plausible number: a negative one is printed as 2**64 minus its value.
_MAX_MEMORY = 2**46


def parse(text: str) -> dict[str, float]:
    """Parse `ioreg -c IOAccelerator`: `gpu_busy` and `gpu_memory_bytes`, as far as they are there.

    Activity is "Device Utilization %", the only figure that shows machine-learning load; memory is
    "In use system memory", because "Alloc system memory" is virtual. Of several GPUs the first with
    activity. Never raises.
    """
    gpus = [_figures(match[1]) for match in _STATISTICS.finditer(text)]
    return next((gpu for gpu in gpus if "gpu_busy" in gpu), gpus[0] if gpus else {})


def _figures(statistics: str) -> dict[str, float]:
    busy, memory = _BUSY.search(statistics), _MEMORY.search(statistics)
    figures: dict[str, float] = {}
    # Some releases print a little more than 100.
    if busy and int(busy[1]) <= 200:
        figures["gpu_busy"] = min(int(busy[1]) / 100, 1.0)
    if memory and int(memory[1]) <= _MAX_MEMORY:
        figures["gpu_memory_bytes"] = float(memory[1])
    return figures


#: The time of each process on the GPU.
_UNREAD = Unavailable("it is not read on macOS")


class IoregSource(GpuSource):
    """ioreg, which runs for each reading."""

    name = "ioreg"

    def __init__(self) -> None:
        self._gaps: dict[str, Unavailable] = {}

    def why_unavailable(self) -> Unavailable | None:
        """Other systems have no ioreg, and a virtual machine no GPU."""
        if not Path(COMMAND[0]).exists():
            return Unavailable("ioreg is a tool of macOS")
        text = self._run(COMMAND)
        if not text.strip():
            return Unavailable("macOS shows no GPU, as in a virtual machine")
        if parse(text):
            return None
        return Unavailable("ioreg prints no activity of this GPU")

    def read(self) -> Sequence[GpuReading]:
        """Return the present activity and memory."""
        text = self._run(COMMAND)
        figures = parse(text)
        if not figures:
            raise SensorError("ioreg no longer prints the activity of a GPU")
        self._gaps = {"gpu_process_busy": _UNREAD}
        if "gpu_busy" not in figures:
            why = 'ioreg prints no "Device Utilization %" for this GPU'
            self._gaps["gpu_busy"] = Unavailable(why)
        self.gpus = len(_STATISTICS.findall(text))
        model = _MODEL.search(text)
        return [
            GpuReading(
                figures,
                name=model[1] if model else "Apple GPU",
                total_bytes=psutil.virtual_memory().total,
                unified=True,
            )
        ]

    def gaps(self) -> Mapping[str, Unavailable]:
        return self._gaps

    def _run(self, command: tuple[str, ...]) -> str:
        result = run(command, _TIMEOUT_S)
        if result.failure:
            raise SensorError(f"ioreg: {result.failure}")
        return result.out


class AppleSource(GpuSource):
    """Figures of both tools; those of powermetrics, as long as it prints any, come first."""

    name = "ioreg"
    #: Its tools take some 15 ms of a core a call.
    period_s = 2.0

    def __init__(self, clock: Clock = SYSTEM, command: Sequence[str] = ()) -> None:
        """command: in place of powermetrics, for tests."""
        self._ioreg = IoregSource()
        self._powermetrics = Powermetrics(clock, command)
        self._gpu = GpuReading()

    def why_unavailable(self) -> Unavailable | None:
        """Start powermetrics where there is a GPU; it may be refused."""
        why = self._ioreg.why_unavailable()
        if why is None:
            self._powermetrics.start()
        return why

    def read(self) -> Sequence[GpuReading]:
        """Return ioreg's reading with the newest figures of powermetrics, which suffice where ioreg
        fails."""
        figures = self._powermetrics.read()
        if figures or self._powermetrics.ended:
            self.name = "powermetrics" if figures else "ioreg"
        try:
            self._gpu = self._ioreg.read()[0]
        except SensorError:
            if not self._gpu.name or "gpu_busy" not in figures:
                raise
            return [replace(self._gpu, figures=figures)]
        self.gpus = self._ioreg.gpus
        return [replace(self._gpu, figures={**self._gpu.figures, **figures})]

    def gaps(self) -> Mapping[str, Unavailable]:
        gaps = {**self._ioreg.gaps(), **self._powermetrics.gaps()}
        if self.name == "powermetrics":
            gaps.pop("gpu_busy", None)
        return gaps

    def close(self) -> None:
        self._powermetrics.close()

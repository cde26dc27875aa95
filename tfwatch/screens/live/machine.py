"""The machine: is the GPU used, are memory and a core left? What needs attention is on the
banner."""

from __future__ import annotations

from itertools import chain, repeat
from typing import TYPE_CHECKING, TypeAlias

from tfwatch.core import units
from tfwatch.core.clock import Slot, second_of
from tfwatch.core.events import GpuFound, SensorMissing
from tfwatch.judge.machine import missing_sensors
from tfwatch.runs.machine_info import memory_total
from tfwatch.screens.pane import FramedPane
from tfwatch.screens.text import QUIET_COLOUR, column, row, wrap_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from textual.content import Content

    from tfwatch.judge.machine import GpuFigures, MachineFigures
    from tfwatch.judge.view import RunView

_LABEL = 8
_GIBI = 2**30
_COPY = "copy to the GPU"
_NOTE = "? lists what is n/a, and why"


#: A label, and its figures.
Reading: TypeAlias = tuple[str, str]


class MachinePane(FramedPane):
    """Readings, the most important first; a figure that the machine does not have is absent."""

    TITLE = "machine"

    def news(self, view: RunView) -> object:
        """Return the second, as faster figures are unreadable."""
        second, has_sample = second_of(view.snapshot.now_s, Slot.MACHINE), view.snapshot.samples
        return second, view.is_over, len(has_sample) > 0

    def rows(self, width: int, height: int) -> Sequence[Content]:
        if self.view is None:
            return []
        return [line for one in readings(self.view) for line in _lines(one, width)][:height]

    def take_news(self, view: RunView) -> None:
        """Name a finished run's medians, which it shows as its last seconds are not typical."""
        super().take_news(view)
        title = "machine, medians of the run" if view.situation.ended else "machine"
        self.set_titles(title, _NOTE if missing(view) else "")


def _lines(reading: Reading, width: int) -> list[Content]:
    label, text = reading
    labels = chain([label], repeat(""))
    return [
        row((column(label, _LABEL), QUIET_COLOUR), words)
        for label, words in zip(labels, wrap_text(text, width - _LABEL), strict=False)
    ]


def readings(view: RunView) -> tuple[Reading, ...]:
    """Make the pane's rows."""
    machine = view.situation.machine
    if machine is None:
        return (("sensors", "no sample yet"),)
    torn = view.snapshot.torn
    what = "row or line" if torn == 1 else "rows or lines"
    unreadable = ("record", f"{units.count(torn)} {what} of this run cannot be read")
    rows = *_gpu(machine), _memory(view, machine), _cpu(view, machine)
    return (*rows, unreadable) if torn else rows


def _gpu(machine: MachineFigures) -> Iterator[Reading]:
    gpu = machine.gpu
    if gpu is None:
        return
    parts = [
        f"{units.percent(gpu.busy)} busy",
        "" if gpu.ours is None else f"ours {units.percent(gpu.ours)}",
        "" if gpu.others is None else f"others {units.percent(gpu.others)}",
        "" if gpu.power_w is None else units.watts(gpu.power_w),
    ]
    label = f"{len(machine.gpus)} GPUs" if len(machine.gpus) > 1 else "GPU"
    yield label, ", ".join(filter(None, parts))
    if text := _gpu_memory(gpu, machine):
        yield "GPU mem", text


def _gpu_memory(gpu: GpuFigures, machine: MachineFigures) -> str:
    """Return `31.0 of 80 GB`, of several GPUs the fullest; empty where the machine's memory is the
    GPU's, or unknown."""
    of_each = [(one.memory_bytes, one.total_bytes) for one in machine.gpus if one.memory_bytes]
    if of_each:
        used, total = max(of_each, key=lambda one: one[0] or 0.0)
        return f"fullest {_of(used, total)}"
    found = machine.found
    if gpu.memory_bytes is None or found is None or found.unified:
        return ""
    return _of(gpu.memory_bytes, found.memory_bytes)


def _of(used: float | None, total: float | None) -> str:
    """Return `9.8 of 16 GB`."""
    whole = units.number(None if total is None else total / _GIBI, 0)
    return f"{units.number(None if used is None else used / _GIBI)} of {whole} GB"


def _memory(view: RunView, machine: MachineFigures) -> Reading:
    total = memory_total(view.snapshot.manifest.machine)
    parts = [_of(machine.figures.get("memory_used_bytes"), total)]
    if machine.process_memory:
        parts.append(f"process {machine.process_memory.text}")
    return "memory", ", ".join(parts)


def _cpu(view: RunView, machine: MachineFigures) -> Reading:
    """Make the row of the cores; a container's limit is shown where there is one."""
    facts, now = view.snapshot.manifest.machine, machine.figures
    cores, allowed = facts.get("cores"), facts.get("cores_allowed")
    in_use = f"{units.number(now.get('cpu_cores'))}{f' of {cores}' if cores else ''} cores"
    ours = f"ours {units.number(now.get('process_cores'))}{f' of {allowed:g}' if allowed else ''}"
    return "CPU", f"{in_use}, {ours}"


def missing(view: RunView) -> list[SensorMissing]:
    """Return the missing sensors, each with its newest reason, and the copy to a GPU where it is
    not timed."""
    manifest = view.snapshot.manifest
    copy = SensorMissing(0, _COPY, manifest.copy_not_timed, "") if manifest.accelerated else None
    listed = missing_sensors(view.snapshot.events.of(GpuFound, SensorMissing))
    machine = view.situation.machine
    if machine and machine.heat is not None:
        listed = [event for event in listed if event.sensor != "heat"]  # the GPU's is known
    return [*listed, copy] if copy and copy.reason else listed

"""The machine pane: GPU, power, memory, heat and CPU, and the time lost to data wait."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.reactive import reactive

from tfwatch.core import units
from tfwatch.core.clock import Slot, second_of
from tfwatch.core.events import GpuFound, SensorMissing
from tfwatch.judge.findings.situation import data_wait_parts, reading_text
from tfwatch.judge.machine import HEAT, PRESSURE, GpuFigures, extremes_text, missing_sensors
from tfwatch.judge.machine_remark import is_gpu_unused
from tfwatch.runs.machine_info import memory_total
from tfwatch.screens.basics.pane import FramedPane
from tfwatch.screens.basics.text import column, plain, row, wrap_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from textual.content import Content

    from tfwatch.judge.machine import MachineFigures
    from tfwatch.judge.view import RunView

_LABEL = 8
_NARROWEST = 20

_COPY = "copy to the GPU"
_NOTE = "n lists what is n/a, and why"


@dataclass(frozen=True, slots=True)
class Reading:
    """A labelled row."""

    label: str
    #: The most important first: as many as fit in a row are shown; the first is wrapped.
    parts: tuple[str, ...]
    #: The row needs attention and is never dropped.
    alert: bool = False
    #: Where rows are few, the highest rank goes first.
    rank: int = 0

    @property
    def text(self) -> str:
        """All parts."""
        return ", ".join(self.parts)


class MachinePane(FramedPane, can_focus=True):
    """As many readings as fit. A figure that the machine does not have is absent; `n` lists it."""

    readings: reactive[tuple[Reading, ...]] = reactive((), repaint=False)

    watch_readings = FramedPane.repaint_rows

    _shown: tuple[object, ...] = ()

    def on_mount(self) -> None:
        self.set_titles("machine")

    def show(self, view: RunView) -> None:
        """Show the machine of a view, once a second: faster figures are unreadable."""
        second, has_sample = (
            second_of(view.snapshot.now_s, Slot.MACHINE),
            len(view.snapshot.samples) > 0,
        )
        key = second, view.is_over, has_sample, view.situation.searched
        if key != self._shown:
            self._shown = key
            self.set_titles(title(view), _NOTE if missing(view) else "")
            self.readings = readings(view)

    def rows(self, width: int, height: int) -> Sequence[Content]:
        room = max(_NARROWEST, width - _LABEL)
        degree = "°" if self.glyphs.unicode else ""
        lines = [(reading, _lines(reading, room, degree)) for reading in self.readings]
        while len(lines) > 1 and sum(len(each) for _, each in lines) > height:
            dropped = max(
                range(len(lines)), key=lambda at: (not lines[at][0].alert, lines[at][0].rank, at)
            )
            del lines[dropped]
        return [line for _, each in lines for line in each]


def _lines(reading: Reading, room: int, degree: str) -> list[Content]:
    parts = [plain(part).replace("°", degree) for part in reading.parts]
    while len(parts) > 1 and cell_len(", ".join(parts)) > room:
        parts.pop()
    style = "$text-warning bold" if reading.alert else ""
    first, *more = wrap_text(", ".join(parts), room) or [""]
    head = row((column(reading.label, _LABEL), "$foreground 65%"), (first, style))
    return [head, *(row(" " * _LABEL, (words, style)) for words in more)]


_MEBI, _GIBI = 2**20, 2**30
_MUCH_SWAP = 2**30
#: The smallest share of the time that is shown.
_MIN_SHARE = 0.01


def readings(view: RunView) -> tuple[Reading, ...]:
    """Make the pane's rows, in display order."""
    machine = view.situation.figures.machine
    if machine is None:
        return Reading("sensors", ("no sample yet",)), _lost(view)
    rows = (
        *_gpu(view, machine),
        *_power(machine),
        _memory(view, machine),
        *_swap(machine),
        *_heat(machine),
        _cpu(view, machine),
        _process(view, machine),
        _lost(view),
        *_torn(view),
        *_own(machine),
    )
    is_over = view.situation.ended is not None
    return tuple(replace(row, alert=False) for row in rows) if is_over else rows


def title(view: RunView) -> str:
    """Return the pane's title; a finished run shows medians, for its last seconds are not
    typical."""
    return "machine, medians of the run" if view.situation.ended else "machine"


def _known(value: float | None, text: Callable[[float], str]) -> list[str]:
    """Return a figure in words, as the only one of a list; nothing where it is unknown."""
    return [] if value is None else [text(value)]


def _gpu(view: RunView, machine: MachineFigures) -> Iterable[Reading]:
    gpu = machine.gpu
    if gpu is None:
        return
    shares = (
        units.percent(gpu.busy),
        *_known(gpu.ours, lambda ours: f"ours {units.percent(ours)}"),
        *_known(gpu.others, lambda others: f"others {units.percent(others)}"),
    )
    is_shared = view.situation.manifest.accelerated and gpu.is_shared
    if is_gpu_unused(view.situation, machine):
        yield Reading("GPU", ("unused: see tfwatch doctor",), alert=True)
        yield Reading("", shares, rank=4)
    elif len(machine.gpus) > 1:
        yield from _gpus(machine.gpus, shares, is_shared)
        return
    else:
        yield Reading("GPU", shares, is_shared)
    if gpu.memory_bytes is not None and machine.found and not machine.found.unified:
        of = _whole(machine.found.memory_bytes)
        yield Reading("GPU mem", (f"{gpu.memory_bytes / _GIBI:.1f} of {of} GB",), rank=2)


def _gpus(gpus: Sequence[GpuFigures], shares: tuple[str, ...], alert: bool) -> Iterable[Reading]:
    """Make the rows of a strategy's GPUs: the busiest and the idlest, and the least and the most
    memory in use."""
    yield Reading(f"{len(gpus)} GPUs", (*filter(None, [extremes_text(gpus)]), *shares), alert)
    known = sorted((gpu.memory_bytes, gpu.device) for gpu in gpus if gpu.memory_bytes is not None)
    if known:
        ends = [f"{device} {used / _GIBI:.1f}" for used, device in (known[0], known[-1])]
        totals = [gpu.total_bytes for gpu in gpus if gpu.total_bytes is not None]
        of = f" of {_whole(min(totals))}" if totals else ""
        yield Reading("GPU mem", (f"{' to '.join(ends)}{of} GB",), rank=2)


def _whole(size: float | None) -> str:
    return units.number(None if size is None else size / _GIBI, 0)


def _power(machine: MachineFigures) -> Iterable[Reading]:
    gpu = machine.gpu or GpuFigures()
    parts = (
        *_known(gpu.power_w, lambda power: f"GPU {units.watts(power)}"),
        *_known(gpu.freq_mhz, lambda freq: f"{freq / 1e3:.2f} GHz"),
        *_known(gpu.temperature_c, lambda degrees: f"{degrees:.0f} °C"),
    )
    if parts:
        yield Reading("power", parts, rank=3)


def _memory(view: RunView, machine: MachineFigures) -> Reading:
    figures = machine.figures
    used, available = figures.get("memory_used_bytes"), figures.get("memory_available_bytes")
    total = memory_total(view.snapshot.manifest.machine)
    unified = machine.found is not None and machine.found.unified and machine.gpu is not None
    gpu_bytes = machine.gpu.memory_bytes if machine.gpu and unified else None
    parts = (
        f"{units.number(None if used is None else used / _GIBI)} of {_whole(total)} GB",
        *([] if used is None else _growing(machine)),
        *_known(gpu_bytes, lambda size: f"GPU {size / _GIBI:.1f}"),
    )
    tight = available is not None and available < 0.1 * total
    is_growing = machine.growth and machine.growth.is_running_out(view.situation.figures.left_s)
    alert = tight or bool(is_growing)
    return Reading("memory", parts, alert)


def _growing(machine: MachineFigures) -> list[str]:
    if machine.growth is None:
        return []
    if not machine.growth.bytes_s:
        return ["steady"]
    grows = f"{machine.growth.bytes_h / _GIBI:+.1f} GB/h"
    return [*filter(None, (grows, machine.growth.left_text))]


def _swap(machine: MachineFigures) -> Iterable[Reading]:
    used, pressure, stalled = (
        machine.figures.get("swap_used_bytes"),
        machine.pressure,
        machine.figures.get("memory_stalled") or 0.0,
    )
    parts = (
        *_known(used, units.gigabytes),
        *_known(machine.swap_bytes_s, lambda rate: f"{rate / _MEBI:.0f} MB/s"),
        *([] if pressure is None else [f"pressure {PRESSURE[pressure]}"]),
        *([f"processes wait {units.percent(stalled)} of the time"] * (stalled >= _MIN_SHARE)),
    )
    is_much = used is not None and used > _MUCH_SWAP
    alert = bool(pressure) or machine.is_swapping or is_much
    if parts:
        yield Reading("swap", parts, alert, rank=0 if alert else 5)


def _heat(machine: MachineFigures) -> Iterable[Reading]:
    if machine.heat is None and machine.on_mains is None:
        return
    is_hot = machine.is_hot
    parts = (
        units.MISSING if machine.heat is None else HEAT[machine.heat],
        *(
            []
            if machine.on_mains is None
            else ["on AC power" if machine.on_mains else "on battery"]
        ),
        *(["clocks reduced"] * is_hot),
    )
    yield Reading("heat", parts, is_hot or machine.on_mains is False, rank=3)


def _cpu(view: RunView, machine: MachineFigures) -> Reading:
    figures, cores = machine.figures, view.snapshot.manifest.machine.get("cores")
    in_use = f"{units.number(figures.get('cpu_cores'))}{f' of {cores}' if cores else ''} cores"
    return Reading("CPU", (in_use, f"busiest {units.percent(figures.get('core_max'))}"), rank=3)


def _process(view: RunView, machine: MachineFigures) -> Reading:
    """Make the row of the training process; a container's core limit is shown where there is
    one."""
    cores, size = machine.figures.get("process_cores"), machine.figures.get("process_bytes")
    allowed = view.snapshot.manifest.machine.get("cores_allowed")
    of = f" of its {allowed:g}" if allowed else ""
    memory = machine.process_memory.text if machine.process_memory else units.gigabytes(size)
    return Reading("process", (f"{units.number(cores)}{of} cores", memory), rank=6)


def _own(machine: MachineFigures) -> Iterable[Reading]:
    """Make the row with the cost of the recording."""
    for own in _known(
        machine.figures.get("own_cores"), lambda cores: f"{cores * 100:.1f} % of a core"
    ):
        yield Reading("tfwatch", (own,), rank=8)


def _torn(view: RunView) -> Iterable[Reading]:
    torn = view.snapshot.torn
    what = "row or line" if torn == 1 else "rows or lines"
    text = f"{units.count(torn)} {what} of this run cannot be read"
    return [Reading("record", (text,), alert=True)] if torn else []


def _lost(view: RunView) -> Reading:
    now, stalls = view.situation, len(view.stalls)
    between_s = now.figures.between_s
    wait, *without = data_wait_parts(now.figures.waited_s, now.now_s)
    parts = [wait]
    if between_s >= 0.01 * now.now_s > 0:
        share = units.percent(between_s / now.now_s)
        parts.append(f"between epochs {units.seconds(between_s)} ({share})")
    parts += [units.counted(stalls, "stall")] * bool(stalls)
    parts += [] if now.searched is None else [reading_text(now.searched)]
    return Reading("cost", (*parts, *without), rank=2)


def missing(view: RunView) -> list[SensorMissing]:
    """Return the missing sensors, each with its newest reason, and the copy to a GPU where it is
    not timed."""
    manifest = view.snapshot.manifest
    copy = SensorMissing(0, _COPY, manifest.copy_not_timed, "") if manifest.accelerated else None
    listed = missing_sensors(view.snapshot.events.of(GpuFound, SensorMissing))
    machine = view.situation.figures.machine
    if machine and machine.heat is not None:
        listed = [event for event in listed if event.sensor != "heat"]  # the GPU's is known
    return [*listed, copy] if copy and copy.reason else listed

"""The machine pane: GPU, power, memory, heat and CPU, and the time lost to data wait."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.reactive import reactive

from tfwatch.core import units
from tfwatch.core.clock import Slot, second_of
from tfwatch.core.events import GpuFound, SensorMissing
from tfwatch.judge.findings import machine_remark, starving_cost
from tfwatch.judge.findings.gpus import extremes_text
from tfwatch.judge.findings.machine import HEAT, PRESSURE, missing_sensors
from tfwatch.judge.findings.situation import reading_text
from tfwatch.runs.machine_info import memory_total
from tfwatch.screens.basics.pane import FramedPane
from tfwatch.screens.basics.text import column, plain, row, wrap_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.content import Content

    from tfwatch.judge.findings.gpus import GpuLane
    from tfwatch.judge.findings.machine import MachineFigures
    from tfwatch.judge.view import RunView

_LABEL = 8
_NARROWEST = 20

_COPY = "copy to the GPU"
_NOTE = "n lists what is n/a, and why"


@dataclass(frozen=True, slots=True)
class Reading:
    """A labelled row."""

    label: str
    #: Longest first: the first that fits is shown, the last is wrapped where none fits.
    texts: tuple[str, ...]
    #: The row needs attention and is never dropped.
    alert: bool = False
    #: Where rows are few, the highest rank goes first.
    rank: int = 0

    def calm(self) -> Reading:
        """Return the same row without alert."""
        return replace(self, alert=False)


class MachinePane(FramedPane, can_focus=True):
    """As many readings as fit. A figure that the machine does not have is absent; `n` lists it."""

    readings: reactive[tuple[Reading, ...]] = reactive((), repaint=False)

    watch_readings = FramedPane.repaint_rows

    _shown: tuple[object, ...] = ()

    def on_mount(self) -> None:
        self.set_titles("machine")

    def show(self, view: RunView) -> None:
        """Show the machine of a view, once a second: faster figures are unreadable."""
        energy = view.situation.figures.energy if view.is_over else None
        second, has_sample = (
            second_of(view.snapshot.now_s, Slot.MACHINE),
            len(view.snapshot.samples) > 0,
        )
        key = second, view.is_over, energy, has_sample, view.situation.searched
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
    texts = [plain(text).replace("°", degree) for text in reading.texts]
    fitting = next((text for text in texts if cell_len(text) <= room), None)
    words = [fitting] if fitting is not None else wrap_text(texts[-1], room) or [""]
    style = "$text-warning bold" if reading.alert else ""
    first = row((column(reading.label, _LABEL), "$foreground 65%"), (words[0], style))
    return [first, *(row(" " * _LABEL, (more, style)) for more in words[1:])]


_MEBI, _GIBI = 2**20, 2**30
_MUCH_SWAP = 2**30
#: The smallest share of the time that is shown.
_MIN_SHARE = 0.01


def readings(view: RunView) -> tuple[Reading, ...]:
    """Make the pane's rows, in display order."""
    now, machine = view.situation, view.situation.figures.machine
    if machine is None:
        return Reading("sensors", ("no sample yet",)), _lost(view)
    rows = (
        *_gpu(view, machine),
        *_power(machine),
        *_energy(view),
        _memory(view, machine),
        *_swap(machine),
        *_heat(machine),
        _cpu(view, machine),
        _process(view, machine),
        *_disk(machine),
        _lost(view),
        *_torn(view),
        _sensors(machine),
    )
    return rows if now.ended is None else tuple(row.calm() for row in rows)


def title(view: RunView) -> str:
    """Return the pane's title; a finished run shows medians, for its last seconds are not
    typical."""
    return "machine, medians of the run" if view.situation.ended else "machine"


def _gpu(view: RunView, machine: MachineFigures) -> Iterable[Reading]:
    gpu = machine.gpu
    if gpu is None:
        return []
    shares = [] if gpu.ours is None else [f"ours {units.percent(gpu.ours)}"]
    shares += [] if gpu.others is None else [f"others {units.percent(gpu.others)}"]
    short = ", ".join([units.percent(gpu.busy), *shares])
    unused = machine_remark.is_gpu_unused(view.situation, machine)
    alert = unused or (
        view.situation.manifest.accelerated and machine_remark.is_gpu_shared(machine)
    )
    texts = (
        ("TensorFlow does not use it: tfwatch doctor", "unused: see tfwatch doctor")
        if unused
        else (short,)
    )
    if len(machine.gpus) > 1 and not unused:
        return [*_gpus(machine.gpus, short, alert)]
    rows = [Reading("GPU", texts, alert)]
    rows += [Reading("", (short,), rank=4)] if unused else []
    return [*rows, *_gpu_memory(machine)]


def _gpus(gpus: Sequence[GpuLane], short: str, alert: bool) -> Iterable[Reading]:
    """Make the rows of a strategy's GPUs: the busiest and the idlest, and the least and the most
    memory in use."""
    named = extremes_text(gpus)
    texts = (
        [f"{len(gpus)}: {short}; {named}", f"{len(gpus)}: {named}", named]
        if named
        else [f"{len(gpus)}: {short}"]
    )
    yield Reading("GPUs", tuple(texts), alert)
    known = sorted((gpu.memory_bytes, gpu.device) for gpu in gpus if gpu.memory_bytes is not None)
    if known:
        ends = [f"{device} {used / _GIBI:.1f}" for used, device in (known[0], known[-1])]
        totals = [gpu.total_bytes for gpu in gpus if gpu.total_bytes is not None]
        of = f" of {_whole(min(totals))}" if totals else ""
        yield Reading("GPU mem", (f"{' to '.join(ends)}{of} GB",), rank=2)


def _gpu_memory(machine: MachineFigures) -> Iterable[Reading]:
    """Make the row of a GPU with memory of its own; unified memory is part of the memory row."""
    used, gpu = machine.gpu.memory_bytes if machine.gpu else None, machine.found
    if used is None or gpu is None or gpu.unified:
        return []
    return [Reading("GPU mem", (f"{used / _GIBI:.1f} of {_whole(gpu.memory_bytes)} GB",), rank=2)]


def _whole(size: float | None) -> str:
    return units.number(None if size is None else size / _GIBI, 0)


def _power(machine: MachineFigures) -> Iterable[Reading]:
    gpu, cpu_w = machine.gpu, machine.cpu_power_w
    parts = [] if gpu is None or gpu.power_w is None else [f"GPU {units.watts(gpu.power_w)}"]
    parts += [] if cpu_w is None else [f"CPU {units.watts(cpu_w)}"]
    parts += [] if gpu is None or gpu.freq_mhz is None else [f"{gpu.freq_mhz / 1e3:.2f} GHz"]
    parts += [] if gpu is None or gpu.temperature_c is None else [f"{gpu.temperature_c:.0f} °C"]
    return (
        [
            Reading(
                "power", tuple(", ".join(parts[:end]) for end in range(len(parts), 0, -1)), rank=3
            )
        ]
        if parts
        else []
    )


def _energy(view: RunView) -> Iterable[Reading]:
    spent = view.situation.figures.energy
    if spent is None:
        return []
    share = units.percent(spent.starving_j / spent.joules if spent.joules > 0 else None)
    starving = f"{units.joules(spent.starving_j)} starving ({share})"
    step = [] if spent.per_step_j is None else [f"{units.joules(spent.per_step_j)}/step"]
    total = f"{units.joules(spent.joules)} total"
    return [
        Reading(
            "energy",
            (", ".join([*step, total, starving]), ", ".join([*step, starving]), starving),
            rank=2,
        )
    ]


def _memory(view: RunView, machine: MachineFigures) -> Reading:
    row = machine.row
    used, available = row.get("memory_used_bytes"), row.get("memory_available_bytes")
    total = memory_total(view.snapshot.manifest.machine)
    short = (
        f"{units.number(used / _GIBI) if used is not None else units.MISSING} of {_whole(total)}"
    )
    unified = machine.found is not None and machine.found.unified and machine.gpu is not None
    gpu_bytes = machine.gpu.memory_bytes if machine.gpu and unified else None
    part = [] if gpu_bytes is None else [f"GPU {gpu_bytes / _GIBI:.1f}"]
    grows = [] if used is None else _growing(machine)
    of = f"{short} GB"
    texts = [
        [of, *part, *grows],
        [of, *grows] if len(grows) > 1 else [of, *part],
        [short, *grows],
        [of],
    ]
    tight = available is not None and available < 0.1 * total
    alert = tight or machine_remark.is_running_out(machine, view.situation.figures.left_s)
    return Reading("memory", tuple(", ".join(parts) for parts in texts), alert)


def _growing(machine: MachineFigures) -> list[str]:
    if machine.growth is None:
        return []
    if not machine.growth.bytes_s:
        return ["steady"]
    grows = f"{machine.growth.bytes_h / _GIBI:+.1f} GB/h"
    return [grows, swaps] if (swaps := machine_remark.swap_time_text(machine)) else [grows]


def _swap(machine: MachineFigures) -> Iterable[Reading]:
    used = machine.row.get("swap_used_bytes")
    parts = [] if used is None else [units.gigabytes(used)]
    parts += [] if machine.swap_bytes_s is None else [f"{machine.swap_bytes_s / _MEBI:.0f} MB/s"]
    parts += [] if machine.pressure is None else [f"pressure {PRESSURE[machine.pressure]}"]
    stalled = machine.stalled or 0.0
    parts += (
        [f"processes wait {units.percent(stalled)} of the time"] if stalled >= _MIN_SHARE else []
    )
    pressed = machine.pressure is not None and machine.pressure > 0
    alert = (
        pressed or machine_remark.is_swapping(machine) or (used is not None and used > _MUCH_SWAP)
    )
    return (
        [Reading("swap", (", ".join(parts), ", ".join(parts[:2])), alert, rank=0 if alert else 5)]
        if parts
        else []
    )


def _heat(machine: MachineFigures) -> Iterable[Reading]:
    source = {True: "on AC power", False: "on battery"}
    if machine.heat is None and machine.on_mains is None:
        return []
    words = [units.MISSING if machine.heat is None else HEAT[machine.heat]]
    words += [] if machine.on_mains is None else [source[machine.on_mains]]
    alert = machine_remark.is_hot(machine) or machine.on_mains is False
    lowered = [", ".join([*words, "clocks reduced"])] if machine_remark.is_hot(machine) else []
    return [Reading("heat", (*lowered, ", ".join(words)), alert, rank=3)]


def _cpu(view: RunView, machine: MachineFigures) -> Reading:
    row, cores = machine.row, view.snapshot.manifest.machine.get("cores")
    used = f"{units.number(row.get('cpu_cores'))}{f' of {cores}' if cores else ''} cores"
    busiest = f"busiest {units.percent(row.get('core_max'))}"
    return Reading("CPU", (", ".join([used, busiest]), used), rank=3)


def _process(view: RunView, machine: MachineFigures) -> Reading:
    """Make the row of the training process; a container's core limit is shown where there is
    one."""
    cores, size = machine.row.get("process_cores"), machine.row.get("process_bytes")
    allowed = view.snapshot.manifest.machine.get("cores_allowed")
    of = f" of its {allowed:g}" if allowed else ""
    memory = machine.process_memory.text if machine.process_memory else units.gigabytes(size)
    return Reading("process", (f"{units.number(cores)}{of} cores, {memory}",), rank=6)


def _disk(machine: MachineFigures) -> Iterable[Reading]:
    read = machine.row.get("disk_read_bytes_s")
    return [] if read is None else [Reading("disk", (f"{read / _MEBI:.1f} MB/s read",), rank=7)]


def _sensors(machine: MachineFigures) -> Reading:
    """Make the row with the cost of the sampling and its delay."""
    own, late_ms = machine.row.get("own_cores"), machine.row.get("late_ms")
    gpu_ms = machine.gpu.late_ms if machine.gpu else None
    late = [] if late_ms is None else [f"late {units.milliseconds(late_ms)}"]
    late += [] if gpu_ms is None else [f"GPU {units.milliseconds(gpu_ms)}"]
    cost = units.MISSING if own is None else f"{own * 100:.1f} % of a core"
    return Reading("sensors", (", ".join([cost, *late]), cost), rank=8)


def _torn(view: RunView) -> Iterable[Reading]:
    torn = view.snapshot.torn
    what = "row or line" if torn == 1 else "rows or lines"
    text = f"{units.count(torn)} {what} of this run cannot be read"
    return [Reading("record", (text,), alert=True)] if torn else []


def _lost(view: RunView) -> Reading:
    now = view.situation
    so_far = "" if view.is_over else " so far"
    waiting = f"data wait {_share_of_run(now.figures.waited_s, now.now_s, so_far)}"
    parts = [waiting]
    if now.figures.between_s >= 0.01 * now.now_s > 0:
        parts.append(f"between epochs {_share_of_run(now.figures.between_s, now.now_s)}")
    if view.stalls:
        parts.append(f"{len(view.stalls)} stall{'' if len(view.stalls) == 1 else 's'}")
    if now.searched is not None:
        parts.append(reading_text(now.searched))
    instead = starving_cost.cost_text(now.figures.lost) if now.figures.lost else ""
    texts = (f"{', '.join(parts)}; {instead}",) if instead else ()
    return Reading("cost", (*texts, ", ".join(parts), waiting), rank=2)


def _share_of_run(seconds: float, run_s: float, so_far: str = "") -> str:
    return (
        f"{units.seconds(seconds)}{so_far}"
        f" ({units.percent(seconds / run_s if run_s > 0 else None)})"
    )


def missing(view: RunView) -> list[SensorMissing]:
    """Return the missing sensors, each with its newest reason, and the copy to a GPU where it is
    not timed."""
    manifest = view.snapshot.manifest
    copy = SensorMissing(0, _COPY, manifest.copy_not_timed, "") if manifest.accelerated else None
    listed = missing_sensors(view.snapshot.events.of(GpuFound, SensorMissing))
    machine = view.situation.figures.machine
    if machine and machine.heat is not None:
        listed = [event for event in listed if event.sensor != "heat"]  # powermetrics reports it
    return [*listed, copy] if copy and copy.reason else listed

"""The remark on the machine beside the finding: the most urgent problem, in one line."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.machine import HEAT, PRESSURE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tfwatch.judge.findings.situation import Situation
    from tfwatch.judge.machine import MachineFigures

#: Other programs' share of the GPU that is reported: idle desktops read 12 to 18 % (window
#: compositing).
OTHERS_FROM = 0.20
#: Swap traffic that means too little memory, bytes per second: half of what `sensors.pressure`
#: calls a pause.
SWAPPING_BYTES_S = 16 * 2**20
#: The least elements in a buffer to estimate an element's size; the advised buffer takes this share
#: of free memory.
_SEEN, _HALF = 1, 0.5
#: The level `moderate`, from which on clocks are lowered.
_HOT = 2
#: Memory that lasts longer than this is no problem.
_SOON_S = 12 * 3600.0


def remark(now: Situation) -> str:
    """Return the most urgent problem; empty where there is none, or the run is not running."""
    if now.figures.machine is None or now.life != "running" or now.ended is not None:
        return ""
    return next((text for check in _CHECKS if (text := check(now, now.figures.machine))), "")


def is_gpu_shared(machine: MachineFigures) -> bool:
    """Return True if other programs use enough of the GPU to slow the training."""
    others = machine.gpu.others if machine.gpu else None
    return others is not None and others > OTHERS_FROM


def is_swapping(machine: MachineFigures) -> bool:
    """Return True if memory is swapped to and from the disk."""
    return machine.swap_bytes_s is not None and machine.swap_bytes_s >= SWAPPING_BYTES_S


def is_hot(machine: MachineFigures) -> bool:
    """Return True if heat lowers clocks."""
    return machine.heat is not None and machine.heat >= _HOT


def is_running_out(machine: MachineFigures, left_s: float | None) -> bool:
    """Return True if memory runs out soon, and before the end of a run with `left_s` to go."""
    out_s = machine.growth.left_s if machine.growth else None
    return out_s is not None and out_s < min(_SOON_S, left_s if left_s is not None else _SOON_S)


def is_gpu_unused(now: Situation, machine: MachineFigures) -> bool:
    """Return True if there is a GPU that TensorFlow does not use, and the user did not choose the
    CPU."""
    return (
        machine.found is not None
        and not now.manifest.accelerated
        and now.manifest.settings.get("device") != "cpu"
        and bool(now.steps_total)
    )


def swap_time_text(machine: MachineFigures) -> str:
    """Return `swaps in 4 h`; empty where memory does not run out."""
    out_s = machine.growth.left_s if machine.growth else None
    if out_s is None:
        return ""
    if out_s < 90 * 60:
        return f"swaps in {max(1, round(out_s / 60))} min"
    hours = round(out_s / 3600)
    return f"swaps in {hours} h" if hours < 48 else ""


def _swapping(now: Situation, machine: MachineFigures) -> str:
    if is_swapping(machine):
        return (
            f"swapping {(machine.swap_bytes_s or 0) / 2**20:.0f} MB/s: use smaller batches, buffers"
            " or caches"
        )
    if machine.pressure is not None and machine.pressure >= PRESSURE.index("critical"):
        return "memory is nearly full: use smaller batches, buffers or caches"
    return ""


def _oversized_buffer(now: Situation, machine: MachineFigures) -> str:
    """Return the buffer that needs more than the free memory once it is full, by the size of its
    elements so far."""
    available = now.memory.available if now.memory else math.nan
    for name, size, held, each in _buffers(now):
        more = (size - held) * each
        if more > available and held >= _SEEN:
            fits = int((held * each + _HALF * available) / each)
            needs = (
                f"{name} needs {units.memory(more)} more once it is full, {units.memory(available)}"
                " are free"
            )
            names = ", or shuffle file names" if "shuffle" in name else ""
            return f"{needs}: use a buffer of {units.count(max(fits, 1))}{names}"
    return ""


def _buffers(now: Situation) -> Iterable[tuple[str, float, float, float]]:
    """Yield name, size, number of elements and bytes per element of each buffer whose bytes can be
    read.

    tf.data's model has the size of a prefetch only; the size of a shuffle is in the log while it
    fills.
    """
    for stage in now.setting.stages.stages if now.setting.stages else ():
        filling = now.shuffle[1] if now.shuffle and stage.kind.startswith("Shuffle") else math.nan
        size = stage.buffer_size if stage.buffer_size > 0 else filling
        if size > 0 and stage.buffered > 0 and stage.buffered_bytes > 0:
            yield stage.name, size, stage.buffered, stage.buffered_bytes / stage.buffered


def _hot(now: Situation, machine: MachineFigures) -> str:
    return (
        f"heat is {HEAT[machine.heat]}: clocks are lowered"
        if machine.heat and is_hot(machine)
        else ""
    )


def _others(now: Situation, machine: MachineFigures) -> str:
    if machine.gpu is None or not now.manifest.accelerated or not is_gpu_shared(machine):
        return ""
    return f"other programs use {units.percent(machine.gpu.others)} of the GPU"


def _runs_out(now: Situation, machine: MachineFigures) -> str:
    if machine.growth is None or not is_running_out(machine, now.figures.left_s):
        return ""
    grows = f"memory grows {units.number(machine.growth.bytes_h / 2**30)} GB/h"
    return (
        f"{grows}:"
        f" {swap_time_text(machine)}{', before the end' if now.figures.left_s is not None else ''}"
    )


def _battery(now: Situation, machine: MachineFigures) -> str:
    return "on battery: clocks may be lowered" if machine.on_mains is False else ""


def _unused(now: Situation, machine: MachineFigures) -> str:
    return (
        "TensorFlow does not use the GPU; tfwatch doctor shows why"
        if is_gpu_unused(now, machine)
        else ""
    )


_CHECKS: tuple[Callable[[Situation, MachineFigures], str], ...] = (
    _swapping,
    _oversized_buffer,
    _hot,
    _others,
    _runs_out,
    _unused,
    _battery,
)

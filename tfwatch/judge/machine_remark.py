"""The remark on the machine beside the finding: the most urgent problem, in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.machine import HEAT, PRESSURE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfwatch.judge.findings.situation import Situation
    from tfwatch.judge.machine import MachineFigures


def remark(now: Situation) -> str:
    """Return the most urgent problem; empty where there is none, or the run is not running."""
    machine = now.machine
    if machine is None or now.life != "running" or now.ended is not None:
        return ""
    return next(_problems(now, machine), "")


def is_gpu_unused(now: Situation, machine: MachineFigures) -> bool:
    """Return True if there is a GPU that TensorFlow does not use."""
    return machine.found is not None and not now.manifest.accelerated and bool(now.steps_total)


def _problems(now: Situation, machine: MachineFigures) -> Iterator[str]:
    """Yield the problems, the most urgent first."""
    smaller = "use smaller batches, buffers or caches"
    if machine.is_swapping:
        yield f"swapping {(machine.swap_bytes_s or 0) / 2**20:.0f} MB/s: {smaller}"
    if machine.pressure == len(PRESSURE) - 1:
        yield f"memory is nearly full: {smaller}"
    if machine.is_hot:
        yield f"heat is {HEAT[machine.heat or 0]}: clocks are lowered"
    if machine.gpu and machine.gpu.is_shared and now.manifest.accelerated:
        yield f"other programs use {units.percent(machine.gpu.others)} of the GPU"
    left_s = now.left_s
    if machine.growth and machine.growth.is_running_out(left_s):
        grows = f"memory grows {units.number(machine.growth.bytes_h / 2**30)} GB/h"
        before = "" if left_s is None else ", before the end"
        yield f"{grows}: {machine.growth.left_text}{before}"
    if is_gpu_unused(now, machine):
        yield "TensorFlow does not use the GPU; tfwatch doctor shows why"
    if machine.on_mains is False:
        yield "on battery: clocks may be lowered"

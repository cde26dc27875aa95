"""Whether what was ordered fits into memory, as far as that can be told before it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.runs.container import free_bytes

if TYPE_CHECKING:
    from tfwatch.doctor.glance import GpuHere


def too_much(needed_bytes: int | None, what: str, device: str, gpu: GpuHere, free: int | None = None) -> str:
    """A sentence where `what` does not fit into the free bytes (now, unless given); empty where it does.

    device: that was ordered, `auto`, `cpu` or `gpu`. What a GPU computes lies in its own memory, but for Apple's, and
    nobody knows before TensorFlow has begun whether it will.
    """
    free = free_bytes() if free is None else free
    if needed_bytes is None or needed_bytes <= free:
        return ""
    words = f"{what} needs about {units.gigabytes(needed_bytes)} of memory and {units.gigabytes(free)} are free: "
    if device == "cpu" or gpu.missing or gpu.metal:
        return f"{words}it may swap, or the system may end it"
    return f"{words}where no GPU holds the model and what it computes, it may swap, or the system may end it"

"""What TensorFlow reports: the device it computes on, and how many functions it has traced.

Which device TensorFlow computes on.

What TensorFlow has traced so far.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Device:
    """`name` as a person says it; `accelerated`: it is a GPU, not the CPU itself."""

    name: str
    accelerated: bool


def find_device() -> Device:
    """The device that Keras places a model on by default: the first GPU that TensorFlow may use, else the CPU."""
    import tensorflow as tf

    gpus = tf.config.get_visible_devices("GPU")
    if not gpus:
        return host_device()
    details = tf.config.experimental.get_device_details(gpus[0])
    name = str(details.get("device_name") or "")
    # The Metal plug-in calls every GPU METAL; the chip's name says more.
    return Device(f"GPU:0 {_cpu_name() if name in ('', 'METAL') else name}", accelerated=True)


def host_device() -> Device:
    """The CPU."""
    return Device(f"CPU {_cpu_name()}", accelerated=False)


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def find_trace_count(note: Callable[[str], None]) -> Callable[[], int] | None:
    """Microseconds that TensorFlow has traced functions for, in all; None, and a note, where it has no such count."""
    try:
        from tensorflow.python.eager.polymorphic_function import tracing_compilation

        cell = tracing_compilation._graph_building_time_counter.get_cell()
        int(cell.value())
    except (ImportError, AttributeError, TypeError, ValueError) as error:  # no public name: it may change
        note(f"steps that trace anew are not marked: TensorFlow's count of traces cannot be read ({error})")
        return None
    return cell.value  # type: ignore[no-any-return]

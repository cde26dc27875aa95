"""Facts from TensorFlow: the device that it computes on, and the time that it has spent tracing
functions."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tfwatch.core.knobs import NotTimed

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Device:
    """A device.

    name: for people, e.g. `GPU:0 NVIDIA H100`. accelerated: a GPU, not the CPU. has_own_memory:
    batches are copied to it; the GPU of a Mac shares the CPU's memory.
    """

    name: str
    accelerated: bool
    has_own_memory: bool = False


def find_device() -> Device:
    """Return the device that Keras places a model on by default: the first visible GPU, else the
    CPU."""
    import tensorflow as tf

    gpus = tf.config.get_visible_devices("GPU")
    if not gpus:
        return host_device()
    details = tf.config.experimental.get_device_details(gpus[0])
    name = str(details.get("device_name") or "")
    # The Metal plug-in names every GPU METAL; the chip's name is more specific.
    shown = f"GPU:0 {_cpu_name() if name in ('', 'METAL') else name}"
    return Device(shown, accelerated=True, has_own_memory=platform.system() != "Darwin")


def host_device() -> Device:
    """Return the CPU as a device."""
    return Device(f"CPU {_cpu_name()}", accelerated=False)


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def why_loop_copies_untimed(device: Device) -> str:
    """Return why the copies of a loop of the script's own to its device are not timed."""
    if not device.accelerated:
        return NotTimed.CPU.value
    return NotTimed.OWN_LOOP.value if device.has_own_memory else NotTimed.UNIFIED.value


def find_trace_count(note: Callable[[str], None]) -> Callable[[], int] | None:
    """Return a function that gives the total microseconds of tracing; None, with a note, if
    TensorFlow has none."""
    try:
        from tensorflow.python.eager.polymorphic_function import tracing_compilation

        cell = tracing_compilation._graph_building_time_counter.get_cell()
        int(cell.value())
    except (
        ImportError,
        AttributeError,
        TypeError,
        ValueError,
    ) as error:  # a private name, which may change
        note(
            f"steps that retrace are not marked: TensorFlow's tracing time cannot be read ({error})"
        )
        return None
    return cell.value  # type: ignore[no-any-return]

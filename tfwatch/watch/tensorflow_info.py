"""Facts from TensorFlow and Keras: the devices that TensorFlow computes on, one or those of a
distribution strategy, the time that it has spent tracing functions, and the version of Keras."""

from __future__ import annotations

import ctypes
import platform
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfwatch.core.errors import fails_open
from tfwatch.core.knobs import NotTimed
from tfwatch.core.versions import NEWER_KERAS, OLDEST_KERAS, is_older

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.runs.writer import RunWriter

#: The versions of Keras that are watched, in words.
WATCHED_KERAS = f"Keras {OLDEST_KERAS[0]}.{OLDEST_KERAS[1]} and newer"
NO_LEGACY = "a fit of tf_keras, the legacy Keras, is not watched: tfwatch watches Keras 3"
_CUDA = "libcuda.so.1"
_UUID_BYTES = 16


@dataclass(frozen=True, slots=True)
class Device:
    """A device.

    name: for people, e.g. `GPU:0 NVIDIA H100`. accelerated: a GPU, not the CPU. has_own_memory:
    batches are copied to it; the GPU of a Mac shares the CPU's memory.
    """

    name: str
    accelerated: bool
    has_own_memory: bool = False


def is_too_old(keras: Any) -> bool:
    """Return whether this Keras is older than those that can be watched."""
    return is_older(keras.__version__, OLDEST_KERAS)


def require_keras() -> None:
    """Check the Keras of this process.

    Raises:
        ImportError: it is missing, or too old for `Watch`.
    """
    import keras

    if is_too_old(keras):
        raise ImportError(
            f"tfwatch.Watch needs {WATCHED_KERAS}; this is {keras.__version__}: {NEWER_KERAS}"
        )


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


# -- a strategy, each device of which trains on its part of every batch ----------------------------


def note_replicas(writer: RunWriter, iterator: Any) -> None:
    """Describe the replicas of the strategy of an iterator in run.json, and have the sensors read
    its GPUs."""
    with fails_open(lambda why: writer.note(f"the replicas of the strategy are unknown: {why}")):
        devices = [short_name(device) for device in iterator._strategy.extended.worker_devices]
        if devices == writer.manifest().replicas:
            return
        kind, _, name = writer.manifest().device.partition(" ")
        if len(devices) > 1 and all(one.startswith("GPU:") for one in (kind, *devices)):
            writer.describe(device=f"{len(devices)} GPUs {name}")
        writer.describe(replicas=devices)
        writer.strategy_gpus = _find_gpus(devices)


def short_name(device: str) -> str:
    """Return `GPU:0` of `/job:localhost/replica:0/task:0/device:GPU:0`."""
    return ":".join(device.split(":")[-2:]).rpartition("/")[2].upper()


def _find_gpus(devices: list[str]) -> dict[str, str]:
    """Return the UUIDs of the GPUs among these devices; of several devices on one GPU only the
    first."""
    gpus = _cuda_numbers()
    by_device: dict[str, str] = {}
    for device in devices:
        kind, _, number = device.partition(":")
        identifier = (
            _uuid_of(gpus[int(number)]) if kind == "GPU" and int(number) < len(gpus) else ""
        )
        if identifier and identifier not in by_device.values():
            by_device[device] = identifier
    return by_device


def _cuda_numbers() -> list[int]:
    """Return CUDA's number of the GPU of each logical GPU of TensorFlow's."""
    import tensorflow as tf

    numbers = []
    for gpu in tf.config.get_visible_devices("GPU"):
        parts = tf.config.get_logical_device_configuration(gpu)
        numbers += [int(gpu.name.rpartition(":")[2])] * len(parts or [gpu])
    return numbers


def _uuid_of(number: int) -> str:
    """Return the UUID of a GPU, or of a MIG slice, by CUDA's number in this process; empty without
    CUDA.

    CUDA and NVML number GPUs differently, and CUDA_VISIBLE_DEVICES renumbers those of a process:
    the UUID is the same for both. TensorFlow has begun CUDA in this process already.
    """
    try:
        cuda = ctypes.CDLL(_CUDA)
    except OSError:
        return ""
    handle, uuid_bytes = ctypes.c_int(), (ctypes.c_ubyte * _UUID_BYTES)()
    # The first version of the call gives the UUID of the whole GPU for a MIG slice.
    failed = cuda.cuDeviceGet(ctypes.byref(handle), number) or cuda.cuDeviceGetUuid_v2(
        ctypes.byref(uuid_bytes), handle
    )
    return "" if failed else str(uuid.UUID(bytes=bytes(uuid_bytes)))


# -- traces ----------------------------------------------------------------------------------------


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

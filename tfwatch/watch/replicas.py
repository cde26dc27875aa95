"""The devices of a distribution strategy, each of which trains on its part of every batch."""

from __future__ import annotations

import ctypes
import uuid
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfwatch.core.errors import fails_open

if TYPE_CHECKING:
    from tfwatch.runs.writer import RunWriter

_CUDA = "libcuda.so.1"
_UUID_BYTES = 16


def note_replicas(writer: RunWriter, iterator: Any) -> None:
    """Describe the replicas of the strategy of an iterator in run.json, and have the sensors read
    its GPUs."""
    with fails_open(lambda why: writer.note(f"the replicas of the strategy are unknown: {why}")):
        devices = [short_name(device) for device in iterator._strategy.extended.worker_devices]
        if devices == writer.manifest().replicas:
            return
        writer.describe(replicas=devices, device=_name_all(writer.manifest().device, devices))
        writer.strategy_gpus = _find_gpus(devices)


def _name_all(first: str, devices: list[str]) -> str:
    """Return `2 GPUs NVIDIA H200` of `GPU:0 NVIDIA H200`, where all devices are GPUs."""
    kind, _, name = first.partition(" ")
    are_gpus = len(devices) > 1 and all(device.startswith("GPU:") for device in devices)
    return f"{len(devices)} GPUs {name}" if are_gpus and kind.startswith("GPU:") else first


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
    # The first version of the call gives the UUID of the whole GPU for a MIG slice; old drivers
    # have only that one.
    read = getattr(cuda, "cuDeviceGetUuid_v2", None) or cuda.cuDeviceGetUuid
    failed = cuda.cuDeviceGet(ctypes.byref(handle), number) or read(
        ctypes.byref(uuid_bytes), handle
    )
    return "" if failed else str(uuid.UUID(bytes=bytes(uuid_bytes)))

"""What a run's start decides for all of TensorFlow: the device, and the precision."""

from __future__ import annotations

import contextlib
import platform
from typing import TYPE_CHECKING

from tfwatch.watch.tensorflow_info import Device, find_device, host_device
from tfwatch.workloads.workload import BadInputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfwatch.workloads.workload import Settings

#: As Keras names it.
MIXED = "mixed_float16"


class NoGpuError(BadInputError):
    """A GPU was asked for, and TensorFlow sees none."""


def choose_device(settings: Settings) -> Device:
    """The device that the settings mean; another is never taken in its place.

    Raises:
        NoGpuError: there is no such device; the message says which there are.
        BadInputError: the device cannot do what was asked of it.
    """
    import tensorflow as tf

    if settings.device == "cpu":
        with contextlib.suppress(RuntimeError):  # TensorFlow has begun: `started` keeps to the CPU
            tf.config.set_visible_devices([], "GPU")  # else it would take the GPU's memory
        return host_device()
    device = find_device()
    if settings.device == "gpu" and not device.accelerated:
        hidden = ", and the GPU was left out when this process began" if tf.config.list_physical_devices("GPU") else ""
        raise NoGpuError(f"TensorFlow sees no GPU here: there is {device.name}{hidden}")
    if settings.mode == "jit" and device.accelerated and platform.system() == "Darwin":
        raise BadInputError("XLA compiles nothing for Apple's GPUs: leave out jit, or take the CPU (--device cpu)")
    return device


@contextlib.contextmanager
def started(settings: Settings) -> Iterator[None]:
    """Within, in this thread, what TensorFlow and Keras make is on the chosen device and in the chosen precision."""
    import keras
    import tensorflow as tf

    before = keras.config.dtype_policy()
    if settings.mixed_precision:
        keras.config.set_dtype_policy(MIXED)
    try:
        with tf.device("/CPU:0") if settings.device == "cpu" else contextlib.nullcontext():
            yield
    finally:
        keras.config.set_dtype_policy(before)

"""Set up TensorFlow for a run: the device and the precision."""

from __future__ import annotations

import contextlib
import platform
from dataclasses import replace
from typing import TYPE_CHECKING

from tfwatch.core.errors import BadInputError
from tfwatch.core.refusals import NotTimed
from tfwatch.watch.tensorflow_info import Device, find_device, host_device

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfwatch.training.request import Plan
    from tfwatch.workloads.workload import Settings

#: The name of Keras' policy.
MIXED = "mixed_float16"


class NoGpuError(BadInputError):
    """A GPU was requested, and TensorFlow sees none."""


def choose_device(settings: Settings) -> Device:
    """Return the device of the settings; there is no fallback to another.

    Raises:
        NoGpuError: there is no such device; the message names the one that there is.
        BadInputError: the device does not support a setting.
    """
    import tensorflow as tf

    if settings.device == "cpu":
        with contextlib.suppress(
            RuntimeError
        ):  # TensorFlow is initialized: `placed_on_device` selects the CPU
            tf.config.set_visible_devices([], "GPU")  # else TensorFlow would take the GPU's memory
        return host_device()
    device = find_device()
    if settings.device == "gpu" and not device.accelerated:
        hidden = (
            ", and this process hid the GPU from TensorFlow when it started"
            if tf.config.list_physical_devices("GPU")
            else ""
        )
        raise NoGpuError(f"TensorFlow sees no GPU here, only {device.name}{hidden}")
    if settings.mode == "jit" and device.accelerated and platform.system() == "Darwin":
        raise BadInputError(
            "XLA does not support Apple's GPUs: leave out jit, or use the CPU (--device cpu)"
        )
    return device


def settle_device_prefetch(plan: Plan, device: Device) -> Plan:
    """Return the plan with the prefetch to the device that this one takes: a wish alone yields.

    Raises:
        BadInputError: they cannot; the message is one sentence for the user.
    """
    switched = (switch.value for switch in plan.switches if switch.knob == "device_prefetch")
    is_possible = device.has_own_memory and plan.settings.steps_per_execution == 1
    if plan.prefetches_where_possible and not is_possible:
        plan = replace(plan, knobs=replace(plan.knobs, device_prefetch="off"))
    is_off = all(value == "off" for value in (plan.knobs.device_prefetch, *switched))
    if is_possible or (is_off and plan.tested_knob != "device_prefetch"):
        return plan
    why = (
        NotTimed.IN_GRAPH
        if device.has_own_memory
        else NotTimed.UNIFIED
        if device.accelerated
        else NotTimed.CPU
    )
    raise BadInputError(f"device prefetch is not possible here: {why.value}")


@contextlib.contextmanager
def placed_on_device(settings: Settings) -> Iterator[None]:
    """Within, in this thread, TensorFlow and Keras use the chosen device and precision."""
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

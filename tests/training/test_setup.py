"""The device and the precision that a run starts with."""

from __future__ import annotations

import pytest

from tfwatch.training import setup
from tfwatch.training.setup import NoGpuError, choose_device, placed_on_device
from tfwatch.watch.tensorflow_info import Device, host_device
from tfwatch.workloads.workload import BadInputError, Settings

pytestmark = pytest.mark.tensorflow

GPU = Device("GPU:0 a chip", accelerated=True)


def test_a_missing_gpu_is_an_error_without_a_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "find_device", host_device)
    with pytest.raises(NoGpuError, match=f"^TensorFlow sees no GPU here, only {host_device().name}$"):
        choose_device(Settings(device="gpu"))
    assert choose_device(Settings(device="auto")) == host_device()


def test_the_cpu_is_used_although_there_is_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "find_device", lambda: GPU)
    assert choose_device(Settings(device="cpu")) == host_device()
    assert choose_device(Settings(device="gpu")) == choose_device(Settings()) == GPU


def test_xla_is_refused_only_on_apples_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "find_device", lambda: GPU)
    assert choose_device(Settings(mode="jit")) == GPU
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    with pytest.raises(BadInputError, match="XLA does not support Apple's GPUs"):
        choose_device(Settings(mode="jit"))
    assert choose_device(Settings(mode="jit", device="cpu")) == host_device()


def test_precision_and_device_are_set_within_and_restored_after() -> None:
    import keras
    import tensorflow as tf

    with pytest.raises(ZeroDivisionError), placed_on_device(Settings(mixed_precision=True, device="cpu")):  # noqa: PT012
        layer = keras.layers.Dense(2)
        layer.build((None, 3))
        assert (layer.compute_dtype, layer.variable_dtype) == ("float16", "float32")
        assert tf.constant(1.0).device.endswith("CPU:0")
        _ = 1 / 0
    assert keras.config.dtype_policy().name == "float32"

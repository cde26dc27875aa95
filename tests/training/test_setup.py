"""The device and the precision that a run starts with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tfwatch.core.errors import BadInputError
from tfwatch.core.knobs import Knobs
from tfwatch.runs.control.requests import Scheduled
from tfwatch.training import setup
from tfwatch.training.request import Plan
from tfwatch.training.setup import (
    NoGpuError,
    choose_device,
    placed_on_device,
    settle_device_prefetch,
)
from tfwatch.watch.tensorflow_info import Device, host_device
from tfwatch.workloads.workload import Settings

pytestmark = pytest.mark.tensorflow

GPU = Device("GPU:0 a chip", accelerated=True)


def test_a_missing_gpu_is_an_error_without_a_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "find_device", host_device)
    with pytest.raises(
        NoGpuError, match=f"^TensorFlow sees no GPU here, only {host_device().name}$"
    ):
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


ON = Knobs(device_prefetch=2)
WITH_MEMORY = Device("GPU:0 a chip", accelerated=True, has_own_memory=True)


@pytest.mark.parametrize(
    ("plan", "device", "why"),
    [
        (Plan("cnn", Settings(), ON), host_device(), "the CPU computes in the batches' own memory"),
        (Plan("cnn", Settings(), ON), GPU, "unified memory"),
        (Plan("cnn", Settings(steps_per_execution=4), ON), WITH_MEMORY, "steps_per_execution"),
        (
            Plan("cnn", Settings(), Knobs(), (Scheduled(9, "device_prefetch", 2),)),
            host_device(),
            "the CPU computes",
        ),
        (
            Plan("cnn", Settings(), Knobs(), tested_knob="device_prefetch"),
            host_device(),
            "the CPU computes",
        ),
    ],
)
def test_device_prefetch_is_refused_where_it_cannot_be(
    plan: Plan, device: Device, why: str
) -> None:
    with pytest.raises(BadInputError, match=f"^device prefetch is not possible here: .*{why}"):
        settle_device_prefetch(plan, device)


def test_device_prefetch_is_taken_by_a_gpu_with_memory_of_its_own() -> None:
    settle_device_prefetch(Plan("cnn", Settings(), ON), WITH_MEMORY)
    settle_device_prefetch(
        Plan("cnn", Settings(), Knobs(), tested_knob="device_prefetch"), WITH_MEMORY
    )
    settle_device_prefetch(Plan("cnn", Settings(), Knobs(), tested_knob="prefetch"), host_device())
    settle_device_prefetch(Plan("cnn", Settings(), Knobs()), host_device())


def test_a_wish_for_device_prefetch_yields_to_the_device() -> None:
    plan = Plan("cnn", Settings(), ON, prefetches_where_possible=True)

    assert settle_device_prefetch(plan, WITH_MEMORY) == plan
    assert settle_device_prefetch(plan, host_device()).knobs == Knobs()
    assert (
        settle_device_prefetch(
            replace(plan, settings=Settings(steps_per_execution=4)), WITH_MEMORY
        ).knobs
        == Knobs()
    )


def test_precision_and_device_are_set_within_and_restored_after() -> None:
    import keras
    import tensorflow as tf

    with (  # noqa: PT012
        pytest.raises(ZeroDivisionError),
        placed_on_device(Settings(mixed_precision=True, device="cpu")),
    ):
        layer = keras.layers.Dense(2)
        layer.build((None, 3))
        assert (layer.compute_dtype, layer.variable_dtype) == ("float16", "float32")
        assert tf.constant(1.0).device.endswith("CPU:0")
        _ = 1 / 0
    assert keras.config.dtype_policy().name == "float32"

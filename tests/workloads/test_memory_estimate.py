"""The memory estimate counts the values of the models and pipelines."""

from __future__ import annotations

import numpy as np
import pytest

from tests.whole import generate_arrays
from tfwatch.core.knobs import Knobs
from tfwatch.workloads import registry
from tfwatch.workloads.memory_estimate import SIZES, needed_alone_bytes, needed_bytes
from tfwatch.workloads.workload import Settings


def test_a_large_matrix_takes_its_weights_gradients_and_means() -> None:
    settings = Settings(size=60_000)
    batches = 60_000 * 4 * (2 * 60_000 + 4 * 60_000 + 4 * 60_000)  # held, made, computed
    assert needed_bytes("matmul", settings) == 6 * 4 * 60_000**2 + batches + 75_000_000
    assert needed_alone_bytes("matmul", settings) == 5 * 4 * 60_000**2 + 75_000_000


def test_loading_may_take_more_than_training() -> None:
    loading, training = (needed_bytes("cifar10", Settings(batch_size=size)) for size in (32, 8192))

    assert loading == 4 * 60_000 * 32 * 32 * 3 + 75_000_000
    assert training > 2 * loading


def test_the_estimate_grows_with_batch_and_image_and_shrinks_with_mixed_precision() -> None:
    small = needed_bytes("cnn", Settings(batch_size=32, image_size=64))
    wide, deep = (
        needed_bytes("cnn", s) for s in (Settings(image_size=128), Settings(batch_size=128))
    )
    assert wide == pytest.approx(deep, rel=0.001)
    assert deep - small == pytest.approx(3 * (small - 75_000_000), rel=0.05)
    assert small / 2 < needed_bytes("cnn", Settings(mixed_precision=True)) < small


def test_every_workload_has_its_sizes() -> None:
    assert list(SIZES) == list(registry.WORKLOADS)


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "name", [name for name in registry.WORKLOADS if name not in ("transfer", "cnn")]
)
def test_the_sizes_are_those_of_the_model_and_its_batches(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tensorflow as tf

    generate_arrays(monkeypatch, 40)
    settings = registry.settle(name, {"seed": 1, "size": 16 if name == "matmul" else None})
    sizes = SIZES[name](settings)
    prepared = registry.load(name).prepare(settings, lambda _: None)
    model = prepared.model()
    spec = prepared.pipeline(prepared.source, Knobs()).element_spec
    values = [int(np.prod(leaf.shape[1:])) for leaf in tf.nest.flatten(spec)]
    layers = [int(np.prod(layer.output.shape[1:])) for layer in model.layers]
    assert sizes.inputs == sum(values)
    assert sizes.weights == sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)
    if name != "timeseries":  # what an LSTM keeps of a window is no layer's output
        assert sizes.layers == sum(layers)
        assert sizes.largest == max(layers)


@pytest.mark.tensorflow
@pytest.mark.parametrize("side", [64, 100])
def test_the_sizes_of_the_cnn_follow_its_images(side: int) -> None:
    from tfwatch.workloads.models import cnn

    model = cnn._model(Settings(image_size=side), 4)
    layers = [int(np.prod(layer.output.shape[1:])) for layer in model.layers[1:]]
    sizes = SIZES["cnn"](Settings(image_size=side))
    assert sizes.layers == pytest.approx(sum(layers), rel=0.01)
    assert sizes.largest == max(layers)

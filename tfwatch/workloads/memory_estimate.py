"""A rough estimate of the memory that a training will take, made before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.workloads.workload import Settings

_FLOAT = 4
#: A weight, its gradient, Adam's two means, and two temporary values of its update, `m * alpha` and `sqrt(v) + eps` in
#: `update_step` of keras/src/optimizers/adam.py.
_VALUES_PER_WEIGHT = 6
#: The gradients of the largest layer's output and input.
_GRADIENTS = 2
#: Single examples are copied into a batch.
_WHILE_BATCHED = 2
#: Arrays that drawing random numbers leaves in the allocator: the draws of `stateless_normal`, and the scaled ones.
_DRAWING = 2
#: The graph, and the C library's heaps for its threads: 20 to 70 MB were measured.
_BESIDE = 75_000_000
_MNIST = 70_000 * 28 * 28
_CIFAR = 60_000 * 32 * 32 * 3
#: Copies while loading: the original images, one array with the held-out ones, and a tensor, briefly twice.
_WHILE_LOADED = 4
#: An LSTM keeps six gates and states for every value of the window, and has gradients of four gates at the same time.
_LSTM_VALUES, _GATES = 6, 4


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a workload, as numbers of values unless the name has a unit.

    inputs: those of an example and its label. layers: the outputs of all trained layers for one example. largest: the
    outputs of the largest layer. weights: the trained ones. loss: the values that the loss keeps for an example.
    making: the temporary values of an example while its batch is made; None where examples are made one by one.
    data_bytes: the data in memory. loading_bytes: the memory while loading. batch: the examples of a step where the
    settings' batch size does not apply.
    """

    inputs: int
    layers: int
    largest: int
    weights: int
    loss: int = 0
    making: int | None = None
    data_bytes: int = 0
    loading_bytes: int = 0
    batch: int | None = None


def _matmul(settings: Settings) -> Sizes:
    size = settings.size
    # `numbered_examples.rows` computes a batch in int64 with two copies, so that a value takes the space of four.
    return Sizes(2 * size, size, size, size * size, loss=size, making=4 * size, batch=size)


def _conv(_: Settings) -> Sizes:
    given = 256 * 256 * 32
    # The images, their shifted copies, and the copies in one array, from which one channel is cut off.
    return Sizes(
        256 * 256 * (3 + 32), given, given, 896, loss=given, making=256 * 256 * (3 + 33 + 33)
    )


def _cnn(settings: Settings) -> Sizes:
    side, layers = settings.image_size, 0
    for filters in (8, 16, 32, 64):
        layers += 3 * side * side * filters  # convolution, normalisation, relu
        side //= 2
        layers += side * side * filters
    return Sizes(3 * settings.image_size**2 + 1, layers, 8 * settings.image_size**2, 25_538)


def _small_convolution(side: int, channels: int, images: int = 0) -> Callable[[Settings], Sizes]:
    given, pooled = 32 * (side - 2) ** 2, 32 * ((side - 2) // 2) ** 2
    weights = 32 * (9 * channels + 1) + 10 * (pooled + 1)
    inputs, layers, loading = (
        side * side * channels + 1,
        given + 2 * pooled + 10,
        _WHILE_LOADED * images,
    )
    sizes = Sizes(inputs, layers, given, weights, data_bytes=images, loading_bytes=loading)
    return lambda _: sizes


def _small_dense(features: int, hidden: int, **known: int) -> Callable[[Settings], Sizes]:
    weights = hidden * (features + 1) + 10 * (hidden + 1)
    sizes = Sizes(features + 1, hidden + 10, hidden, weights, **known)
    return lambda _: sizes


def _timeseries(_: Settings) -> Sizes:
    return Sizes(65, 64 * 32 * _LSTM_VALUES, 64 * 32 * _GATES, 4385)


def _transfer(_: Settings) -> Sizes:
    # The frozen base keeps nothing: up to four outputs of its largest layers, 112x112 of 96, exist at the same time.
    # Its graph of 155 layers takes 140 MB for any batch.
    largest, base_bytes = 112 * 112 * 96, 4 * 2_257_984 + 100_000_000
    return Sizes(3 * 224 * 224 + 1, 2 * largest, largest, 12_810, data_bytes=base_bytes)


SIZES: dict[str, Callable[[Settings], Sizes]] = {
    "matmul": _matmul,
    "conv": _conv,
    "cnn": _cnn,
    "cnn-loop": _small_convolution(28, 1, _MNIST),
    "dense": _small_dense(784, 128, data_bytes=_MNIST, loading_bytes=_WHILE_LOADED * _MNIST),
    "cifar10": _small_convolution(32, 3, _CIFAR),
    "large-images": _small_convolution(256, 3, 10 * 256 * 256 * 3),
    "timeseries": _timeseries,
    "transfer": _transfer,
    # Its usual form indexes the original images, its fast one the tensor.
    "array": _small_dense(784, 128, data_bytes=2 * _MNIST, loading_bytes=_WHILE_LOADED * _MNIST),
    # Four noises exist at the same time, two of them and the angles in float64: the space of 4 x 2 + 2 + 2 values.
    "generator": _small_dense(256, 512, making=12 * 256),
}


def needed_bytes(name: str, settings: Settings) -> int:
    """Return the bytes that a training takes besides TensorFlow.

    The estimate is the larger of loading and of data + 4 bytes x (6 x weights + batch x (inputs + making + loss +
    layers + 2 x largest)), plus 75 MB: backpropagation keeps every layer's output until its gradient is computed (Chen
    et al. 2016, Training Deep Nets with Sublinear Memory Cost), and the next batch is made during a step. Batches held
    by prefetch are not included. Mixed precision halves layers and loss.

    The estimate is for a warning before memory runs out, so it is rather too high: it counts operations in place, and
    takes all values to exist at the same time. On two CPU cores with TensorFlow 2.21 the processes
    grow by 0.60 to 0.94 times the estimate.
    """
    sizes = SIZES[name](settings)
    value = _FLOAT // 2 if settings.mixed_precision else _FLOAT
    batch = sizes.batch or settings.batch_size
    making = _WHILE_BATCHED * sizes.inputs if sizes.making is None else sizes.making
    computed = sizes.layers + sizes.loss + _GRADIENTS * sizes.largest
    per_example = _FLOAT * (sizes.inputs + making) + value * computed
    training = sizes.data_bytes + _FLOAT * _VALUES_PER_WEIGHT * sizes.weights + batch * per_example
    return max(training, sizes.loading_bytes) + _BESIDE


def needed_alone_bytes(name: str, settings: Settings) -> int:
    """Return the bytes that `tfwatch bench` takes: for matmul and conv one operation, for others a training step.

    Drawing, scaling and shifting random numbers each fill an array, and TensorFlow's allocator keeps the two that are
    free again: after the first of two equal matrices a process has grown by 3.1 of them.
    """
    if name == "matmul":  # two matrices, their product, and the arrays of drawing them
        return (3 + _DRAWING) * _FLOAT * settings.size**2 + _BESIDE
    if name == "conv":
        return _FLOAT * settings.batch_size * 256 * 256 * (3 + _DRAWING * 3 + 32) + _BESIDE
    return needed_bytes(name, settings)

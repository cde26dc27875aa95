"""How much memory a training will take, roughly, told before anything is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.workloads.workload import Settings

_FLOAT = 4
#: A weight, its gradient, Adam's two means, and two more while its new value is made: `m * alpha` and `sqrt(v) + eps`
#: of `update_step` in keras/src/optimizers/adam.py, which are operations of their own.
_OF_A_WEIGHT = 6
#: The gradient of what the largest layer gives, and of what it takes.
_GRADIENTS = 2
#: Examples are made one by one and copied into a batch.
_WHILE_BATCHED = 2
#: Arrays that are left over where random numbers are drawn: what `stateless_normal` draws, and what it scales.
_DRAWING = 2
#: The graph, and the heaps that the C library keeps for the threads that run it: 20 to 70 MB were seen.
_BESIDE = 75_000_000
_MNIST = 70_000 * 28 * 28
_CIFAR = 60_000 * 32 * 32 * 3
#: While it is loaded: the images as they come, with those held out in one array, and as a tensor twice, for a moment.
_WHILE_LOADED = 4
#: An LSTM keeps its gates and states of every value of the window; of its four gates there are gradients at once.
_OF_AN_LSTM, _GATES = 6, 4


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a workload is made of, in numbers.

    inputs: of an example and its label. layers: what all layers that train give for one example. largest: the one that
    gives most. weights: those that train. loss: what it keeps of an example. making: values that an example takes while
    its batch is made, None where examples are made one by one. data_bytes: what lies in memory all the time.
    loading_bytes: and what does while it is loaded. batch: examples of a step, where the settings' do not say.
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
    # `noise.rows` makes a batch in int64, of which two copies are there at a time: a value takes the room of four.
    return Sizes(2 * size, size, size, size * size, loss=size, making=4 * size, batch=size)


def _conv(_: Settings) -> Sizes:
    given = 256 * 256 * 32
    # The images, their shifted copies, and these in one array, of which one channel is cut off.
    return Sizes(256 * 256 * (3 + 32), given, given, 896, loss=given, making=256 * 256 * (3 + 33 + 33))


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
    inputs, layers, loading = side * side * channels + 1, given + 2 * pooled + 10, _WHILE_LOADED * images
    sizes = Sizes(inputs, layers, given, weights, data_bytes=images, loading_bytes=loading)
    return lambda _: sizes


def _small_dense(features: int, hidden: int, **known: int) -> Callable[[Settings], Sizes]:
    weights = hidden * (features + 1) + 10 * (hidden + 1)
    sizes = Sizes(features + 1, hidden + 10, hidden, weights, **known)
    return lambda _: sizes


def _timeseries(_: Settings) -> Sizes:
    return Sizes(65, 64 * 32 * _OF_AN_LSTM, 64 * 32 * _GATES, 4385)


def _transfer(_: Settings) -> Sizes:
    # Nothing of the frozen base is kept: of what its largest layers give, 112x112 of 96, up to four were there at a
    # time. Its graph of 155 layers took 140 MB whatever the batch.
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
    # Its slow form indexes the images as they came, its fast one the tensor.
    "array": _small_dense(784, 128, data_bytes=2 * _MNIST, loading_bytes=_WHILE_LOADED * _MNIST),
    # Four noises are made at a time, of which two in float64, and the angles in float64: room for 4 x 2 + 2 + 2 values.
    "generator": _small_dense(256, 512, making=12 * 256),
}


def needed_bytes(name: str, settings: Settings) -> int | None:
    """What training takes, beside TensorFlow itself; None for a file of the user's own, which nobody knows.

    The larger of what loading takes and of data + 4 bytes x (6 x weights + batch x (inputs + making + loss + layers + 2
    x largest)), and 75 MB: backpropagation keeps what every layer gave until its gradient is there (Chen et al. 2016,
    Training Deep Nets with Sublinear Memory Cost), and while one batch is trained on, the next one is made. Each batch
    that prefetch holds comes on top. Mixed precision halves what layers and loss take.

    It is made to warn before memory runs out, so it is rather too high: what TensorFlow computes in place is counted,
    and all is taken to be there at once. `tests/bench/estimate.py` holds it against processes that train: on two CPU
    cores with TensorFlow 2.21 they grew by 0.60 to 0.94 times the estimate.
    """
    if name not in SIZES:
        return None
    sizes = SIZES[name](settings)
    value = _FLOAT // 2 if settings.mixed_precision else _FLOAT
    batch = sizes.batch or settings.batch_size
    making = _WHILE_BATCHED * sizes.inputs if sizes.making is None else sizes.making
    computed = sizes.layers + sizes.loss + _GRADIENTS * sizes.largest
    per_example = _FLOAT * (sizes.inputs + making) + value * computed
    training = sizes.data_bytes + _FLOAT * _OF_A_WEIGHT * sizes.weights + batch * per_example
    return max(training, sizes.loading_bytes) + _BESIDE


def needed_alone_bytes(name: str, settings: Settings) -> int | None:
    """What `tfwatch bench` takes: of matmul and conv it times one operation, of the others a step of the training.

    Random numbers are drawn, scaled and shifted, each into an array of its own, and TensorFlow's allocator keeps the
    two that are free again: after the first of two equal matrices a process had grown by 3.1 of them.
    """
    if name == "matmul":  # two matrices, their product, and what drawing them takes
        return (3 + _DRAWING) * _FLOAT * settings.size**2 + _BESIDE
    if name == "conv":
        return _FLOAT * settings.batch_size * 256 * 256 * (3 + _DRAWING * 3 + 32) + _BESIDE
    return needed_bytes(name, settings)

"""Models of which one part takes most of each step: ten kinds of part in three sizes.

A GPU has the arithmetic of hundreds of cores, so its sizes are others: the part takes 0.3 to 10 ms
by 60 TFLOP/s (products in TensorFloat-32) and 3 TB/s. What it works on is made on the GPU, since
the copy of a batch of 10 MB takes longer than most parts.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

layers = keras.layers
#: The batches of a data set.
_BATCHES = 4


class Training(NamedTuple):
    """A compiled model, and its endless data."""

    model: Any
    data: Any


class Case(NamedTuple):
    """What a training is made of. shape: of an example."""

    shape: tuple[int, ...]
    body: list[Any]
    batch: int = 32
    loss: Any = "mse"
    metrics: Any = ()
    optimizer: str = "sgd"


class Attention(keras.layers.Layer):
    """Attends to its own input."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.heads = layers.MultiHeadAttention(4, 32, name="heads")

    def call(self, inputs: Any) -> Any:
        """Return the attention of all heads."""
        return self.heads(inputs, inputs)


class OneByOne(keras.layers.Layer):
    """Multiplies the examples of a batch one after another."""

    def call(self, inputs: Any) -> Any:
        """Return the products."""
        outputs = tf.map_fn(lambda row: tf.linalg.matvec(tf.ones((64, 64)), row), inputs)
        outputs.set_shape((None, 64))
        return outputs


class Noise(keras.layers.Layer):
    """Makes images on the device, of one row of numbers each."""

    def __init__(self, side: int, channels: int) -> None:
        super().__init__()
        self._shape = (side, side, channels)

    def call(self, inputs: Any) -> Any:
        """Return images of random numbers."""
        shape = (tf.shape(inputs)[0], *self._shape)
        images = tf.random.stateless_uniform(shape, (1, 2)) + inputs[0, 0]
        return tf.ensure_shape(images, (None, *self._shape))


def _sorts(size: int) -> Any:
    """Return a layer that sorts numbers by numpy."""

    def in_python(inputs: Any) -> Any:
        many = np.repeat(inputs.numpy(), 40 * size, axis=1)
        return np.sort(many, axis=1)[:, :64].astype("float32")

    def sort(inputs: Any) -> Any:
        outputs = tf.py_function(in_python, [inputs], tf.float32)
        outputs.set_shape((None, 64))
        return outputs

    return layers.Lambda(sort, name="answer", output_shape=(64,))


def _compares_pairs(copies: int) -> Any:
    def pairs_loss(y: Any, outputs: Any) -> Any:
        """Compare each pair of examples of a batch."""
        wide = keras.ops.tile(outputs, (1, copies))
        pairs = keras.ops.matmul(wide, keras.ops.transpose(wide))
        distance = keras.ops.mean(keras.ops.square(outputs - y))
        return keras.ops.mean(keras.ops.square(pairs)) + distance

    return pairs_loss


def _area_under(thresholds: int) -> list[Any]:
    marks = np.sort(np.random.default_rng(thresholds).random(thresholds)).tolist()
    return [keras.metrics.AUC(thresholds=marks, name="answer")]


def _case(part: str, size: int, *, on_gpu: bool) -> Case:
    """Return what a training is made of; size: 1, 2 or 3."""
    rows, pool = (64,), layers.GlobalAveragePooling2D
    match part:
        case "conv":  # on a GPU 110 GFLOP a step and size with both gradients
            channels, filters = (64, 256 * size) if on_gpu else (8, 32 * size)
            side, batch = (64, 64) if on_gpu else (32, 32)
            body = [layers.Conv2D(channels, 3), layers.Conv2D(filters, 3, name="answer"), pool()]
            return Case((side, side, 3), body, batch)
        case "dense":  # 103 GFLOP a step and size
            if not on_gpu:
                return Case(rows, [layers.Dense(2000 * size, name="answer"), layers.Dense(8)])
            wide = [layers.Dense(512), layers.Dense(8192 * size, name="answer"), layers.Dense(8)]
            return Case(rows, wide, 4096)
        case "augmentation":
            rotation = layers.RandomRotation(0.2, name="answer")
            if not on_gpu:
                side = 64 + 32 * size
                return Case((side, side, 3), [rotation, layers.Conv2D(2, 3, strides=8), pool()])
            few = layers.MaxPooling2D(1, strides=16)
            return Case((1,), [Noise(256 + 128 * size, 3), rotation, few, pool()])
        case "attention":  # scores of 134 MB, 537 and 1 200 MB, some 14 times
            shape = ((512 if on_gpu else 64) * size, 32)
            return Case(shape, [Attention(name="answer"), layers.GlobalAveragePooling1D()])
        case "embedding":  # a table of 256 MB a size, some 15 times
            table = layers.Embedding((2_000_000 if on_gpu else 60_000) * size, 32)
            return Case((20,), [table, layers.GlobalAveragePooling1D()], optimizer="adam")
        case "metric":
            thresholds, batch = (4000, 8192) if on_gpu else (300, 1024)
            metrics = _area_under(thresholds * size)
            return Case((8,) if on_gpu else rows, [layers.Dense(16)], batch, metrics=metrics)
        case "loss":  # 103 GFLOP a step and size
            copies, batch = (64, 2048) if on_gpu else (400, 128)
            return Case(rows, [layers.Dense(64)], batch, _compares_pairs(copies * size))
        case "python":
            return Case(rows, [_sorts(size)])
        case "normalization":
            answer = layers.BatchNormalization(name="answer")
            if not on_gpu:
                side = 48 + 16 * size
                return Case((side, side, 16), [answer, pool()])
            few = layers.MaxPooling2D(1, strides=16)
            return Case((1,), [Noise(128 + 128 * size, 16), answer, few, pool()])
        case "map_fn":
            return Case(rows, [OneByOne(name="answer")], 32 * size)
        case "launching":
            return Case(rows, [layers.Dense(8, activation="relu") for _ in range(20 * size)])
        case "float32":
            wide = [layers.Dense(512), layers.Dense(4096 * size, name="answer"), layers.Dense(8)]
            return Case(rows, wide, 4096)
    raise ValueError(f"no part {part}")


def _mirrored(late_ms: float) -> Training:
    """Return a training on two devices, whose batches come late."""
    gpus = tf.config.list_physical_devices("GPU")
    (cpu,) = tf.config.list_physical_devices("CPU")
    if not gpus and not tf.config.get_logical_device_configuration(cpu):
        halves = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(cpu, halves)
    devices = tf.config.list_logical_devices("GPU" if gpus else "CPU")[:2]
    width = 2048 if gpus else 128
    with tf.distribute.MirroredStrategy([one.name for one in devices]).scope():
        body = [layers.Dense(width, activation="relu") for _ in range(4)]
        model = keras.Sequential([keras.Input((width,)), *body, layers.Dense(1)])
        model.compile("adam", "mse", jit_compile=False)
    x = np.random.default_rng(0).normal(size=(256, width)).astype("float32")

    def batches() -> Any:
        while True:
            time.sleep(late_ms / 1e3)
            yield x, x[:, :1]

    kinds = tf.TensorSpec((256, width)), tf.TensorSpec((256, 1))
    return Training(model, tf.data.Dataset.from_generator(batches, output_signature=kinds))


def make(part: str, size: int, *, on_gpu: bool, jit: bool | str = "auto") -> Training:
    """Return a training whose step a part takes."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(size)
    if part == "mirrored":
        return _mirrored(20.0 * (size - 1))
    tf.config.experimental.enable_tensor_float_32_execution(part != "float32")
    case = _case(part, size, on_gpu=on_gpu)
    model = keras.Sequential(
        [keras.Input(case.shape), *case.body, layers.Dense(1, activation="sigmoid")]
    )
    is_compiled = False if part == "python" else jit
    model.compile(case.optimizer, case.loss, metrics=[*case.metrics], jit_compile=is_compiled)
    rng = np.random.default_rng(size)
    x: Any = rng.normal(size=(_BATCHES, case.batch, *case.shape)).astype("float32")
    if part == "embedding":
        x = rng.integers(0, 60_000, x.shape, dtype="int32")
    y = (rng.random((_BATCHES, case.batch, 1)) > 0.5).astype("float32")
    # Putting 8 000 rows together takes longer than most parts.
    return Training(model, tf.data.Dataset.from_tensor_slices((x, y)).repeat().prefetch(2))

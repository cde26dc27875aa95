"""One convolution, 32 filters of 3x3, on one image of 256x256, forward and backward: it learns to shift the image."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING

from tfwatch.workloads import model_parts
from tfwatch.workloads.data import numbered_examples

if TYPE_CHECKING:
    from collections.abc import Callable

    import keras
    import tensorflow as tf

    from tfwatch.workloads.workload import Prepared, Settings

_SIDE, _FILTERS = 256, 32
_COUNT, _HELD_OUT = 2_000, 4


def check(settings: Settings) -> None:
    """Accept all settings."""


def prepare(settings: Settings, report: Callable[[str], None]) -> Prepared:
    """Prepare images that the pipeline computes."""
    report("nothing to prepare")
    examples = numbered_examples.Examples(_pick, _COUNT, _HELD_OUT)
    model = functools.partial(_model, settings)
    prepared = numbered_examples.prepared(settings, examples, model, "mean_absolute_error")
    return replace(prepared, note="the images are synthetic")


def _pick(numbers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return images and targets: a filter's target is a neighbour's colour, the same for several filters."""
    import tensorflow as tf

    flat = numbered_examples.rows(numbers, _SIDE * _SIDE * 3) - 0.5
    images = tf.reshape(flat, tf.concat([tf.shape(numbers), (_SIDE, _SIDE, 3)], 0))
    images.set_shape((*numbers.shape, _SIDE, _SIDE, 3))
    shifted = [
        tf.roll(images, (n % 3 - 1, n // 3 % 3 - 1), axis=(-3, -2))
        for n in range(_FILTERS // 3 + 1)
    ]
    return images, tf.concat(shifted, axis=-1)[..., :_FILTERS]


def _model(settings: Settings) -> keras.Model:
    import keras

    model_parts.seed(settings)
    layers = [keras.Input((_SIDE, _SIDE, 3)), keras.layers.Conv2D(_FILTERS, 3, padding="same")]
    model = keras.Sequential(layers, name="conv")
    return model_parts.compiled(model, settings, "mse", "mean_absolute_error", learning_rate=5e-3)


def work(settings: Settings) -> Callable[[], tf.Tensor]:
    """Return the convolution alone, of images on the device, for `tfwatch bench`."""
    import tensorflow as tf

    images = tf.random.stateless_normal((settings.batch_size, _SIDE, _SIDE, 3), (1, 1))
    filters = tf.random.stateless_normal((3, 3, 3, _FILTERS), (2, 2))
    return lambda: tf.nn.conv2d(images, filters, strides=1, padding="SAME")

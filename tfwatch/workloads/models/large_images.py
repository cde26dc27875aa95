"""The small network on images of 256x256: enough arithmetic for the device to matter."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.workloads import model_parts
from tfwatch.workloads.data import numbered_examples

if TYPE_CHECKING:
    from collections.abc import Callable

    import keras
    import tensorflow as tf

    from tfwatch.workloads.workload import Prepared, Settings

_SHAPE = (256, 256, 3)
_COUNT, _HELD_OUT = 8_000, 320
_CLASSES = 10


def check(settings: Settings) -> None:
    """Accept all settings."""


def prepare(settings: Settings, report: Callable[[str], None]) -> Prepared:
    """Make ten patterns, 2 MB in all; each image is one of them in its own brightness."""
    report("generating images")
    examples = numbered_examples.Examples(_pick_of(_patterns()), _COUNT, _HELD_OUT)
    prepared = numbered_examples.prepared(
        settings, examples, functools.partial(_model, settings), "accuracy"
    )
    return replace(prepared, note="the images are synthetic")


def _patterns() -> tf.Tensor:
    import tensorflow as tf

    rng = np.random.default_rng(0)
    with tf.device("/CPU:0"):  # tf.data works in host memory
        return tf.constant(rng.integers(0, 256, (_CLASSES, *_SHAPE), dtype=np.uint8))


def _pick_of(patterns: tf.Tensor) -> numbered_examples.Pick:
    import tensorflow as tf

    def pick(numbers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        labels = tf.cast(numbers % _CLASSES, tf.int32)
        light = 0.5 + tf.cast(numbers % 97, tf.float32) / 194
        images = tf.cast(tf.gather(patterns, labels), tf.float32) / 255.0
        return images * light[..., None, None, None], labels

    return pick


def _model(settings: Settings) -> keras.Model:
    model_parts.seed(settings)
    # The dense layer has half a million inputs: at Adam's default rate a step changes its outputs by hundreds.
    return model_parts.classifier(
        model_parts.small_convolution(_SHAPE, "large-images"), settings, learning_rate=1e-5
    )

"""One square matrix product, forward and backward: a layer without bias learns to shift the columns of its input."""

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

_STEPS, _HELD_OUT = 200, 1


def check(settings: Settings) -> None:
    """Accept all settings."""


def prepare(settings: Settings, report: Callable[[str], None]) -> Prepared:
    """Prepare rows that the pipeline computes; a batch is a square matrix of them."""
    report("nothing to prepare")
    size = settings.size
    examples = numbered_examples.Examples(
        functools.partial(_pick, size), _STEPS * size, _HELD_OUT * size
    )
    model = functools.partial(_model, settings)
    prepared = numbered_examples.prepared(
        replace(settings, batch_size=size), examples, model, "mean_absolute_error"
    )
    return replace(prepared, note="the matrices are synthetic")


def _pick(size: int, numbers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    import tensorflow as tf

    rows = numbered_examples.rows(numbers, size) - 0.5
    return rows, tf.roll(rows, 1, axis=-1)


def _model(settings: Settings) -> keras.Model:
    import keras

    model_parts.seed(settings)
    layers = [keras.Input((settings.size,)), keras.layers.Dense(settings.size, use_bias=False)]
    model = keras.Sequential(layers, name="matmul")
    # A step changes each output by about the rate times the inputs.
    return model_parts.compiled(
        model, settings, "mse", "mean_absolute_error", learning_rate=0.5 / settings.size
    )


def work(settings: Settings) -> Callable[[], tf.Tensor]:
    """Return the product alone, of two matrices on the device, for `tfwatch bench`."""
    import tensorflow as tf

    one, other = (
        tf.random.stateless_normal((settings.size, settings.size), (n, n)) for n in (1, 2)
    )
    return lambda: tf.matmul(one, other)

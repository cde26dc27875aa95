"""An LSTM that predicts the next value of a series from a window of it."""

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

#: The length of the model's input.
WINDOW = 64
_COUNT, _HELD_OUT = 20_000, 2_000


def check(settings: Settings) -> None:
    """Accept all settings."""


def prepare(settings: Settings, report: Callable[[str], None]) -> Prepared:
    """Make a series of three waves and noise; window n begins at its n-th value."""
    report("generating a series")
    examples = numbered_examples.Examples(_pick_of(_series()), _COUNT, _HELD_OUT)
    prepared = numbered_examples.prepared(
        settings, examples, functools.partial(_model, settings), "mean_absolute_error"
    )
    return replace(prepared, note="the series is synthetic")


def _series() -> tf.Tensor:
    import tensorflow as tf

    at = np.arange(_COUNT + _HELD_OUT + WINDOW + 1)
    waves = np.sin(at / 7) + np.sin(at / 31) / 2 + np.sin(at / 101) / 3
    noise = np.random.default_rng(0).standard_normal(len(at)) / 20
    with tf.device("/CPU:0"):  # tf.data works in host memory
        return tf.constant((waves + noise).astype(np.float32))


def _pick_of(series: tf.Tensor) -> numbered_examples.Pick:
    import tensorflow as tf

    def pick(numbers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        places = numbers[..., None] + tf.range(WINDOW, dtype=tf.int64)
        return tf.gather(series, places)[..., None], tf.gather(series, numbers + WINDOW)

    return pick


def _model(settings: Settings) -> keras.Model:
    import keras

    model_parts.seed(settings)
    layers = [keras.Input((WINDOW, 1)), keras.layers.LSTM(32), keras.layers.Dense(1)]
    model = keras.Sequential(layers, name="timeseries")
    return model_parts.compiled(model, settings, "mse", "mean_absolute_error")

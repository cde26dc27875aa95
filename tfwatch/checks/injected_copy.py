"""A training on a GPU over large batches, and the same bytes copied directly, for `tfwatch
selftest`."""

from __future__ import annotations

import time
from functools import reduce
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from tfwatch.checks.injected_schedule import CopyComparison
from tfwatch.runs.reading.opened import open_run
from tfwatch.tfdata.work_ahead import without_autotune
from tfwatch.watch.fit.callback import Watch
from tfwatch.watch.fit.stepping.device_copy import why_no_device_prefetch

if TYPE_CHECKING:
    from pathlib import Path

_ROWS, _STEPS = 64, 40
#: Steps at a training's start that are not compared: trace, first batch.
_WARM_UP = 5
#: Batches in turn: one alone would stay in the caches of the CPU.
_BATCHES = 4
_DEVICE = "/GPU:0"


def compare_copies(kind: str, megabytes: int, runs_dir: Path) -> CopyComparison | str:
    """Return the copies of batches of an element type, direct and in a training; or why nothing is
    copied here."""
    if missing := why_no_device_prefetch():
        return missing.value
    shape = (_ROWS, megabytes * 10**6 // _ROWS // np.dtype(kind).itemsize)
    batches = [np.full(shape, n, kind) for n in range(_BATCHES)]
    watch, direct = Watch(runs_dir), DirectCopies(batches)
    model = _model(batches[0])
    model.fit(
        _data(batches), steps_per_epoch=_STEPS, shuffle=False, verbose=0, callbacks=[direct, watch]
    )
    copies = open_run(watch.run_path or "").steps["copy_ms"]
    return CopyComparison(
        float(np.median(direct.took_ms[_WARM_UP:])), float(np.median(copies[_WARM_UP:]))
    )


class DirectCopies(keras.callbacks.Callback):
    """Copies a batch after each step: the bandwidth of a machine that others use changes within a
    second.

    took_ms: of each copy, without the time of an empty one before it.
    """

    def __init__(self, batches: list[Any]) -> None:
        super().__init__()
        self.took_ms: list[float] = []
        with tf.device("/CPU:0"):
            self._parts, self._empty = [tf.constant(batch) for batch in batches], tf.zeros((1, 1))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Copy a batch other than the one that the next step copies."""
        none_ms = min(_copy_ms(self._empty) for _ in range(2))
        self.took_ms.append(
            max(_copy_ms(self._parts[(batch + 3) % len(self._parts)]) - none_ms, 0.0)
        )


def _model(batch: Any) -> Any:
    x = keras.Input(batch.shape[1:], dtype=batch.dtype.name)
    narrow = keras.layers.Lambda(
        lambda values: tf.cast(values[:, :16], tf.float32), output_shape=(16,)
    )(x)
    model = keras.Model(x, keras.layers.Dense(1)(narrow))
    model.compile("sgd", "mse", jit_compile=False)
    return model


def _data(batches: list[Any]) -> tf.data.Dataset:
    """Return the batches in turn, endlessly, from host memory."""
    labels = np.zeros((_ROWS, 1), np.float32)
    each = [tf.data.Dataset.from_tensors((batch, labels)) for batch in batches]
    return (
        reduce(lambda data, one: data.concatenate(one), each)
        .repeat()
        .with_options(without_autotune())
    )


def _copy_ms(part: Any) -> float:
    """Return the time of a copy to the GPU; one number read back ends it."""
    with tf.device("/CPU:0"):
        part = tf.identity(
            part
        )  # a new tensor: of one that was copied before, TensorFlow keeps the copy on the device
    start_ns = time.perf_counter_ns()
    with tf.device(_DEVICE):
        copied = tf.identity(part)
        copied[0, 0].numpy()
    return (time.perf_counter_ns() - start_ns) / 1e6

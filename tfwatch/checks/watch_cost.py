"""The cost of Watch: `fit` with it and without it, interleaved."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from tfwatch.watch.fit.callback import Watch
from tfwatch.watch.fit.fit_runs import complete_runs

if TYPE_CHECKING:
    from pathlib import Path

_WIDTH, _BATCH = 256, 256
#: Steps before the timed ones: the trace, and the first write.
_SKIP = 40
ARMS = ("bare", "watched", "bare again")


def rounds_ms(runs_dir: Path, rounds: int, steps: int) -> list[dict[str, float]]:
    """Return ms/step of a `fit` without Watch, of one with it, and of one more without: a row for each round."""
    data = _data()
    models = {arm: _model() for arm in ARMS}
    for model in models.values():
        _step_ms(model, data, 1, [])
    rows = []
    for n in range(rounds):
        order = ARMS if n % 2 else ARMS[::-1]
        row = {
            arm: _step_ms(models[arm], data, steps, [Watch(runs_dir)] if arm == "watched" else [])
            for arm in order
        }
        rows.append(row)
    complete_runs()  # before their folder is removed
    return rows


class _Stopwatch(keras.callbacks.Callback):
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.last_ns = time.perf_counter_ns()
        if batch == _SKIP - 1:
            self.first_ns = self.last_ns


def _step_ms(model: Any, data: tf.data.Dataset, steps: int, callbacks: list[Any]) -> float:
    clock = _Stopwatch()
    model.fit(
        data, steps_per_epoch=_SKIP + steps, verbose=0, shuffle=False, callbacks=[*callbacks, clock]
    )
    return float(clock.last_ns - clock.first_ns) / 1e6 / steps


def _model() -> Any:
    """Return a dense network whose step takes 1 to 2 ms."""
    layers = [keras.layers.Dense(_WIDTH, activation="relu") for _ in range(2)]
    model = keras.Sequential(
        [keras.Input((_WIDTH,)), *layers, keras.layers.Dense(10, activation="softmax")]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def _data() -> tf.data.Dataset:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(16 * _BATCH, _WIDTH)).astype("float32")
    y = rng.integers(0, 10, size=16 * _BATCH)
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(_BATCH).cache().repeat()

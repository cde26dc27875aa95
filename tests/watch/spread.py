"""Trainings over two logical CPU devices, which a process sets before TensorFlow starts: see
`own_process`."""

import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import keras
import numpy as np
import tensorflow as tf

import tfwatch
from tfwatch import Watch
from tfwatch.watch.fit.stepping import step_runners

X = np.random.default_rng(0).normal(size=(90, 6)).astype("float32")
Y = np.arange(len(X)) % 4


def double(x: Any, y: Any) -> Any:
    return x * 2, y


def make_strategy() -> Any:
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def make_data() -> Any:
    return tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(30, seed=4).map(double).batch(8)


def train(steps: int, callbacks: list[Any], *, built: bool = True, known: bool = True) -> list[Any]:
    """Train, with a ragged last batch and a validation; return losses, number of updates and
    weights.

    built: the optimizer has its variables; else the first step makes them, and TensorFlow traces it
    twice.
    known: the data has a known length; else there is no validation.
    """
    keras.utils.set_random_seed(3)
    with make_strategy().scope():
        x = keras.Input((6,))
        model = keras.Model(x, keras.layers.Dense(1)(keras.layers.BatchNormalization()(x)))
        model.compile("sgd", "mse", steps_per_execution=steps)
        if built:
            model.optimizer.build(model.trainable_variables)
    # Keras' own validation fails with several steps and a ragged batch.
    checked = make_data() if steps == 1 and known else None
    data = make_data() if known else make_data().filter(lambda x, y: True)
    history = model.fit(data, epochs=2, verbose=0, callbacks=callbacks, validation_data=checked)
    updates = int(keras.ops.convert_to_numpy(model.optimizer.iterations.value))
    losses = [history.history["loss"], history.history.get("val_loss", [])]
    return [*losses, updates, [weight.tolist() for weight in model.get_weights()]]


class Paced(keras.callbacks.Callback):
    """Waits in the first epoch until the stages have been described, which happens once a
    second."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        until = time.monotonic() + 10
        while batch == 5 and not _is_described(self._watch.run_path) and time.monotonic() < until:
            time.sleep(0.02)


def _is_described(folder: Path | None) -> bool:
    return folder is not None and "StagesFound" in (folder / "events.jsonl").read_text()


def loop(folder: str) -> str:
    """Train by `strategy.run` over distributed batches, tracked; return the run's folder."""
    strategy = make_strategy()
    with strategy.scope():
        weight = tf.Variable(tf.zeros((6,)))

    @tf.function
    def step(batch: Any) -> None:
        strategy.run(lambda part: weight.assign_add(tf.reduce_sum(part[0], axis=0)), (batch,))

    batches = tfwatch.track(strategy.experimental_distribute_dataset(make_data()), folder)
    for batch in batches:
        step(batch)
    batches.close()
    return str(batches.run_path)


def train_unknown(folder: str) -> tuple[list[Any], list[str]]:
    """Train on data of unknown length: stock, watched, and with a clock that no graph reads."""
    watch, refused = Watch(f"{folder}/unknown"), Watch(f"{folder}/refused")
    results = [train(1, [], known=False), train(1, [watch], known=False)]
    with patch.object(step_runners, "SingleStep", refuse):
        results.append(train(1, [refused], known=False))
    return results, [str(watch.run_path), str(refused.run_path)]


def refuse(*_: object) -> None:
    raise TypeError("no clock here\n  with a long tail")


def train_all(folder: str) -> dict[str, Any]:
    """Train without and with Watch; return the results of each, and the runs' folders."""
    # Each fit has a folder of its own: short ones in a row share a run.
    watch = Watch(f"{folder}/watched")
    watch.set(prefetch=4)
    stock, watched = train(1, []), train(1, [watch, Paced(watch)], built=False)
    runs = [str(watch.run_path)]
    for_fused = Watch(f"{folder}/fused")
    fused = train(3, [for_fused])
    runs += [str(for_fused.run_path), loop(folder)]
    results = {"stock": stock, "watched": watched, "fused": fused, "runs": runs}
    results["unknown"], results["unknown_runs"] = train_unknown(folder)
    return results

"""Trainings over two logical CPU devices whose pipelines are switched at random: a process of its own.

python -m tests.watch.spread_switches FOLDER [KIND ...]

Without a kind it trains all of them; the tests train some.
"""

from __future__ import annotations

import itertools
import json
import random
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import keras
import numpy as np
import tensorflow as tf

from tests.watch.own_process import set_devices
from tests.watch.spread import double, make_strategy
from tests.whole import events_of
from tfwatch import Watch
from tfwatch.core.events import Noted, PipelineSwitched, StagesFound, SwitchFailed
from tfwatch.runs.reading.opened import open_run
from tfwatch.watch.fit.switching.relayed_epochs import RelayedEpochs

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH = 8
X = (
    np.random.default_rng(0).normal(size=(180, 6)).astype("float32")
)  # 22 batches and a ragged one of 4
Y = np.arange(len(X)) % 4
#: The steps between two requests.
_EVERY = 3
SETTINGS: list[dict[str, Any]] = [
    {"prefetch": 2},
    {"prefetch": "off"},
    {"workers": 2},
    {"workers": "off"},
    {"prefetch": "auto"},
    {"workers": "default"},
    {"prefetch": "default", "workers": ("off", 3)},
]
CACHED: list[dict[str, Any]] = [
    {"cache": True},
    {"workers": 2},
    {"prefetch": 2},
    {"workers": "off"},
]


def shifted(x: Any, y: Any) -> Any:
    return x + 1, y


def data() -> Any:
    whole = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(30, seed=4)
    return whole.map(double).map(shifted, num_parallel_calls=2).batch(BATCH)


def full() -> Any:
    whole = data().filter(lambda x, y: tf.shape(x)[0] == BATCH).take(21)
    return whole.apply(tf.data.experimental.assert_cardinality(21))


def records(folder: str) -> Any:
    """Return batches of examples from files, which TensorFlow splits in another way."""
    name = f"{folder}/examples.tfrecord"
    with tf.io.TFRecordWriter(name) as writer:
        for row in X:
            writer.write(row.tobytes())
    rows = tf.data.TFRecordDataset([name]).map(
        lambda row: tf.reshape(tf.io.decode_raw(row, tf.float32), [6])
    )
    return rows.map(lambda x: (x, tf.reduce_sum(x))).batch(BATCH)


def given(strategy: Any) -> Any:
    options = tf.distribute.InputOptions(experimental_per_replica_buffer_size=3)
    return strategy.experimental_distribute_dataset(data(), options)


def from_function(strategy: Any) -> Any:
    parts = tf.data.Dataset.from_tensor_slices((X[:176], Y[:176])).shuffle(30, seed=4).map(double)
    return strategy.distribute_datasets_from_function(lambda context: parts.batch(BATCH // 2))


@dataclass(frozen=True, slots=True)
class Kind:
    """A training. make: its data, by the strategy. first: the step of the first request; 0: before `fit`."""

    make: Callable[[Any], Any] = lambda strategy: data()
    first: int = 5
    steps: int = 1
    epochs: int = 4
    settings: list[dict[str, Any]] = field(default_factory=lambda: SETTINGS)
    split: Any = "fused"
    fit: dict[str, Any] = field(default_factory=dict)


def kinds(folder: str) -> dict[str, Kind]:
    endless = {"steps_per_epoch": 12}
    return {
        "a ragged batch": Kind(epochs=6),
        "a validation": Kind(fit={"validation_data": data()}),
        "steps in Python": Kind(split="exact"),
        "asked before": Kind(first=0, epochs=2),
        "files": Kind(lambda strategy: records(folder)),
        "unknown length": Kind(lambda strategy: data().filter(lambda x, y: True)),
        "parts of an epoch": Kind(fit={"steps_per_epoch": 10}, epochs=6),
        "endless, asked before": Kind(lambda strategy: data().repeat(), 0, epochs=2, fit=endless),
        "endless": Kind(lambda strategy: data().repeat(), fit=endless),
        "arrays": Kind(lambda strategy: (X, Y), fit={"batch_size": BATCH}),
        "distributed": Kind(given),
        "from a function": Kind(from_function),
        "a cache": Kind(settings=CACHED, epochs=6),
    }


class Switching(keras.callbacks.Callback):
    """Requests settings at random, and keeps each batch's loss."""

    def __init__(self, watch: Watch | None, kind: Kind) -> None:
        super().__init__()
        self.losses: list[float] = []
        self._watch, self._kind, self._random = watch, kind, random.Random(1)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.losses.append(logs["loss"])
        if self._watch and len(self.losses) >= self._kind.first and len(self.losses) % _EVERY == 0:
            self._watch.set(**self._random.choice(self._kind.settings))


def make_model(strategy: Any, steps: int) -> Any:
    with strategy.scope():
        x = keras.Input((6,))
        model = keras.Model(x, keras.layers.Dense(1)(keras.layers.BatchNormalization()(x)))
        model.compile("adam", "mse", steps_per_execution=steps)
        model.optimizer.build(model.trainable_variables)
    return model


def train(kind: Kind, watch: Watch | None, *, asks: bool) -> list[Any]:
    """Return the losses, the number of updates and the weights."""
    keras.utils.set_random_seed(3)
    strategy = make_strategy()
    model, switching = make_model(strategy, kind.steps), Switching(watch if asks else None, kind)
    made = kind.make(strategy)
    if watch and asks and kind.first == 0:
        watch.set(prefetch=2)
    model.fit(
        *(made if isinstance(made, tuple) else (made,)),
        epochs=kind.epochs,
        verbose=0,
        callbacks=[switching, *([watch] if watch else [])],
        **kind.fit,
    )
    updates = int(keras.ops.convert_to_numpy(model.optimizer.iterations.value))
    return [switching.losses, updates, [weight.tolist() for weight in model.get_weights()]]


def compare(kind: Kind, folder: str, stock: list[Any]) -> dict[str, Any]:
    """Train with random switches; return whether all is equal to `stock`, and what was switched and refused."""
    watch = Watch(folder, kind.split)
    # As text, NaN equals NaN.
    is_equal = repr(train(kind, watch, asks=True)) == repr(stock)
    assert watch.run_path
    run = open_run(watch.run_path)
    switched = events_of(run, PipelineSwitched)
    return {
        "equal": is_equal,
        "switched": len(switched),
        "ahead": [event.step - event.asked_step for event in switched],
        "refused": sorted({event.reason for event in events_of(run, SwitchFailed)}),
        "notes": [event.text for event in events_of(run, Noted)],
        "fixed": run.manifest.fixed,
        "steps": len(run.steps),
    }


def fused(folder: str) -> dict[str, Any]:
    """Compare with a watched training: Keras' own fails with several steps of a call under this strategy."""
    kind = Kind(lambda strategy: full(), steps=3, epochs=5)
    return compare(kind, f"{folder}/fused", train(kind, Watch(f"{folder}/unasked"), asks=False))


class UntilRead(keras.callbacks.Callback):
    """Requests a prefetch, and waits in the second epoch until its stages have been read."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch, self._epoch = watch, 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._epoch == 0 and batch == 5:
            self._watch.set(prefetch=2)
        until = time.monotonic() + 20
        while (
            self._epoch == 1 and batch == 10 and not self._has_rows() and time.monotonic() < until
        ):
            time.sleep(0.02)

    def _has_rows(self) -> bool:
        return (
            (self._watch.run_path / "stages.bin").stat().st_size > 0
            if self._watch.run_path
            else False
        )


def stages(folder: str) -> dict[str, Any]:
    """Return the stages that were read once a relay gave the batches, and what run.json says of the knobs."""
    keras.utils.set_random_seed(3)
    strategy = make_strategy()
    watch = Watch(f"{folder}/stages")
    make_model(strategy, 1).fit(data(), epochs=2, verbose=0, callbacks=[watch, UntilRead(watch)])
    assert watch.run_path
    run = open_run(watch.run_path)
    return {
        "found": [event.names for event in events_of(run, StagesFound)][-1],
        "rows": len(run.stages),
        "switchable": run.manifest.switchable,
        "from_epoch": run.manifest.from_epoch,
    }


def untouched(folder: str) -> dict[str, Any]:
    """Train without a request; return whether anything was replaced."""
    with patch.object(RelayedEpochs, "install") as install:
        kind = Kind(epochs=2)
        is_equal = train(kind, Watch(f"{folder}/untouched"), asks=False) == train(
            kind, None, asks=False
        )
        return {"equal": is_equal, "installed": install.called}


def broken(folder: str) -> dict[str, Any]:
    """Train with a relay that cannot be built, at once and after it was built once."""
    seen = {}
    for name, before in {"first": [], "later": [False]}.items():
        fails = itertools.chain(before, itertools.repeat(True))
        make = RelayedEpochs._make

        def fail(self: RelayedEpochs, make: Any = make, fails: Any = fails) -> Any:
            if next(fails):
                raise AttributeError("no relay here")
            return make(self)

        with patch.object(RelayedEpochs, "_make", fail):
            seen[name] = compare(Kind(), f"{folder}/broken-{name}", train(Kind(), None, asks=False))
    return seen


def main(folder: str, *names: str) -> None:
    set_devices()
    Path(folder).mkdir(exist_ok=True)
    seen: dict[str, Any] = {}
    for number, (name, kind) in enumerate(kinds(folder).items()):
        if names and name not in names:
            continue
        seen[name] = compare(kind, f"{folder}/{number}", train(kind, None, asks=False))
    extra = {"fused": fused, "stages": stages, "untouched": untouched, "broken": broken}
    sys.stdout.write(json.dumps(seen | {name: make(folder) for name, make in extra.items()}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

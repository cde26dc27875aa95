"""The trainings of `tests.bench.pasted`: `pasted_script.py KIND BATCH STEPS ROUNDS LINE...`.

In each round, in turn: bare, with Watch, and for each line switched live and back, and pasted.
Prints a JSON object a training: the line, the steps in ms, and of a watched one the copies and the
longest step beside each switch.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf

from tfwatch import Watch
from tfwatch.core.events import PipelineSwitched
from tfwatch.runs.run import open_run

SIDE, IMAGES, EPOCH = 224, 64, 100
DEVICE = "/GPU:0" if tf.config.list_physical_devices("GPU") else "/CPU:0"


class Clock(keras.callbacks.Callback):
    """Notes when each step ends; switches a line on after a third of the steps, and back."""

    def __init__(self, watch: Watch | None, line: str, steps: int) -> None:
        super().__init__()
        self.ends: list[int] = []
        self.on, self.back = steps // 3, 2 * steps // 3
        self._watch, self._line = watch, line

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Note the time; switch."""
        self.ends.append(time.perf_counter_ns())
        if self._watch is None or not self._line:
            return
        knob, _, value = self._line.partition("=")
        if len(self.ends) == self.on:
            self._watch.set(**{knob: _value(knob, value)}, random_draws=True)
        elif len(self.ends) == self.back:
            default = "default" if knob in ("prefetch", "workers") else "off"
            self._watch.set(**{knob: _value(knob, default)})


def _value(knob: str, value: str) -> Any:
    return value == "on" if knob == "pinned" else value


def decode(file: Any, label: Any) -> Any:
    """Return an image of a JPEG."""
    image = tf.ensure_shape(tf.io.decode_jpeg(file, channels=3), (SIDE, SIDE, 3))
    return tf.cast(image, tf.float32), label


def decode_uint8(file: Any, label: Any) -> Any:
    """Return an image of a JPEG as bytes."""
    return tf.ensure_shape(tf.io.decode_jpeg(file, channels=3), (SIDE, SIDE, 3)), label


def augment(file: Any, label: Any) -> Any:
    """Return an image of a JPEG, flipped at random."""
    image, label = decode(file, label)
    return tf.image.random_flip_left_right(image), label


class Rows(keras.utils.PyDataset):
    """Batches of arrays."""

    def __init__(self, x: Any, y: Any, batch: int) -> None:
        super().__init__(workers=1)
        self._x, self._y, self._batch = x, y, batch

    def __len__(self) -> int:
        return len(self._x) // self._batch

    def __getitem__(self, index: int) -> Any:
        at = slice(index * self._batch, (index + 1) * self._batch)
        return self._x[at].copy(), self._y[at]


def files_of(batch: int, steps: int, function: Any, line: str, *, tuned: bool) -> Any:
    """Return a data set of JPEGs with a line pasted."""
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 255, (IMAGES, SIDE, SIDE, 3), dtype=np.uint8)
    files = [tf.io.encode_jpeg(image).numpy() for image in noise]
    data = tf.data.Dataset.from_tensor_slices((files, np.arange(IMAGES) % 10))
    data = data.repeat(batch * (steps + 40) // IMAGES)
    calls = {"workers=8": 8, "workers=auto": tf.data.AUTOTUNE}.get(line)
    calls = tf.data.AUTOTUNE if tuned else calls
    data = data.map(function, num_parallel_calls=calls).batch(batch, drop_remainder=True)
    return data.prefetch(tf.data.AUTOTUNE) if tuned else data


def arrays_of(batch: int) -> tuple[Any, Any]:
    """Return images and labels of an epoch."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 255, (batch * EPOCH, SIDE, SIDE, 3), dtype=np.uint8)
    return x.astype(np.float32), np.arange(len(x)) % 10


def pasted(data: Any, line: str) -> Any:
    """Return a data set with the line pasted at its end."""
    knob, _, value = line.partition("=")
    if knob == "prefetch":
        return data.prefetch(int(value))
    if knob == "pinned":
        data = data.apply(tf.data.experimental.map_and_batch(lambda *parts: parts, 1))
        return data.map(
            lambda *parts: tf.nest.map_structure(lambda part: tf.squeeze(part, 0), parts)
        )
    if knob == "device_prefetch":
        return data.apply(tf.data.experimental.prefetch_to_device(DEVICE, int(value)))
    return data


def fit_arguments(kind: str, batch: int, steps: int, line: str, arrays: Any) -> dict[str, Any]:
    """Return the arguments of `fit` for a kind of data with a line pasted."""
    functions = {"naive": decode, "tuned": decode, "random": augment, "uint8": decode_uint8}
    if kind in functions:
        data = files_of(batch, steps, functions[kind], line, tuned=kind == "tuned")
        return {"x": pasted(data, line), "steps_per_epoch": steps}
    x, y = arrays
    epochs = {"epochs": -(-steps // EPOCH)}
    if kind == "slices":
        data = tf.data.Dataset.from_tensor_slices((x, y)).repeat(epochs["epochs"]).batch(batch)
        return {"x": pasted(data, line), "steps_per_epoch": steps}
    if kind == "arrays":
        return {"x": x, "y": y, "batch_size": batch, **epochs}
    if kind == "pydataset":
        return {"x": Rows(x, y, batch), "shuffle": False, **epochs}
    rows = Rows(x, y, batch)
    batches = (rows[n % EPOCH] for n in range(steps + 40))
    return {"x": batches, "steps_per_epoch": steps}


def make_model(dtype: str) -> Any:
    """Return a small convolutional network."""
    model = keras.Sequential([keras.Input((SIDE, SIDE, 3), dtype=dtype)])
    model.add(keras.layers.Rescaling(1 / 255))
    for filters, size, strides in ((32, 5, 2), (64, 3, 2), (128, 3, 1), (128, 3, 1), (128, 3, 1)):
        model.add(keras.layers.Conv2D(filters, size, strides=strides, activation="relu"))
    model.add(keras.layers.GlobalAveragePooling2D())
    model.add(keras.layers.Dense(10))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, jit_compile=False)  # XLA compiles for a minute
    return model


def train(model: Any, given: dict[str, Any], steps: int, live: str | None) -> dict[str, Any]:
    """Train, and return the steps; live: the line that is switched, None without Watch."""
    with tempfile.TemporaryDirectory() as folder:
        watch = None if live is None else Watch(Path(folder))
        clock = Clock(watch, live or "", steps)
        began_ns = time.perf_counter_ns()
        model.fit(**given, verbose=0, callbacks=[clock, *([watch] if watch else [])])
        took_s = (time.perf_counter_ns() - began_ns) / 1e9
        found: dict[str, Any] = {"ms": np.diff(clock.ends) / 1e6, "took_s": took_s}
        if watch is not None and watch.run_path is not None:
            run = open_run(watch.run_path)
            copies = run.steps["copy_ms"].astype(float)
            found["copy_ms"] = [None if np.isnan(one) else one for one in copies]
            found["wait_ms"] = run.steps["wait_ms"].astype(float)
            switches = run.events.of(PipelineSwitched)
            found["switched"] = [[one.step, one.new, one.took_ms] for one in switches]
            found["events"] = [str(event) for event in run.events if "Fail" in str(event)][:3]
    return {key: _rounded(value) for key, value in found.items()}


def _rounded(value: Any) -> Any:
    return [round(float(one), 3) for one in value] if isinstance(value, np.ndarray) else value


def main() -> None:
    """Train every arm in each round."""
    kind, batch, steps, rounds = sys.argv[1], *map(int, sys.argv[2:5])
    arrays = arrays_of(batch) if kind in ("slices", "arrays", "pydataset", "generator") else None
    can_paste = kind not in ("generator", "pydataset", "arrays")
    model = make_model("uint8" if kind == "uint8" else "float32")
    if sys.argv[5:] == ["plain"]:  # as a user's script, for `tfwatch run`
        model.fit(**fit_arguments(kind, batch, steps, "", arrays), verbose=2)
        return
    train(model, fit_arguments(kind, batch, steps, "", arrays), 1, None)
    for number in range(rounds):
        arms: list[tuple[str, str]] = [("bare", ""), ("watch", "")]
        for line in sys.argv[5:]:
            arms += [("live", line), *([("pasted", line)] if can_paste else [])]
        for arm, line in arms if number % 2 == 0 else arms[::-1]:
            given = fit_arguments(kind, batch, steps, line if arm == "pasted" else "", arrays)
            live = {"bare": None, "live": line}.get(arm, "")
            row = train(model, given, steps, live)
            named = {"kind": kind, "batch": batch, "arm": arm, "line": line, "round": number}
            print(json.dumps({**named, **row}), flush=True)


if __name__ == "__main__":
    main()

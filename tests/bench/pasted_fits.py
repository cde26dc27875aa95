"""The trainings of `tests.bench.pasted`, by kinds of data: with a line pasted, or switched live.

tfwatch run tests/bench/pasted_fits.py KIND BATCH STEPS      one as a user's script
"""

import os
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf

from tfwatch import Watch
from tfwatch.core.events import PipelineSwitched
from tfwatch.core.rows import STEP
from tfwatch.runs.run import open_run
from tfwatch.watch.fit.fit_runs import complete_runs

SIDE, IMAGES = 224, 64
#: The examples of each part of a fit and of an epoch of arrays, the fewest steps and the most: a
#: switch takes up to 0.2 s, 130 steps of batches of two images.
_PART, _EPOCH = (3840, 30, 600), (12800, 25, 250)
DEVICE = "/GPU:0" if tf.config.list_physical_devices("GPU") else "/CPU:0"
#: The lines that are tried, by the kind of data.
LINES = {
    "naive": ("prefetch=4", "workers=8", "device_prefetch=2"),
    "uint8": ("prefetch=4", "workers=8", "device_prefetch=2"),
    "tuned": ("prefetch=4", "device_prefetch=2"),
    "random": ("workers=auto",),
    "slices": ("prefetch=4", "pinned=on", "device_prefetch=2"),
    "arrays": ("pinned=on", "device_prefetch=2"),
    "generator": ("pinned=on", "device_prefetch=2"),
    "pydataset": ("pinned=on", "device_prefetch=2"),
}
#: Lines that are pasted together, of which the fastest is the best by hand.
_IN_MEMORY = (("pinned=on",), ("pinned=on", "prefetch=2"), ("pinned=on", "device_prefetch=2"))
_OF_FILES = (("workers=auto", "prefetch=4"), ("workers=auto", "device_prefetch=2"))
HANDS: dict[str, tuple[tuple[str, ...], ...]] = {
    **dict.fromkeys(("naive", "uint8", "random"), _OF_FILES),
    "tuned": (("device_prefetch=2",),),
    **dict.fromkeys(("slices", "arrays", "generator", "pydataset"), _IN_MEMORY),
}
OF_ARRAYS = ("slices", "arrays", "generator", "pydataset")


def part_of(batch: int) -> int:
    """Return the steps of each part of a fit, of which the first third is left out."""
    return _steps_of(batch, *_PART)


def _steps_of(batch: int, examples: int, least: int, most: int) -> int:
    return min(max(examples // batch, least), most)


class Clock(keras.callbacks.Callback):
    """Notes when each step ends; switches a line on after a part of the steps, and back."""

    def __init__(self, watch: Watch | None, line: str, part: int) -> None:
        super().__init__()
        self.ends: list[int] = []
        self._watch, self._line, self._part = watch, line, part

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Note the time; switch."""
        self.ends.append(time.perf_counter_ns())
        if self._watch is None or not self._line:
            return
        knob, _, value = self._line.partition("=")
        if len(self.ends) == self._part:
            self._watch.set(**{knob: _value(knob, value)}, random_draws=True)
        elif len(self.ends) == 2 * self._part:
            default = "default" if knob in ("prefetch", "workers") else "off"
            self._watch.set(**{knob: _value(knob, default)})


def _value(knob: str, value: str) -> Any:
    return value == "on" if knob == "pinned" else value


def decode(file: Any, label: Any) -> Any:
    """Return an image of a JPEG."""
    image, label = decode_uint8(file, label)
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


@cache
def _image_files() -> list[bytes]:
    """Return JPEGs of gradients with a little noise, which are decoded as fast as photographs."""
    rng = np.random.default_rng(0)
    slopes = rng.uniform(0, 1, (IMAGES, 1, 1, 3)) * np.arange(SIDE)[None, :, None, None]
    images = slopes + rng.normal(0, 4, (IMAGES, SIDE, SIDE, 3))
    images = np.clip(images, 0, 255).astype(np.uint8)
    return [tf.io.encode_jpeg(image).numpy() for image in images]


def files_of(batch: int, steps: int, function: Any, lines: tuple[str, ...], *, tuned: bool) -> Any:
    """Return a data set of JPEGs, with lines for the map pasted."""
    data = tf.data.Dataset.from_tensor_slices((_image_files(), np.arange(IMAGES) % 10))
    data = data.repeat(batch * (steps + 40) // IMAGES + 1)
    calls = tf.data.AUTOTUNE if tuned else None
    for line in lines:
        knob, _, value = line.partition("=")
        calls = _number(value) if knob == "workers" else calls
    data = data.map(function, num_parallel_calls=calls).batch(batch, drop_remainder=True)
    return data.prefetch(tf.data.AUTOTUNE) if tuned else data


def arrays_of(batch: int) -> tuple[Any, Any]:
    """Return images and labels of an epoch."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 255, (batch * _steps_of(batch, *_EPOCH), SIDE, SIDE, 3), dtype=np.uint8)
    return x.astype(np.float32), np.arange(len(x)) % 10


def _number(value: str) -> int:
    return int(tf.data.AUTOTUNE) if value == "auto" else int(value)


def pasted(data: Any, line: str) -> Any:
    """Return a data set with the line pasted at its end."""
    knob, _, value = line.partition("=")
    if knob == "prefetch":
        return data.prefetch(_number(value))
    if knob == "pinned":
        by_two = tf.data.experimental.map_and_batch(lambda *parts: parts, 1, num_parallel_calls=2)
        data = data.apply(by_two)
        return data.map(
            lambda *parts: tf.nest.map_structure(lambda part: tf.squeeze(part, 0), parts)
        )
    if knob == "device_prefetch":
        return data.apply(tf.data.experimental.prefetch_to_device(DEVICE, int(value)))
    return data


def _as_keras_reads(arguments: dict[str, Any]) -> Any:
    """Return the data set that Keras makes of arrays, a generator or a `PyDataset`."""
    from keras.src.trainers import data_adapters

    x, y = arguments["x"], arguments.get("y")
    adapter = data_adapters.get_data_adapter(
        x, y, batch_size=arguments.get("batch_size"), shuffle=arguments.get("shuffle", True)
    )
    return adapter.get_tf_dataset()


def fit_arguments(
    kind: str, batch: int, steps: int, lines: tuple[str, ...], arrays: Any
) -> dict[str, Any]:
    """Return the arguments of `fit` for a kind of data with lines pasted; none: as written."""
    arguments = _arguments(kind, batch, steps, lines, arrays)
    if not lines:
        return arguments
    data = arguments["x"]
    if not isinstance(data, tf.data.Dataset):
        epochs = arguments.get("epochs", 1)
        data = _as_keras_reads(arguments)
        each = arguments.get("steps_per_epoch", _steps_of(batch, *_EPOCH))
        arguments = {"steps_per_epoch": each, "epochs": epochs}
        data = data.repeat(epochs) if epochs > 1 else data
    for line in lines:
        data = pasted(data, line)
    return {**arguments, "x": data}


def _arguments(
    kind: str, batch: int, steps: int, lines: tuple[str, ...], arrays: Any
) -> dict[str, Any]:
    functions = {"naive": decode, "tuned": decode, "random": augment, "uint8": decode_uint8}
    if kind in functions:
        data = files_of(batch, steps, functions[kind], lines, tuned=kind == "tuned")
        return {"x": data, "steps_per_epoch": steps}
    x, y = arrays
    epochs = -(-steps // _steps_of(batch, *_EPOCH))
    if kind == "slices":
        data = tf.data.Dataset.from_tensor_slices((x, y)).repeat(epochs).batch(batch)
        return {"x": data, "steps_per_epoch": steps}
    if kind == "arrays":
        return {"x": x, "y": y, "batch_size": batch, "epochs": epochs}
    if kind == "pydataset":
        return {"x": Rows(x, y, batch), "shuffle": False, "epochs": epochs}
    return {"x": _generate(Rows(x, y, batch), steps + 40), "steps_per_epoch": steps}


def _generate(rows: Rows, steps: int) -> Iterator[Any]:
    for number in range(steps):
        yield rows[number % len(rows)]


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


class Fit:
    """One training: its steps, and what a Watch recorded of them."""

    def __init__(self, model: Any, given: dict[str, Any], live: str | None, part: int) -> None:
        """live: the line that is switched after a part of the steps, None without Watch."""
        with tempfile.TemporaryDirectory() as folder:
            watch = None if live is None else Watch(Path(folder))
            clock = Clock(watch, live or "", part)
            began_ns = time.perf_counter_ns()
            model.fit(**given, verbose=0, callbacks=[clock, *([watch] if watch else [])])
            self._part = part
            self.took_s = (time.perf_counter_ns() - began_ns) / 1e9
            complete_runs()  # one that waits for a next fit would run beside a bare one
            self.ms = np.diff(clock.ends) / 1e6
            self.rows = np.empty(0, STEP)
            self.copy_ms = np.full(len(self.ms), np.nan)
            self.switched: list[Any] = []
            self.failed: list[str] = []
            if watch is not None and watch.run_path is not None:
                run = open_run(watch.run_path)
                self.rows = run.steps[:]
                self.copy_ms = run.steps["copy_ms"].astype(float)[1:]
                switches = run.events.of(PipelineSwitched)
                self.switched = [[one.step, one.new, one.took_ms] for one in switches]
                self.failed = [str(event) for event in run.events if "Fail" in str(event)][:3]

    def medians(self, first: int, last: int) -> list[float | None]:
        """Return the medians of step and copy of a range of steps, ms."""
        ms, copy_ms = self.ms[first:last], self.copy_ms[first:last]
        has_copy = bool(np.isfinite(copy_ms).any())
        return [
            round(float(np.median(ms)), 4),
            round(float(np.nanmedian(copy_ms)), 3) if has_copy else None,
        ]

    def row(self, *, is_live: bool = False) -> dict[str, Any]:
        """Return what is kept of it."""
        row: dict[str, Any] = {"took_s": round(self.took_s, 2)}
        part = self._part
        count = 3 if is_live else 1
        names = ("written", "live", "back") if is_live else ("all",)
        for at, name in zip(range(count), names, strict=True):
            row[name] = self.medians(at * part + part // 3, (at + 1) * part - 1)
        if is_live:
            beside, before = self.ms[part - 1 : part + part // 5], self.ms[part // 3 : part]
            row["pause_ms"] = round(float(beside.max() - np.median(before)), 1)
            row["switched"], row["failed"] = len(self.switched), self.failed
        return row


def main() -> None:
    """Train as a user's script does."""
    kind, batch, steps = sys.argv[1], *map(int, sys.argv[2:4])
    arrays = arrays_of(batch) if kind in OF_ARRAYS else None
    model = make_model("uint8" if kind == "uint8" else "float32")
    model.fit(**fit_arguments(kind, batch, steps, (), arrays), verbose=2)


if __name__ == "__main__":
    main()

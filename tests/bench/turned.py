"""Trainings whose knobs are switched: plain scripts with injected loaders before convolutions."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from tests.bench.injected import Sleeping, Sleeps
from tests.bench.starvation import CLASSES, SIZE, delayed
from tfwatch import Watch
from tfwatch.core.events import PipelineSwitched
from tfwatch.core.knobs import Knobs
from tfwatch.runs.run import follow_folder
from tfwatch.tfdata import work_ahead

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: The least steps and seconds of a setting: a comparison takes 60 steps, and stages are read once a
#: second.
STEPS, SECONDS = 72, 1.9
#: More steps of the first setting: compile, and the start of the pipeline.
FIRST_STEPS = 15
#: Files of a batch.
FILES = 8
_LOOK_S = 0.01
#: A switch that has no effect after this time ends the training, and is printed.
_SWITCH_S = 30.0
#: Loops of one measurement of `_loops_per_ms`, over so many numbers.
_LOOPS, _NUMBERS = 500, 4096


@dataclass(frozen=True)
class Case:
    """A training and its switches, as (knob, value) in order.

    load_ms: the times of a batch's loading, in turn. computes: the loader computes instead of
    sleeping: a map that sleeps is stateful, and workers leave it serial. sleeps: where there is no
    GPU, the step sleeps instead of computing.
    """

    name: str
    turns: Sequence[tuple[str, Any]]
    load_ms: tuple[float, ...]
    computes: bool = False
    sleeps: bool = False


def make_sleeper(step_ms: float) -> Any:
    """Return a model whose step sleeps and so needs no core, like a step on another device."""
    image, sleeping = keras.Input((SIZE, SIZE, 3)), Sleeping()
    sleeping.sleeps = Sleeps(np.full(1, step_ms))
    pooled = keras.layers.GlobalAveragePooling2D()(sleeping(image))
    model = keras.Model(image, keras.layers.Dense(CLASSES, activation="softmax")(pooled))
    model.compile("sgd", "sparse_categorical_crossentropy", jit_compile=False)
    return model


def run(case: Case, model: Any, batch: int, runs_dir: Path) -> Path:
    """Train a case to its end; returns the run folder."""
    watch, over = Watch(runs_dir), threading.Event()
    threading.Thread(target=_turn, args=(case.turns, watch, model, over), daemon=True).start()
    try:
        model.fit(_loader(case, batch), steps_per_epoch=10**6, verbose=0, callbacks=[watch])
    finally:
        over.set()
    assert watch.run_path
    return watch.run_path


def _loader(case: Case, batch: int) -> tf.data.Dataset:
    rng = np.random.default_rng(0)
    with tf.device("/CPU:0"):
        x = tf.constant(rng.normal(size=(batch, SIZE, SIZE, 3)).astype("float32"))
        y = tf.constant(rng.integers(0, CLASSES, size=batch))
        load_ms = tf.constant(case.load_ms, tf.float64)

    load = _computed if case.computes else delayed

    def load_one(number: tf.Tensor) -> tf.Tensor:
        return load(number, tf.gather(load_ms, (number // FILES) % len(case.load_ms)) / FILES)

    numbers = tf.data.Dataset.range(10**9).map(load_one).batch(FILES)
    return numbers.map(lambda _: (x, y)).with_options(work_ahead.options(Knobs()))


def _computed(number: tf.Tensor, work_ms: tf.Tensor) -> tf.Tensor:
    """Return the number after work on one core."""
    loops = tf.cast(work_ms * _loops_per_ms(), tf.int32)
    return number + tf.cast(_compute(loops) > 1, number.dtype)


@tf.function
def _compute(loops: tf.Tensor) -> tf.Tensor:
    """Return a number below 1 after so many loops."""
    _, numbers = tf.while_loop(
        lambda n, _: n < loops,
        lambda n, numbers: (n + 1, tf.tanh(numbers)),
        (0, tf.ones(_NUMBERS)),
        parallel_iterations=1,
    )
    return numbers[0]


@cache
def _loops_per_ms() -> float:
    with tf.init_scope(), tf.device("/CPU:0"):
        took_s = min(_measure_s() for _ in range(5))
    return _LOOPS / (took_s * 1e3)


def _measure_s() -> float:
    begun_s = time.perf_counter()
    _compute(tf.constant(_LOOPS)).numpy()
    return time.perf_counter() - begun_s


def _turn(
    turns: Sequence[tuple[str, Any]], watch: Watch, model: Any, over: threading.Event
) -> None:
    """Switch each knob after the setting before it has lasted long enough, then stop the
    training."""
    while watch.run_path is None:
        if over.wait(_LOOK_S):
            return
    reader, since = follow_folder(watch.run_path), FIRST_STEPS
    for turn in [*turns, None]:
        begun_ns = time.perf_counter_ns()
        while (
            reader.read().steps_total < since + STEPS
            or time.perf_counter_ns() - begun_ns < SECONDS * 1e9
        ):
            if over.wait(_LOOK_S):
                return
        if turn is None:
            model.stop_training = True
            return
        switched, asked_s = len(reader.read().events.of(PipelineSwitched)), time.perf_counter()
        knob, value = turn
        watch.set(**{knob: value})
        while len(reader.read().events.of(PipelineSwitched)) == switched:
            if time.perf_counter() - asked_s > _SWITCH_S:
                print(f"{knob} {value} has no effect after {_SWITCH_S:.0f} s", flush=True)
                model.stop_training = True
                return
            if over.wait(_LOOK_S):
                return
        since = reader.read().steps_total

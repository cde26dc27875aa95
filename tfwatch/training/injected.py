"""Trainings with known delays: what `tfwatch selftest` compares Watch's figures with.

Each step sleeps in its fetch, in its compute and in its host part, or not, by a seeded schedule, and each sleep
times itself. The steps without a sleep in a part give that part's own cost, which is taken off.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from tfwatch.core.events import PipelineSwitched
from tfwatch.core.knobs import Knobs
from tfwatch.runs.opened import open_run
from tfwatch.training.hands import options
from tfwatch.training.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tfwatch.core.rows import Rows

#: By default tf.data works ahead of the step, which hides a delay in the fetch.
_OFF = Knobs()
PARTS = ("wait", "compute", "host")
SPIKE_MS = 60.0
_BATCH = 8
#: Steps at an epoch's start that are left out: trace, first batch.
_WARM_UP = 4


@dataclass(frozen=True, slots=True)
class Schedule:
    """One training. `*_ms`: the sleep in that part.

    share: of the steps that sleep. The others have none, and tell what the part costs by itself.
    spikes: this many steps wait 60 ms more.
    prefetch: switched to this `buffer_size` half way; 0 is no switch.
    kind: how the batches come: `dataset`, `unknown` (no known cardinality), `generator`, `eager`, `validation`.
    """

    wait_ms: float
    compute_ms: float
    host_ms: float = 0.0
    kind: str = "dataset"
    share: float = 0.5
    steps: int = 64
    spikes: int = 0
    prefetch: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """What was injected into one part of the steps and what Watch said of it: medians, ms."""

    part: str
    injected_ms: float
    measured_ms: float


@dataclass(frozen=True, eq=False)
class Trained:
    """One training's figures.

    found: the parts that slept in some of the steps. wall_error: how far the parts are from filling the time, as a
    share of it. spikes: the steps that were held up, counted from 1. switched: the first step after a switch.
    """

    found: list[Found]
    wall_error: float
    rows: Rows
    spikes: list[int]
    switched: int | None


class _Sleeps:
    """Sleeps by a seeded schedule, and how long each sleep really took."""

    def __init__(self, milliseconds: float, schedule: Schedule, rng: np.random.Generator) -> None:
        self.planned_ms = np.where(rng.random(schedule.steps) < schedule.share, milliseconds, 0.0)
        self.took_ms: list[float] = []

    def sleep(self) -> None:
        planned_ms = self.planned_ms[len(self.took_ms) % len(self.planned_ms)]
        start_ns = time.perf_counter_ns()
        if planned_ms:
            time.sleep(planned_ms / 1e3)
        self.took_ms.append((time.perf_counter_ns() - start_ns) / 1e6 if planned_ms else 0.0)


def train(schedule: Schedule, runs_dir: Path, seed: int) -> Trained:
    """Train once with Watch and compare. The run folder is left in `runs_dir`."""
    rng = np.random.default_rng(seed)
    asked = dict(zip(PARTS, (schedule.wait_ms, schedule.compute_ms, schedule.host_ms), strict=True))
    sleeps = {part: _Sleeps(milliseconds, schedule, rng) for part, milliseconds in asked.items()}
    spikes = _spread(schedule, rng)
    sleeps["wait"].planned_ms[spikes] += SPIKE_MS
    model = _model(sleeps["compute"], eager=schedule.kind == "eager")
    watch = Watch(runs_dir)

    def after_a_step(batch: int, logs: Any) -> None:
        if schedule.prefetch and batch == schedule.steps // 2:
            watch.set(prefetch=schedule.prefetch)
        sleeps["host"].sleep()

    host = keras.callbacks.LambdaCallback(on_train_batch_end=after_a_step)
    validation = _constant(4) if schedule.kind == "validation" else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras says of data of unknown length that it ran out
        model.fit(_batches(schedule, sleeps["wait"]), verbose=0, callbacks=[watch, host], validation_data=validation)
    run = open_run(watch.run_path or "")
    rows, switches = run.steps, [event.step for event in run.events if isinstance(event, PipelineSwitched)]
    found = [_compare(part, rows, sleeps[part].took_ms) for part in PARTS if asked[part] and schedule.share < 1]
    return Trained(found, _wall_error(rows), rows, [n + 1 for n in spikes], switches[0] if switches else None)


def _spread(schedule: Schedule, rng: np.random.Generator) -> list[int]:
    """One step in each of as many equal stretches as there are spikes, for many close together are no spikes."""
    stretches = np.array_split(np.arange(_WARM_UP, schedule.steps - 1), max(schedule.spikes, 1))
    return [int(rng.choice(stretch)) for stretch in stretches[: schedule.spikes]]


def _compare(part: str, rows: Rows, took_ms: list[float]) -> Found:
    """Keras builds its metrics on a first batch, beyond those of the steps: the last sleeps are the steps'."""
    kept = slice(_WARM_UP, -1)
    told, slept = rows[f"{part}_ms"][kept], np.array(took_ms[-len(rows) :])[kept]
    own_ms = np.median(told[slept == 0])
    error_ms = np.median((told - own_ms - slept)[slept > 0])
    injected_ms = float(np.median(slept[slept > 0]))
    return Found(part, injected_ms, injected_ms + float(error_ms))


def _wall_error(rows: Rows) -> float:
    total_ms = float(sum(rows[f"{part}_ms"][:-1].astype(np.float64).sum() for part in PARTS))
    wall_ms = float(rows["start_ns"][-1] - rows["start_ns"][0]) / 1e6
    return abs(total_ms - wall_ms) / wall_ms


class _Sleeping(keras.layers.Layer):
    """Hands its input on, later, while training."""

    def __init__(self, sleeps: _Sleeps) -> None:
        super().__init__()
        self._sleeps = sleeps

    def call(self, x: Any, training: bool = False) -> Any:
        if not training:
            return x
        # It takes the input, so that it cannot run in the phantom step that Keras makes at the end of data.
        slept = tf.numpy_function(lambda _: self._sleeps.sleep(), [x], [])
        with tf.control_dependencies([slept] if isinstance(slept, tf.Operation) else []):
            return tf.identity(x)


def _model(sleeps: _Sleeps, *, eager: bool) -> Any:
    x = keras.Input((4,))
    model = keras.Model(x, keras.layers.Dense(1)(_Sleeping(sleeps)(x)))
    model.compile("sgd", "mse", run_eagerly=eager, jit_compile=False)
    return model


def _constant(batches: int) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors((tf.ones((_BATCH, 4)), tf.ones((_BATCH, 1)))).repeat(batches)


def _batches(schedule: Schedule, sleeps: _Sleeps) -> tf.data.Dataset:
    if schedule.kind == "generator":
        return _generated(schedule.steps, sleeps)

    def late(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        tf.numpy_function(lambda _: sleeps.sleep(), [x], [])
        return x, y

    batches = _constant(schedule.steps).map(late)
    batches = batches.filter(lambda x, y: True) if schedule.kind == "unknown" else batches
    return batches.with_options(options(_OFF))


def _generated(steps: int, sleeps: _Sleeps) -> tf.data.Dataset:
    x, y = np.ones((_BATCH, 4), np.float32), np.ones((_BATCH, 1), np.float32)

    def batches() -> Iterator[Any]:
        for _ in range(steps):
            sleeps.sleep()
            yield x, y

    signature = (tf.TensorSpec((None, 4)), tf.TensorSpec((None, 1)))
    return tf.data.Dataset.from_generator(batches, output_signature=signature).with_options(options(_OFF))

"""Trainings whose knobs are switched: injected loaders before convolutions, and tfwatch's workloads."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from tests.bench.starvation import CLASSES, SIZE
from tfwatch import Watch
from tfwatch.checks.injected_trainings import Sleeping, Sleeps
from tfwatch.core.events import PipelineSwitched
from tfwatch.core.knobs import Knobs, describe
from tfwatch.runs.control.requests import Control, Request
from tfwatch.runs.create import begin_run
from tfwatch.runs.reading.reader import RunReader
from tfwatch.sensors.runner import Sensors
from tfwatch.tfdata import work_ahead
from tfwatch.training.request import Plan
from tfwatch.training.trainer import Trainer
from tfwatch.watch.session import Session
from tfwatch.watch.tensorflow_info import find_device
from tfwatch.workloads import registry
from tfwatch.workloads.data.jpeg import delayed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tfwatch.runs.writer import RunWriter

#: The least steps and seconds of a setting: a comparison takes 60 steps, and stages are read once a second.
STEPS, SECONDS = 72, 1.9
#: More steps of the first setting: compile, and the start of the pipeline.
FIRST_STEPS = 15
#: Files of a batch in the sequential form.
FILES = 8
_LOOK_S = 0.01


@dataclass(frozen=True)
class Case:
    """A training and its switches, as (knob, value) in order.

    workload: one of tfwatch's own; empty is a loader whose batches take `load_ms`, in turn, and `fast_ms` in its fast
    form. sleeps: where there is no GPU, the step sleeps instead of computing.
    """

    name: str
    knobs: Knobs
    turns: Sequence[tuple[str, Any]]
    load_ms: tuple[float, ...] = (0.0,)
    fast_ms: float = 0.0
    workload: str = ""
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
    entry = registry.find(case.workload) if case.workload else None
    names = [name for name in describe(case.knobs) if entry is None or entry.has(name)]
    if entry is None:
        names = [
            name for name in names if name in ("prefetch", "workers", "latency_ms", "fast_pipeline")
        ]
    knobs = {name: value for name, value in describe(case.knobs).items() if name in names}
    settings = {"fast_pipeline": entry.fast if entry else "whole batches"}
    writer, lost = begin_run(
        runs_dir,
        case.workload or "injected",
        knobs=knobs,
        switchable=names,
        settings=settings,
        batch_size=FILES if entry is None else 32,
    )
    assert not lost, lost
    assert writer.folder
    control, sensors = Control(case.knobs), Sensors(writer)
    sensors.start()
    over = threading.Event()
    threading.Thread(target=_turn, args=(case.turns, control, writer, over), daemon=True).start()
    try:
        if case.workload:
            _train_workload(case, writer, control)
        else:
            _train_injected(case, model, batch, writer, control)
    finally:
        over.set()
        sensors.stop()
        writer.close()
    return writer.folder


def _train_workload(case: Case, writer: RunWriter, control: Control) -> None:
    settings = registry.settle(case.workload, {"epochs": 200, "seed": 1})
    trainer = Trainer(Plan(case.workload, settings, case.knobs), writer, control)
    trainer.start()
    trainer.done.wait()
    assert trainer.outcome
    assert trainer.outcome.cause == "stopped", trainer.outcome


def _train_injected(
    case: Case, model: Any, batch: int, writer: RunWriter, control: Control
) -> None:
    device = find_device()
    writer.describe(device=device.name, accelerated=device.accelerated)
    source = tf.data.Dataset.range(10**9).batch(FILES).with_options(work_ahead.options(Knobs()))
    session = Session(
        writer,
        control,
        build=_loader(case, batch),
        source=source.with_options(work_ahead.without_autotune()),
    )
    spec = session.build(source, case.knobs).element_spec
    one = tf.nest.map_structure(lambda s: tf.zeros(s.shape, s.dtype), spec)
    stand_in = (
        tf.data.Dataset.from_tensors(one).repeat().with_options(work_ahead.without_autotune())
    )
    model.fit(stand_in, steps_per_epoch=10**6, verbose=0, callbacks=[Watch(session=session)])
    writer.end("stopped")


def _loader(case: Case, batch: int) -> Callable[[tf.data.Dataset, Knobs], tf.data.Dataset]:
    rng = np.random.default_rng(0)
    with tf.device("/CPU:0"):
        x = tf.constant(rng.normal(size=(batch, SIZE, SIZE, 3)).astype("float32"))
        y = tf.constant(rng.integers(0, CLASSES, size=batch))
        load_ms = tf.constant(case.load_ms, tf.float64)

    def load_one(number: tf.Tensor) -> tf.Tensor:
        return delayed(number, tf.gather(load_ms, (number // FILES) % len(case.load_ms)) / FILES)

    def build(numbers: tf.data.Dataset, knobs: Knobs) -> tf.data.Dataset:
        workers = work_ahead.num_parallel_calls(knobs.workers)
        if knobs.latency_ms:
            numbers = numbers.map(lambda n: delayed(n, knobs.latency_ms), workers)
        if knobs.fast_pipeline:
            loaded = numbers.map(lambda n: delayed(n, case.fast_ms), num_parallel_calls=workers)
        else:
            loaded = numbers.unbatch().map(load_one, num_parallel_calls=workers).batch(FILES)
        batches = loaded.map(lambda _: (x, y))
        ahead = work_ahead.buffer_size(knobs.prefetch)
        return (batches if ahead is None else batches.prefetch(ahead)).with_options(
            work_ahead.options(knobs)
        )

    return build


def _turn(
    turns: Sequence[tuple[str, Any]], control: Control, writer: RunWriter, over: threading.Event
) -> None:
    """Switch each knob after the setting before it has lasted long enough, then stop the training."""
    reader, since = RunReader(writer), FIRST_STEPS
    for turn in [*turns, None]:
        begun_ns = time.perf_counter_ns()
        while writer.status[2] < since + STEPS or time.perf_counter_ns() - begun_ns < SECONDS * 1e9:
            if over.wait(_LOOK_S):
                return
        if turn is None:
            control.stop.set()
            return
        switched = len(reader.tail().events.of(PipelineSwitched))
        control.ask(Request(*turn, by="code"))
        while len(reader.tail().events.of(PipelineSwitched)) == switched:
            if over.wait(_LOOK_S):
                return
        since = writer.status[2]

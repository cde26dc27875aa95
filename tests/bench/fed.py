"""Trainings whose knobs another thread switches, and whose batches are identified by checksums of their labels."""

from __future__ import annotations

import functools
import itertools
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from tests.bench.starvation import CLASSES, SIZE, make_model
from tests.bench.turned import make_sleeper
from tfwatch.core.knobs import Knobs, describe
from tfwatch.runs.control.requests import Control
from tfwatch.runs.create import begin_run
from tfwatch.sensors.runner import Sensors
from tfwatch.tfdata import work_ahead
from tfwatch.tfdata.shuffle import Shuffle
from tfwatch.watch.fit.callback import Watch
from tfwatch.watch.session import Session
from tfwatch.watch.tensorflow_info import find_device
from tfwatch.workloads import registry
from tfwatch.workloads.data import numbered_examples
from tfwatch.workloads.data.jpeg import delayed
from tfwatch.workloads.workload import Prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tfwatch.runs.writer import RunWriter

SEED = 3
#: Elements of a batch of the injected loaders; on a GPU, each stands for several images.
_LABELS, _IMAGES = 8, 32
#: Batches of an epoch of them.
_STEPS = 50_000
#: Batches that are searched on both sides for one out of order.
_MORE = 256
#: More epochs than any benchmark trains.
_EPOCHS = 10_000


@dataclass(frozen=True)
class Case:
    """A pipeline at its worst setting.

    workload: a built-in one; empty is an injected loader. example_ms: the loader's sleep for each example of a batch.
    fast_ms: that for a whole batch in the fast pipeline; None without one. The latency is in `knobs`. step_ms: the
    model's step; without a GPU it sleeps, so that it needs no core.
    """

    name: str
    knobs: Knobs = field(default_factory=Knobs)
    workload: str = ""
    example_ms: float = 0.0
    fast_ms: float | None = None
    step_ms: float = 10.0

    @property
    def turns(self) -> tuple[str, ...]:
        """The knobs that are switched."""
        entry = registry.find(self.workload) if self.workload else None
        fast = bool(entry.fast) if entry else self.fast_ms is not None
        return ("prefetch", "workers", "fast_pipeline") if fast else ("prefetch", "workers")


@dataclass(frozen=True)
class TrainingResult:
    """The checksums of a training's batches in the order of the steps, and the expected ones.

    due: more than the steps, so that a batch that came too early is found.
    """

    seen: list[int]
    due: list[int]

    @property
    def broken(self) -> str:
        """The first error in the order; empty where every batch came once and in order."""
        pairs = enumerate(zip(self.seen, self.due, strict=False))
        at = next((n for n, (seen, due) in pairs if seen != due), None)
        if at is None:
            return (
                ""
                if 0 < len(self.seen) <= len(self.due)
                else f"{len(self.seen)} steps, {len(self.due)} batches"
            )
        near = range(max(at - _MORE, 0), min(at + _MORE, len(self.due)))
        places = [n + 1 for n in near if self.due[n] == self.seen[at]]
        return f"at step {at + 1}: " + (
            f"the batch of step {places[0]}" if places else "a batch of no step near it"
        )


class Checksum(keras.metrics.Metric):
    """The checksum of the last batch's labels and their order."""

    def __init__(self) -> None:
        super().__init__(name="checksum")
        self.last = self.add_weight(name="last", initializer="zeros", dtype="float32")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Compute the checksum of a batch."""
        self.last.assign(_checksum(y_true))

    def result(self) -> Any:
        """Return the checksum of the last batch."""
        return self.last + 0.0


def _checksum(labels: Any) -> Any:
    """Return a checksum below 2**24, which a float holds exactly."""
    flat = tf.cast(tf.reshape(labels, (-1,)), tf.int64)
    return tf.cast(
        tf.reduce_sum(flat * (1 + 7 * tf.range(tf.size(flat, tf.int64)))) % 16_000_057, tf.float32
    )


def train(
    case: Case, runs_dir: Path, conduct: Callable[[RunWriter, Control], None]
) -> TrainingResult:
    """Train until `conduct`, which switches knobs in a separate thread, returns."""
    prepared = _prepared(case)
    device = find_device()
    knobs = {
        name: value
        for name, value in describe(case.knobs).items()
        if name in (*case.turns, "latency_ms")
    }
    settings = {"fast_pipeline": "whole batches"}
    size = 32 if case.workload else _LABELS
    writer, lost = begin_run(
        runs_dir, case.name, knobs=knobs, switchable=list(knobs), settings=settings, batch_size=size
    )
    assert not lost, lost
    writer.describe(device=device.name, accelerated=device.accelerated or not case.workload)
    control, sensors = Control(case.knobs), Sensors(writer)
    recorder = _Recorder(prepared.labels)
    sensors.start()
    conductor = threading.Thread(target=_conducted, args=(conduct, writer, control), daemon=True)
    conductor.start()
    try:
        _fit(prepared.prepared, writer, control, recorder)
    finally:
        control.stop.set()
        conductor.join()
        writer.end("stopped")
        sensors.stop()
        writer.close()
    return TrainingResult(
        recorder.seen,
        list(itertools.islice(recorder.due(_prepared(case).prepared), len(recorder.seen) + _MORE)),
    )


def _conducted(
    conduct: Callable[[RunWriter, Control], None], writer: RunWriter, control: Control
) -> None:
    try:
        conduct(writer, control)
    finally:
        control.stop.set()


class _Recorder(keras.callbacks.Callback):
    def __init__(self, labels: Callable[[Any], Any]) -> None:
        super().__init__()
        self.seen: list[int] = []
        self._labels = labels

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.seen.append(int(logs["checksum"]))

    def due(self, prepared: Prepared) -> Iterator[int]:
        """Yield the checksums of the same source without switches."""
        for _ in range(_EPOCHS):
            for element in prepared.source:
                yield int(_checksum(self._labels(element)))


@dataclass(frozen=True)
class _Known:
    """A workload, and the labels of an element of its source."""

    prepared: Prepared
    labels: Callable[[Any], Any]


def _fit(prepared: Prepared, writer: RunWriter, control: Control, recorder: _Recorder) -> None:
    model = prepared.model()
    model.compile(
        optimizer=model.optimizer, loss=model.loss, metrics=[Checksum()], jit_compile=False
    )
    session = Session(
        writer,
        control,
        build=prepared.pipeline,
        source=prepared.source,
        shuffle=prepared.shuffle,
        store=prepared.store,
        metric="checksum",
    )
    spec = prepared.pipeline(prepared.source, control.knobs).element_spec
    one = tf.nest.map_structure(lambda s: tf.zeros([n or 1 for n in s.shape], s.dtype), spec)
    stand_in = (
        tf.data.Dataset.from_tensors(one)
        .repeat(prepared.steps_per_epoch)
        .with_options(work_ahead.without_autotune())
    )
    model.fit(
        stand_in,
        epochs=_EPOCHS,
        verbose=0,
        shuffle=False,
        callbacks=[Watch(session=session), recorder],
    )


def _prepared(case: Case) -> _Known:
    keras.utils.set_random_seed(SEED)  # a data set combines its own seed with this one
    if case.workload:
        settings = registry.settle(case.workload, {"seed": SEED})
        known = registry.load(case.workload).prepare(settings, lambda _: None)
        return _Known(known, (lambda e: e[1]) if case.workload == "cnn" else (lambda e: e % 10))
    images = _IMAGES if find_device().accelerated else 1
    return _Known(_injected(case), lambda e: tf.repeat(e % CLASSES, images))


def _injected(case: Case) -> Prepared:
    shuffle = Shuffle(_STEPS * _LABELS, SEED)
    accelerated = find_device().accelerated
    model = make_model if accelerated else functools.partial(make_sleeper, case.step_ms)
    loaded = functools.partial(_loaded, case=case, images=_IMAGES if accelerated else 1)
    source = numbered_examples.source(shuffle, _LABELS)
    return Prepared(source, loaded, None, model, _STEPS, _STEPS * _LABELS, "checksum", shuffle)


def _loaded(numbers: tf.data.Dataset, knobs: Knobs, case: Case, images: int) -> tf.data.Dataset:
    """Return batches of `_LABELS` images and labels: storage, then single examples or whole batches."""
    calls = work_ahead.num_parallel_calls(knobs.workers)
    read = numbers.map(_late(knobs.latency_ms), calls) if knobs.latency_ms else numbers
    if knobs.fast_pipeline:
        loaded = read.map(_late(case.fast_ms or 0.0), calls)
    else:
        loaded = read.unbatch().map(_late(case.example_ms), calls).batch(_LABELS)
    shape = (_LABELS * images, SIZE, SIZE, 3)
    batches = loaded.map(lambda n: (tf.zeros(shape), tf.repeat(n % CLASSES, images)))
    ahead = work_ahead.buffer_size(knobs.prefetch)
    return (batches if ahead is None else batches.prefetch(ahead)).with_options(
        work_ahead.options(knobs)
    )


def _late(ms: float) -> Callable[[tf.Tensor], tf.Tensor]:
    return functools.partial(delayed, latency_ms=ms)

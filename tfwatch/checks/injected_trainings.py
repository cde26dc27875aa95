"""Trainings with known delays: what `tfwatch selftest` compares Watch's figures with.

The models and the batches that `injected` trains with: one kind for each way of feeding `fit`.

Trainings with known delays: what `tfwatch selftest` compares Watch's figures with.

Each step sleeps in its fetch, in its compute and in its host part, or not, by a seeded schedule, and each sleep
times itself. The steps without a sleep in a part give that part's own cost, which is taken off.
"""

from __future__ import annotations

import contextlib
import gc
import time
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from tfwatch.checks.injected_schedule import (
    AHEAD,
    ASKED_ANEW,
    CHECKPOINT,
    FUSED,
    LOGGER,
    LOOP,
    PARTS,
    Found,
    HeldUp,
    Schedule,
    Trained,
)
from tfwatch.core.knobs import Knobs
from tfwatch.runs.opened import open_run
from tfwatch.tfdata.work_ahead import options, untuned
from tfwatch.watch.callback import Watch
from tfwatch.watch.track import track

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from tfwatch.core.rows import Rows
    from tfwatch.runs.opened import Run

_TWO_EPOCHS = ("steps_per_epoch", "validation")
_DEPTH = 2
_BATCH = 8
_VALIDATION = 4
#: By default tf.data works ahead of the step, which hides a delay in the fetch.
_OFF = Knobs()


class Sleeps:
    """Delays as planned, one after another: each lasts from where it begins to sleep to where what follows goes on.

    What a machine takes to wake up belongs to the delay: after 20 ms it is 0.3 ms, and nobody's error.

    Attributes:
        drawn_ms: what was planned for each one that began; begin_ns: when it did, by `time.perf_counter_ns`;
        end_ns: when it was over.
    """

    def __init__(self, planned_ms: NDArray[np.float64], collect_at: frozenset[int] = frozenset()) -> None:
        """`collect_at`: the calls, counted from 0, that collect garbage instead."""
        self.drawn_ms: list[float] = []
        self.begin_ns: list[int] = []
        self.end_ns: list[int] = []
        self._planned_ms = planned_ms
        self._collect_at = collect_at

    def sleep(self) -> None:
        """Begin a delay, and sleep."""
        n = len(self.begin_ns)
        planned_ms = float(self._planned_ms[n % len(self._planned_ms)])
        self.drawn_ms.append(planned_ms)
        self.begin_ns.append(time.perf_counter_ns())
        if n in self._collect_at:
            gc.collect()
        elif planned_ms:
            time.sleep(planned_ms / 1e3)

    def end(self) -> None:
        """What follows goes on."""
        self.end_ns.append(time.perf_counter_ns())

    def both(self) -> None:
        """A delay of plain Python, which nothing has to wake up from."""
        self.sleep()
        self.end()

    def delay(self, x: Any) -> Any:
        """`x`, handed on by a graph after a delay."""
        return _after(_after(x, self.sleep), self.end)


def _after(x: Any, call: Callable[[], None]) -> Any:
    # It takes the input, so that it cannot run in the phantom step that Keras makes at the end of data.
    called = tf.numpy_function(lambda _: call(), [x], [])
    with tf.control_dependencies([called] if isinstance(called, tf.Operation) else []):
        return tf.identity(x)


class Sleeping(keras.layers.Layer):
    """Hands its input on, later, while training. `sleeps` may be exchanged between two trainings."""

    def __init__(self) -> None:
        super().__init__()
        self.sleeps = Sleeps(np.zeros(1))

    def call(self, x: Any, training: bool = False) -> Any:
        if not training:
            return x
        return _after(_after(x, lambda: self.sleeps.sleep()), lambda: self.sleeps.end())


class OwnStep(keras.Model):
    def train_step(self, data: Any) -> Any:
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True), training=True)
        variables = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return {"loss": loss}


def make_model(kind: str) -> tuple[Any, Sleeping]:
    """A model to be trained in the way of this kind, and the layer in it that sleeps."""
    if kind == "MirroredStrategy":
        with tf.distribute.MirroredStrategy(["/CPU:0"]).scope():
            return _compiled(keras.Model)
    fused = FUSED.get(kind, 1)
    make = OwnStep if kind == "own train_step" else keras.Model
    return _compiled(make, run_eagerly=kind == "run_eagerly", steps_per_execution=fused)


def _compiled(make: Any, **how: Any) -> tuple[Any, Sleeping]:
    x, sleeping = keras.Input((4,)), Sleeping()
    model = make(x, keras.layers.Dense(1)(sleeping(x)))
    model.compile("sgd", "mse", jit_compile=False, **how)
    # Keras builds its metrics on a first batch, beyond those of the steps.
    model.fit(_constant(1), verbose=0, shuffle=False)
    return model, sleeping


def fit_arguments(kind: str, steps: int, sleeps: Sleeps) -> dict[str, Any]:
    """What `fit` takes to train `steps` steps over batches of this kind, each of which sleeps once."""
    if kind == "Python generator":
        return {"x": _generated(steps, sleeps.both)}
    if kind == "PyDataset":
        return {"x": _Indexed(steps, sleeps)}
    epochs = 2 if kind in _TWO_EPOCHS else 1
    batches = _dataset(kind, steps // epochs, sleeps)
    arguments: dict[str, Any] = {"x": batches, "epochs": epochs, "shuffle": False}
    if kind == "steps_per_epoch":
        arguments["steps_per_epoch"] = steps // epochs
    if kind == "validation":
        arguments["validation_data"] = _constant(_VALIDATION)
    return arguments


def _dataset(kind: str, steps: int, sleeps: Sleeps) -> tf.data.Dataset:
    if kind == "from_generator":
        signature = (tf.TensorSpec((None, 4)), tf.TensorSpec((None, 1)))
        batches = tf.data.Dataset.from_generator(lambda: _generated(steps, sleeps.sleep), output_signature=signature)
        batches = batches.map(lambda x, y: (_after(x, sleeps.end), y))
    else:
        batches = _constant(steps).map(_late(sleeps))
    if kind == "tf.data, unknown length":
        batches = batches.filter(lambda x, y: True)
    elif kind == "steps_per_epoch":
        batches = batches.repeat()
    elif kind == "prefetch":
        batches = batches.prefetch(_DEPTH)
    # What is autotuned takes up to 4 s to be deleted after the last step.
    return batches.with_options(options(_OFF)).with_options(untuned())


def shuffled(elements: int, buffer: int, sleeps: Sleeps) -> tf.data.Dataset:
    """Batches of two elements, each of which sleeps, behind a shuffle that holds `buffer` of them."""
    one = tf.data.Dataset.from_tensors((tf.ones((4,)), tf.ones((1,)))).repeat(elements)
    return one.map(_late(sleeps)).shuffle(buffer).batch(2).with_options(options(_OFF))


def _constant(batches: int) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors((tf.ones((_BATCH, 4)), tf.ones((_BATCH, 1)))).repeat(batches)


def _late(sleeps: Sleeps) -> Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
    return lambda x, y: (sleeps.delay(x), y)


def _generated(steps: int, delay: Callable[[], None]) -> Iterator[Any]:
    x, y = np.ones((_BATCH, 4), np.float32), np.ones((_BATCH, 1), np.float32)
    for _ in range(steps):
        delay()
        yield x, y


class _Indexed(keras.utils.PyDataset):
    def __init__(self, steps: int, sleeps: Sleeps) -> None:
        super().__init__()
        self._steps = steps
        self._sleeps = sleeps

    def __len__(self) -> int:
        return self._steps

    def __getitem__(self, index: int) -> Any:
        self._sleeps.both()
        return np.ones((_BATCH, 4), np.float32), np.ones((_BATCH, 1), np.float32)


#: Steps at a training's start that are left out: trace, first batch.
_WARM_UP = 4
#: Shorter waits than this do not tell what is left of a delay from what handing over a batch takes.
_LEFT_MS = 0.5
#: Figures of fewer steps are no medians.
_LEAST = 5


class Trainings:
    """Trains one schedule after another with Watch; those that are alike share a model."""

    def __init__(self, runs_dir: Path, seed: int) -> None:
        self._runs_dir = runs_dir
        self._rng = np.random.default_rng(seed)
        self._models: dict[str, tuple[Any, Sleeping]] = {}

    def train(self, schedule: Schedule) -> Trained:
        """Train once and compare."""
        sleeps = {part: self._sleeps(part, schedule) for part in PARTS}
        model, sleeping = self._model(schedule.kind)
        sleeping.sleeps = sleeps["compute"]
        with _quiet(collects=not schedule.held_up):
            train = self._loop if schedule.kind == LOOP else self._fit
            run, asked_ns = train(model, schedule, sleeps)
        end_ns = _step_ends(asked_ns, run.steps, FUSED.get(schedule.kind, 1))
        return Trained(
            found=list(_compare(run.steps, schedule, sleeps, end_ns)),
            wall_error=_wall_error(run.steps, end_ns),
            run=run,
            held_up=[_as_it_was(one, sleeps) for one in schedule.held_up],
            slept_ms={part: _median_ms(sleeps[part], run.steps) for part in PARTS if sleeps[part].end_ns},
            step_ms=float(np.median(np.diff(asked_ns))) / 1e6,
        )

    def _fit(self, model: Any, schedule: Schedule, sleeps: dict[str, Sleeps]) -> tuple[Run, list[int]]:
        """The run, and when what follows each call of Keras' train function was over."""
        watch = Watch(self._runs_dir, "exact" if schedule.kind.endswith("exact") else "fused")
        host = _Host(watch, schedule, sleeps["host"])
        callbacks = [watch, _SlowLogger(schedule, "callback"), _SlowCheckpoint(schedule, "checkpoint"), host]
        arguments = fit_arguments(schedule.kind, schedule.steps, sleeps["wait"])
        model.fit(**arguments, verbose=0, callbacks=callbacks)
        return open_run(watch.run_path or ""), host.end_ns

    def _loop(self, model: Any, schedule: Schedule, sleeps: dict[str, Sleeps]) -> tuple[Run, list[int]]:
        """The same of a loop that calls no callbacks."""
        end_ns = []
        with track(fit_arguments(schedule.kind, schedule.steps, sleeps["wait"])["x"], self._runs_dir) as batches:
            for x, y in batches:
                model.train_on_batch(x, y)
                end_ns.append(time.perf_counter_ns())
        return open_run(batches.run_path or ""), end_ns

    def fill(self, steps: int, buffer: int, element_ms: float) -> Run:
        """Train two epochs over a shuffle buffer that has to be filled before each."""
        model, sleeping = self._model("tf.data")
        sleeping.sleeps = Sleeps(np.zeros(1))
        watch = Watch(self._runs_dir)
        batches = shuffled(2 * steps, buffer, Sleeps(np.full(1, element_ms)))
        with _quiet(collects=False):
            model.fit(batches, epochs=2, verbose=0, shuffle=False, callbacks=[watch])
        return open_run(watch.run_path or "")

    def _model(self, kind: str) -> tuple[Any, Sleeping]:
        own = kind if kind in (*FUSED, "run_eagerly", "own train_step", "MirroredStrategy") else "tf.data"
        if own not in self._models:
            self._models[own] = make_model(own)
        return self._models[own]

    def _sleeps(self, part: str, schedule: Schedule) -> Sleeps:
        levels = getattr(schedule, f"{part}_ms")
        planned_ms = np.resize(np.array(levels, dtype=np.float64), schedule.steps)
        self._rng.shuffle(planned_ms)
        own = [one for one in schedule.held_up if one.part == part]
        for one in own:
            planned_ms[one.step - 1] += one.ms if one.how == "sleep" else 0.0
        return Sleeps(planned_ms, frozenset(one.step - 1 for one in own if one.how == "garbage collection"))


class _Sleepy(keras.callbacks.Callback):
    """Sleeps after the steps that it holds up in this way."""

    def __init__(self, schedule: Schedule, how: str) -> None:
        super().__init__()
        self._ms = {one.step: one.ms for one in schedule.held_up if one.how == how}
        self._step = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._step += 1
        time.sleep(self._ms.get(self._step, 0.0) / 1e3)


#: A callback is told by its class.
_SlowLogger, _SlowCheckpoint = type(LOGGER, (_Sleepy,), {}), type(CHECKPOINT, (_Sleepy,), {})


class _Host(keras.callbacks.Callback):
    """The last callback: sleeps, switches, and notes when it is done; the next batch is asked for then."""

    def __init__(self, watch: Watch, schedule: Schedule, sleeps: Sleeps) -> None:
        super().__init__()
        self.end_ns: list[int] = []
        self._watch = watch
        self._switches = dict(schedule.switches)
        self._sleeps = sleeps

    def on_train_begin(self, logs: Any = None) -> None:
        if 0 in self._switches:
            self._watch.set(prefetch=self._switches[0])

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._sleeps.both()
        if len(self.end_ns) + 1 in self._switches:
            self._watch.set(prefetch=self._switches[len(self.end_ns) + 1])
        self.end_ns.append(time.perf_counter_ns())


@contextlib.contextmanager
def _quiet(*, collects: bool) -> Iterator[None]:
    """Without Keras' words on data that ran out, and without collections of Python's own choosing."""
    was = gc.isenabled()
    if not collects:
        gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        if was:
            gc.enable()


def _step_ends(end_ns: list[int], rows: Rows, fused: int) -> NDArray[np.int64]:
    """When the callbacks of each step were done; 0 after the steps of one call that have none."""
    ends = np.zeros(len(rows), dtype=np.int64)
    ends[fused - 1 :: fused] = end_ns
    return ends


def _compare(rows: Rows, schedule: Schedule, sleeps: dict[str, Sleeps], end_ns: NDArray[np.int64]) -> Iterator[Found]:
    steady = rows["flags"] == 0
    steady[:_WARM_UP] = False
    steady[[one.step - 1 for one in schedule.held_up]] = False
    for part in PARTS:
        if len(set(getattr(schedule, f"{part}_ms"))) < 2:
            continue
        planned = _of_steps(sleeps[part].drawn_ms, rows)
        told = rows[f"{part}_ms"].astype(np.float64)
        injected, own_ms = _took_ms(sleeps[part], rows), None
        if part == "wait" and schedule.kind in AHEAD:
            asked_ns = np.where(end_ns > 0, end_ns, _of_steps(sleeps["compute"].end_ns, rows))
            injected = _left_ms(_of_steps(sleeps[part].end_ns, rows), asked_ns)
            if schedule.kind in ASKED_ANEW:
                latest = _left_ms(_of_steps([*sleeps[part].begin_ns, sleeps[part].end_ns[-1]], rows), asked_ns)
                injected, own_ms = np.clip(told, injected, np.maximum(injected, latest)), 0.0
        if own_ms is None:
            own_ms = float(np.median((told - injected)[steady & (planned == 0) & (injected < _LEFT_MS)]))
        for level in sorted(set(getattr(schedule, f"{part}_ms")) - {0}):
            held = steady & (planned == level) & (injected >= _LEFT_MS)
            yield _found(part, float(level), injected[held], (told - injected)[held] - own_ms)


def _median_ms(sleeps: Sleeps, rows: Rows) -> float:
    return float(np.median(_took_ms(sleeps, rows)))


def _found(part: str, slept_ms: float, injected: NDArray[np.float64], error: NDArray[np.float64]) -> Found:
    if len(injected) < _LEAST:
        return Found(part, slept_ms, float("nan"), float("nan"))
    injected_ms = float(np.median(injected))
    return Found(part, slept_ms, injected_ms, injected_ms + float(np.median(error)))


def _of_steps(values: Sequence[float], rows: Rows) -> NDArray[Any]:
    """Keras asks for the first batches of some kinds to see what they are: the last ones are the steps'."""
    return np.array(values[-len(rows) :])


def _took_ms(sleeps: Sleeps, rows: Rows) -> NDArray[np.float64]:
    took_ms: NDArray[np.float64] = (_of_steps(sleeps.end_ns, rows) - _of_steps(sleeps.begin_ns, rows)) / 1e6
    return took_ms


def _left_ms(handed_ns: NDArray[np.int64], asked_ns: NDArray[np.int64]) -> NDArray[np.float64]:
    """What was left of each batch's delay when the batch was asked for, at the end of the step before."""
    left_ms = np.zeros(len(handed_ns))
    left_ms[1:] = np.maximum(handed_ns[1:] - asked_ns[:-1], 0) / 1e6
    return left_ms


def _wall_error(rows: Rows, end_ns: NDArray[np.int64]) -> float:
    """Of each epoch, between the callbacks after its first call and those after its last but one."""
    worst = 0.0
    for epoch in np.unique(rows["epoch"]):
        at = np.flatnonzero((rows["epoch"] == epoch) & (end_ns > 0))[:-1]
        first, last = int(at[0]), int(at[-1])
        parts_ms = sum(float(rows[f"{part}_ms"][first + 1 : last + 1].sum(dtype=np.float64)) for part in PARTS)
        wall_ms = float(end_ns[last] - end_ns[first]) / 1e6
        worst = max(worst, abs(parts_ms - wall_ms) / wall_ms)
    return worst


def _as_it_was(one: HeldUp, sleeps: dict[str, Sleeps]) -> HeldUp:
    if one.how in ("callback", "checkpoint"):
        return one
    own = sleeps[one.part]
    return replace(one, ms=(own.end_ns[one.step - 1] - own.begin_ns[one.step - 1]) / 1e6)

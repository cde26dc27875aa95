"""The models and the batches that `injected` trains with: one kind for each way of feeding `fit`."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from tfwatch.core.knobs import Knobs
from tfwatch.training.hands import options, untuned
from tfwatch.training.injected_schedule import FUSED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

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

"""An error of the user's Python is raised once, as stock `fit` raises it, and the Python runs as
often as there."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.keras_fixtures import determinism
from tests.watch.watched import watch_in
from tests.whole import events_of, only
from tfwatch.core.events import Noted, RunEnded, TrainingFailed, WatchFailed
from tfwatch.runs.run import open_run
from tfwatch.watch.fit.stepping.step_runners import BatchStep

pytestmark = pytest.mark.tensorflow

X, Y = np.ones((20, 3), "float32"), np.ones((20, 1), "float32")
BATCH = 8
SETTINGS: dict[str, dict[str, Any]] = {
    "graph": {},
    "eager": {"run_eagerly": True},
    "jit": {"jit_compile": True},
    "two steps per call": {"steps_per_execution": 2},
}


@dataclass
class Made:
    """A compiled model, its labels, and the number of calls of the user's Python."""

    model: Any
    calls: list[int]
    labels: Any = None


def dense(inputs: int = 3) -> Any:
    return keras.Sequential([keras.Input((inputs,)), keras.layers.Dense(1)])


# -- what raises -----------------------------------------------------------------------------------


def a_metric(settings: dict[str, Any], *, times: float = np.inf) -> Made:
    """Return a model with a metric that raises at its first calls."""

    class NoFloats(keras.metrics.Mean):
        def update_state(self, y: Any, predicted: Any = None, sample_weight: Any = None) -> Any:
            calls.append(1)
            if len(calls) <= times:
                raise TypeError("labels are floats")
            return super().update_state(y)

    calls: list[int] = []
    model = dense()
    model.compile("sgd", "mse", metrics=[NoFloats()], **settings)
    return Made(model, calls)


def a_metric_once(settings: dict[str, Any]) -> Made:
    """A second trace would succeed, and train."""
    return a_metric(settings, times=1)


def metrics_half_built(settings: dict[str, Any]) -> Made:
    """A second trace would find no metric that raises, and a step that returns nothing."""
    x = keras.Input((3,))
    model = keras.Model(
        x, [keras.layers.Dense(1, name="left")(x), keras.layers.Dense(1, name="right")(x)]
    )
    model.compile("sgd", "mse", metrics=[["mse"]], **settings)
    return Made(model, [], [Y, Y])


def a_loss_of_a_wrong_shape(settings: dict[str, Any]) -> Made:
    def loss(y: Any, predicted: Any) -> Any:
        calls.append(1)
        return tf.matmul(y - predicted, tf.ones((7, 7)))

    calls: list[int] = []
    model = dense()
    model.compile("sgd", loss, **settings)
    return Made(model, calls)


def a_train_step(
    settings: dict[str, Any], error: Callable[[], Exception] = lambda: OSError("in the step")
) -> Made:
    class FileWorkload(keras.Sequential):
        def train_step(self, data: Any) -> Any:
            calls.append(1)
            raise error()

    calls: list[int] = []
    model = FileWorkload(dense().layers)
    model.compile("sgd", "mse", **settings)
    return Made(model, calls)


def an_end_of_the_data(settings: dict[str, Any]) -> Made:
    """Keras treats it as the end of an epoch."""
    return a_train_step(settings, lambda: StopIteration())


# -- what does not ---------------------------------------------------------------------------------


def nothing(settings: dict[str, Any]) -> Made:
    return a_metric(settings, times=0)


def nothing_unbuilt(settings: dict[str, Any]) -> Made:
    """The first step creates its weights."""

    class FileWorkload(keras.Model):
        def build(self, shape: Any) -> None:
            self.dense = keras.layers.Dense(1)
            self.dense.build(shape)

        def call(self, x: Any) -> Any:
            calls.append(1)
            return self.dense(x)

    calls: list[int] = []
    model = FileWorkload()
    model.compile("sgd", "mse", **settings)
    return Made(model, calls)


def nothing_of_a_fixed_shape(settings: dict[str, Any]) -> Made:
    """Its step returns a value without a fixed shape, which a loop in a graph cannot carry."""

    class FileWorkload(keras.Sequential):
        def train_step(self, data: Any) -> Any:
            calls.append(1)
            return {**super().train_step(data), "seen": data[0][:, 0]}

    calls: list[int] = []
    model = FileWorkload(dense().layers)
    model.compile("sgd", "mse", **settings)
    return Made(model, calls)


RAISE = [
    a_metric,
    a_metric_once,
    metrics_half_built,
    a_loss_of_a_wrong_shape,
    a_train_step,
]
#: An error of a trace comes before XLA: with it, two of them will do.
RAISE_WITH_XLA = [a_metric_once, a_loss_of_a_wrong_shape]
RAISE_NOTHING = [an_end_of_the_data, nothing, nothing_unbuilt, nothing_of_a_fixed_shape]


def outcome(
    make: Callable[[dict[str, Any]], Made], settings: dict[str, Any], callbacks: list[Any]
) -> Any:
    """Return the error or result of `fit`, the number of calls of the user's Python, and the number
    of updates."""
    keras.utils.set_random_seed(3)
    made = make(settings)
    labels = Y if made.labels is None else made.labels
    try:
        history = made.model.fit(
            X, labels, batch_size=BATCH, epochs=2, verbose=0, callbacks=callbacks
        ).history
        came: Any = {
            name: np.concatenate(values, axis=None).tolist() for name, values in history.items()
        }
    except Exception as error:  # noqa: BLE001  the very thing that is compared
        came = (type(error), str(error))
    keras.backend.clear_session(free_memory=False)
    return came, len(made.calls), int(made.model.optimizer.iterations)


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        pytest.param(make, name, id=f"{make.__name__}-{name}")
        for make in RAISE
        for name in SETTINGS
        if name != "jit" or make in RAISE_WITH_XLA
    ],
)
def test_it_is_raised_once_as_stock_fit_raises_it(make: Any, settings: str, tmp_path: Path) -> None:
    watch = watch_in(tmp_path)
    with determinism(settings != "jit"):
        stock = outcome(make, SETTINGS[settings], [])
        watched = outcome(make, SETTINGS[settings], [watch])
    assert isinstance(stock[0], tuple)
    assert watched == stock
    run = open_run(watch.run_path)
    assert (only(run, RunEnded).cause, len(run.steps)) == ("failed", 0)
    assert stock[0][0].__name__ in only(run, TrainingFailed).error
    assert not events_of(run, WatchFailed)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("make", RAISE_NOTHING, ids=lambda make: make.__name__)
def test_it_runs_as_often_as_in_stock_fit(make: Any, settings: str, tmp_path: Path) -> None:
    watch = watch_in(tmp_path)
    with determinism(settings != "jit"):
        stock = outcome(make, SETTINGS[settings], [])
        assert outcome(make, SETTINGS[settings], [watch]) == stock
    run = open_run(watch.run_path)
    assert only(run, RunEnded).cause == "finished"
    assert not events_of(run, WatchFailed)


def test_an_error_of_tfwatch_before_the_users_python_leaves_the_step_to_keras(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock = outcome(nothing, {}, [])
    monkeypatch.setattr(BatchStep, "_compiled", lambda *_: 1 / 0)
    watch = watch_in(tmp_path)
    came, _, updates = outcome(nothing, {}, [watch])
    assert (came, updates) == (stock[0], stock[2])
    run = open_run(watch.run_path)
    assert only(run, RunEnded).cause == "finished"
    why = "it cannot be traced: ZeroDivisionError: division by zero"
    assert f"the step runs as Keras calls it, as {why}" in [
        event.text for event in events_of(run, Noted)
    ]

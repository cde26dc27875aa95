"""An error of the user's Python, of the data, or of a step that runs ends `fit` as it ends stock
`fit`: it is raised once, with its class, and the Python runs as often as there."""

from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.keras_fixtures import determinism
from tests.watch.watched import watch_in
from tests.whole import events_of, only
from tfwatch.core.events import Noted, RunEnded, TrainingFailed, WatchFailed
from tfwatch.runs.run import open_run
from tfwatch.runs.snapshot import Snapshot
from tfwatch.watch.fit.stepping.batch_step import BatchStep

pytestmark = pytest.mark.tensorflow

BATCH = 8
X, Y = np.ones((20, 3), "float32"), np.ones((20, 1), "float32")
#: Of data sets: the label of an example is the number of its batch.
EXAMPLES = 32
ROWS, NUMBERS = np.ones((EXAMPLES, 3), "float32"), np.arange(EXAMPLES) // BATCH
SETTINGS: dict[str, dict[str, Any]] = {
    "graph": {},
    "eager": {"run_eagerly": True},
    "jit": {"jit_compile": True},
    "two steps per call": {"steps_per_execution": 2},
}
#: Those with which data sets are tried.
OF_DATA = [name for name in SETTINGS if name != "jit"]


# -- models, each with its loss, its metrics, and its labels where they are others -----------------


def dense(calls: list[int]) -> Any:
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)]), "mse", None


def a_metric(calls: list[int], *, times: float = np.inf) -> Any:
    """Return a model with a metric that raises at its first calls."""

    class NoFloats(keras.metrics.Mean):
        def update_state(self, y: Any, predicted: Any = None, sample_weight: Any = None) -> Any:
            calls.append(1)
            if len(calls) <= times:
                raise TypeError("labels are floats")
            return super().update_state(y)

    return *dense(calls)[:2], [NoFloats()]


def a_metric_once(calls: list[int]) -> Any:
    """A second trace would succeed, and train."""
    return a_metric(calls, times=1)


def metrics_half_built(calls: list[int]) -> Any:
    """A second trace would find no metric that raises, and a step that returns nothing."""
    x = keras.Input((3,))
    model = keras.Model(
        x, [keras.layers.Dense(1, name="left")(x), keras.layers.Dense(1, name="right")(x)]
    )
    return model, "mse", [["mse"]], Y, Y


def a_loss_of_a_wrong_shape(calls: list[int]) -> Any:
    def loss(y: Any, predicted: Any) -> Any:
        calls.append(1)
        return tf.matmul(y - predicted, tf.ones((7, 7)))

    return dense(calls)[0], loss, None


def a_train_step(
    calls: list[int], error: Callable[[], Exception] = lambda: OSError("in the step")
) -> Any:
    class FileWorkload(keras.Sequential):
        def train_step(self, data: Any) -> Any:
            calls.append(1)
            raise error()

    return FileWorkload(dense(calls)[0].layers), "mse", None


def an_end_of_the_data(calls: list[int]) -> Any:
    """Keras treats it as the end of an epoch."""
    return a_train_step(calls, lambda: StopIteration())


def nothing(calls: list[int]) -> Any:
    return a_metric(calls, times=0)


def nothing_unbuilt(calls: list[int]) -> Any:
    """The first step creates its weights."""

    class FileWorkload(keras.Model):
        def build(self, shape: Any) -> None:
            self.dense = keras.layers.Dense(1)
            self.dense.build(shape)

        def call(self, x: Any) -> Any:
            calls.append(1)
            return self.dense(x)

    return FileWorkload(), "mse", None


def nothing_of_a_fixed_shape(calls: list[int]) -> Any:
    """Its step returns a value without a fixed shape, which a loop in a graph cannot carry."""

    class FileWorkload(keras.Sequential):
        def train_step(self, data: Any) -> Any:
            calls.append(1)
            return {**super().train_step(data), "seen": data[0][:, 0]}

    return FileWorkload(dense(calls)[0].layers), "mse", None


def labels_out_of_range(calls: list[int]) -> Any:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    return model, keras.losses.SparseCategoricalCrossentropy(from_logits=True), None


def a_python_metric(calls: list[int]) -> Any:
    def check(labels: Any) -> Any:
        calls.append(1)
        if labels[0] >= 2:
            raise KeyError("in the metric")
        return np.float32(1)

    def metric(y: Any, predicted: Any) -> Any:
        return tf.ensure_shape(
            tf.numpy_function(check, [tf.reshape(y, (-1,))], tf.float32), ()
        ) * tf.ones_like(y)

    return *dense(calls)[:2], [metric]


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


# -- data sets, which raise at a batch -------------------------------------------------------------


def an_operation(at: int, calls: list[int]) -> Any:
    def checked(x: Any, y: Any) -> Any:
        with tf.control_dependencies(
            [tf.debugging.assert_less(y, tf.constant(at, tf.int64), message="a bad file")]
        ):
            return tf.identity(x), y

    return tf.data.Dataset.from_tensor_slices((ROWS, NUMBERS)).map(checked).batch(BATCH)


def a_missing_file(at: int, calls: list[int]) -> Any:
    """Its error comes from the fetch itself, and names no operation of the data's."""
    examples = tf.data.Dataset.from_tensor_slices((ROWS, NUMBERS)).take(at * BATCH)
    records = tf.data.TFRecordDataset("/nowhere/at-all")
    return examples.concatenate(records.map(lambda _: (tf.zeros(3), tf.zeros((), tf.int64)))).batch(
        BATCH
    )


def a_generator(at: int, calls: list[int]) -> Any:
    def batches() -> Iterator[Any]:
        for n in range(EXAMPLES // BATCH):
            calls.append(n)
            if n == at:
                raise KeyError("in the generator")
            yield ROWS[:BATCH], NUMBERS[:BATCH]

    signature = (tf.TensorSpec((None, 3)), tf.TensorSpec((None,), tf.int64))
    return tf.data.Dataset.from_generator(batches, output_signature=signature)


def sound(at: int, calls: list[int]) -> Any:
    return tf.data.Dataset.from_tensor_slices((ROWS, NUMBERS)).batch(BATCH)


# -- outcomes --------------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """What comes of a `fit`. calls: of the user's Python. updates: that the optimizer counts."""

    error: type[Exception] | None
    message: str
    history: dict[str, Any]
    calls: int
    updates: int
    weights: list[bytes]


def outcome(
    make: Callable[[list[int]], Any],
    settings: str,
    callbacks: list[Any],
    make_data: Callable[[list[int]], Any] | None = None,
) -> Outcome:
    """Return what comes of a `fit` of a model on the arrays, or on data of its own."""
    keras.utils.set_random_seed(3)
    calls: list[int] = []
    model, loss, metrics, *labels = make(calls)
    model.compile("sgd", loss, metrics=metrics, **SETTINGS[settings])
    given = {"x": X, "y": labels or Y, "batch_size": BATCH, "epochs": 2}
    given = {"x": make_data(calls)} if make_data else given
    error, message, history = None, "", {}
    try:
        history = model.fit(**given, verbose=0, callbacks=callbacks).history
    except Exception as raised:  # noqa: BLE001  the very thing that is compared
        error, message = type(raised), str(raised)
    figures = {name: np.concatenate(values, axis=None).tolist() for name, values in history.items()}
    weights = [weight.tobytes() for weight in model.get_weights()]
    keras.backend.clear_session(free_memory=False)
    return Outcome(error, message, figures, len(calls), int(model.optimizer.iterations), weights)


def failed_as(stock: Outcome, watch: Any) -> Snapshot:
    """Return the run of a `fit` that failed as stock `fit` did."""
    run = open_run(watch.run_path)
    failure = only(run, TrainingFailed)
    assert stock.error
    assert stock.error.__name__ in failure.error
    assert "Traceback" in failure.traceback
    assert only(run, RunEnded).cause == "failed"
    assert not events_of(run, WatchFailed)
    return run


# -- the user's Python -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        pytest.param(make, name, id=f"{make.__name__}-{name}")
        for make in RAISE
        for name in SETTINGS
        if name != "jit" or make in RAISE_WITH_XLA
    ],
)
def test_it_is_raised_once_as_stock_fit_raises_it(make: Any, settings: str, watch: Any) -> None:
    with determinism(settings != "jit"):
        stock = outcome(make, settings, [])
        assert outcome(make, settings, [watch]) == stock
    assert not len(failed_as(stock, watch).steps)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("make", RAISE_NOTHING, ids=lambda make: make.__name__)
def test_it_runs_as_often_as_in_stock_fit(make: Any, settings: str, watch: Any) -> None:
    with determinism(settings != "jit"):
        stock = outcome(make, settings, [])
        assert outcome(make, settings, [watch]) == stock
    run = open_run(watch.run_path)
    assert only(run, RunEnded).cause == "finished"
    assert not events_of(run, WatchFailed)


def test_an_error_of_tfwatch_before_the_users_python_leaves_the_step_to_keras(
    watch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock = outcome(nothing, "graph", [])
    monkeypatch.setattr(BatchStep, "_compiled", lambda *_: 1 / 0)
    assert outcome(nothing, "graph", [watch])._replace(calls=stock.calls) == stock
    run = open_run(watch.run_path)
    assert only(run, RunEnded).cause == "finished"
    why = "it cannot be traced: ZeroDivisionError: division by zero"
    assert f"the step runs as Keras calls it, as {why}" in [
        event.text for event in events_of(run, Noted)
    ]


# -- data, and steps that run ----------------------------------------------------------------------


@cache
def stock_outcome(
    data: Callable[..., Any], at: int, model: Callable[..., Any], settings: str
) -> Outcome:
    """Return the outcome without Watch, once for all tests."""
    return outcome(model, settings, [], partial(data, at))


def as_stock(
    data: Callable[..., Any], at: int, model: Callable[..., Any], settings: str, watch: Any
) -> Outcome:
    """Return the outcome, which is that without Watch but for the names of operations."""
    stock = stock_outcome(data, at, model, settings)
    watched = outcome(model, settings, [watch], partial(data, at))
    assert watched._replace(message=stock.message) == stock
    failed_as(stock, watch)
    return watched


@pytest.mark.parametrize("settings", OF_DATA)
@pytest.mark.parametrize(
    "data", [an_operation, a_missing_file, a_generator], ids=lambda make: make.__name__
)
def test_data_that_raises_ends_fit_as_in_stock_fit(
    data: Any, settings: str, tmp_path: Path
) -> None:
    as_stock(data, 2, dense, settings, watch_in(tmp_path))


def test_data_that_raises_at_the_first_batch_ends_fit_as_in_stock_fit(tmp_path: Path) -> None:
    failed = as_stock(an_operation, 0, dense, "graph", watch_in(tmp_path))
    assert failed.error is tf.errors.InvalidArgumentError
    assert "a bad file" in failed.message


def test_a_trace_that_raises_is_raised_before_an_error_of_the_first_batch(tmp_path: Path) -> None:
    failed = as_stock(an_operation, 0, a_metric, "graph", watch_in(tmp_path))
    assert (failed.error, failed.calls) == (TypeError, 1)


@pytest.mark.parametrize("settings", OF_DATA)
@pytest.mark.parametrize("data", [an_operation, a_generator], ids=lambda make: make.__name__)
def test_data_that_raises_behind_a_requested_prefetch_does_too(
    data: Any, settings: str, watch: Any
) -> None:
    watch.set(prefetch=2)
    as_stock(data, 2, dense, settings, watch)


@pytest.mark.parametrize("settings", OF_DATA)
@pytest.mark.parametrize(
    "model", [labels_out_of_range, a_python_metric], ids=lambda make: make.__name__
)
def test_a_step_that_raises_as_it_runs_ends_fit_as_in_stock_fit(
    model: Any, settings: str, tmp_path: Path
) -> None:
    as_stock(sound, 0, model, settings, watch_in(tmp_path))

"""An error of the data, or of a step that runs, ends `fit` as it ends stock `fit`: with its class
and its updates."""

from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.watch.watched import watch_in
from tests.whole import events_of, only
from tfwatch.core.events import RunEnded, TrainingFailed, WatchFailed
from tfwatch.runs.run import open_run

pytestmark = pytest.mark.tensorflow

EXAMPLES, BATCH = 32, 8
X, Y = np.ones((EXAMPLES, 3), "float32"), np.arange(EXAMPLES) // BATCH
SETTINGS: dict[str, dict[str, Any]] = {
    "graph": {},
    "eager": {"run_eagerly": True},
    "two steps per call": {"steps_per_execution": 2},
}


# -- data, which raises at a batch -----------------------------------------------------------------


def an_operation(at: int, calls: list[int]) -> Any:
    def checked(x: Any, y: Any) -> Any:
        with tf.control_dependencies(
            [tf.debugging.assert_less(y, tf.constant(at, tf.int64), message="a bad file")]
        ):
            return tf.identity(x), y

    return tf.data.Dataset.from_tensor_slices((X, Y)).map(checked).batch(BATCH)


def a_missing_file(at: int, calls: list[int]) -> Any:
    """Its error comes from the fetch itself, and names no operation of the data's."""
    examples = tf.data.Dataset.from_tensor_slices((X, Y)).take(at * BATCH)
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
            yield X[:BATCH], Y[:BATCH]

    signature = (tf.TensorSpec((None, 3)), tf.TensorSpec((None,), tf.int64))
    return tf.data.Dataset.from_generator(batches, output_signature=signature)


def sound(at: int, calls: list[int]) -> Any:
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(BATCH)


DATA = [an_operation, a_missing_file, a_generator]


# -- models ----------------------------------------------------------------------------------------


def dense(calls: list[int]) -> Any:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    return model, "mse", []


def labels_out_of_range(calls: list[int]) -> Any:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    return model, keras.losses.SparseCategoricalCrossentropy(from_logits=True), []


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


def a_trace(calls: list[int]) -> Any:
    def metric(y: Any, predicted: Any) -> Any:
        calls.append(1)
        raise TypeError("in the trace")

    return *dense(calls)[:2], [metric]


def outcome(make_data: Any, make_model: Any, settings: dict[str, Any], callbacks: list[Any]) -> Any:
    """Return the error's class, the calls of the user's Python, the updates that the optimizer
    counts, and the weights."""
    keras.utils.set_random_seed(3)
    calls: list[int] = []
    model, loss, metrics = make_model(calls)
    model.compile("sgd", loss, metrics=metrics, **settings)
    with pytest.raises(Exception) as raised:  # noqa: PT011  the very thing that is compared
        model.fit(make_data(calls), verbose=0, callbacks=callbacks)
    weights = [weight.tobytes() for weight in model.get_weights()]
    keras.backend.clear_session(free_memory=False)
    return (
        raised.type,
        len(calls),
        int(model.optimizer.iterations),
        weights,
    )


@cache
def stock_outcome(
    data: Callable[..., Any], at: int, model: Callable[..., Any], settings: str
) -> Any:
    """Return the outcome without Watch, once for all tests."""
    return outcome(partial(data, at), model, SETTINGS[settings], [])


def assert_as_stock(
    data: Callable[..., Any], at: int, model: Callable[..., Any], settings: str, watch: Any
) -> Any:
    stock = stock_outcome(data, at, model, settings)
    assert outcome(partial(data, at), model, SETTINGS[settings], [watch]) == stock
    run = open_run(watch.run_path)
    assert only(run, RunEnded).cause == "failed"
    failure = only(run, TrainingFailed)
    assert stock[0].__name__ in failure.error
    assert "Traceback" in failure.traceback
    assert not events_of(run, WatchFailed)
    return stock


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("data", DATA, ids=lambda make: make.__name__)
def test_data_that_raises_ends_fit_as_in_stock_fit(
    data: Any, settings: str, tmp_path: Path
) -> None:
    assert_as_stock(data, 2, dense, settings, watch_in(tmp_path))


def test_data_that_raises_at_the_first_batch_ends_fit_as_in_stock_fit(tmp_path: Path) -> None:
    assert_as_stock(an_operation, 0, dense, "graph", watch_in(tmp_path))


def test_a_trace_that_raises_is_raised_before_an_error_of_the_first_batch(tmp_path: Path) -> None:
    raised, calls, *_ = assert_as_stock(an_operation, 0, a_trace, "graph", watch_in(tmp_path))
    assert (raised, calls) == (TypeError, 1)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("data", [an_operation, a_generator], ids=lambda make: make.__name__)
def test_data_that_raises_behind_a_requested_prefetch_does_too(
    data: Any, settings: str, tmp_path: Path
) -> None:
    watch = watch_in(tmp_path)
    watch.set(prefetch=2)
    stock = stock_outcome(data, 2, dense, settings)
    watched = outcome(partial(data, 2), dense, SETTINGS[settings], [watch])
    assert watched == stock


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize(
    "model", [labels_out_of_range, a_python_metric], ids=lambda make: make.__name__
)
def test_a_step_that_raises_as_it_runs_ends_fit_as_in_stock_fit(
    model: Any, settings: str, tmp_path: Path
) -> None:
    assert_as_stock(sound, 0, model, settings, watch_in(tmp_path))


def test_an_error_of_the_data_says_what_was_wrong(tmp_path: Path) -> None:
    model, loss, _ = dense([])
    model.compile("sgd", loss)
    with pytest.raises(tf.errors.InvalidArgumentError, match="a bad file"):
        model.fit(an_operation(2, []), verbose=0, callbacks=[watch_in(tmp_path)])

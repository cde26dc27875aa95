"""An error of the data, or of a step that runs, ends `fit` as it ends stock `fit`: with its words
and its updates."""

from __future__ import annotations

import re
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.watch.watched import watch_in
from tests.whole import events_of, only
from tfwatch import Watch
from tfwatch.core.events import RunEnded, TrainingFailed, WatchFailed
from tfwatch.runs.run import open_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.tensorflow

EXAMPLES, BATCH = 32, 8
X, Y = np.ones((EXAMPLES, 3), "float32"), np.arange(EXAMPLES) // BATCH
#: Numbers that TensorFlow counts up, and the frames of the stack, which name tfwatch's own.
NOISE = re.compile(r'(?<=_)\d+|(?<=Dataset:)\d+|^\s*File ".*\n|^\n', re.MULTILINE)
#: The stage that raises: TensorFlow fuses stages of a script's pipeline, which tfwatch rebuilds
#: without.
STAGE = re.compile(
    r"Error in user-defined function passed to MapDataset: transformation with iterator: \S+ "
)
#: The place of a fetch that is not the first one of its call.
IN_CALL = re.compile(r"while/\S*/(?=IteratorGetNextAsOptional)")
SETTINGS: dict[str, dict[str, Any]] = {
    "graph": {},
    "eager": {"run_eagerly": True},
    "two steps per call": {"steps_per_execution": 2},
}


# -- data, which raises at a batch -----------------------------------------------------------------


def an_operation(at: int, calls: list[int]) -> Any:
    import tensorflow as tf

    def checked(x: Any, y: Any) -> Any:
        with tf.control_dependencies(
            [tf.debugging.assert_less(y, tf.constant(at, tf.int64), message="a bad file")]
        ):
            return tf.identity(x), y

    return tf.data.Dataset.from_tensor_slices((X, Y)).map(checked).batch(BATCH)


def a_missing_file(at: int, calls: list[int]) -> Any:
    """Its error comes from the fetch itself, and names no operation of the data's."""
    import tensorflow as tf

    examples = tf.data.Dataset.from_tensor_slices((X, Y)).take(at * BATCH)
    records = tf.data.TFRecordDataset("/nowhere/at-all")
    return examples.concatenate(records.map(lambda _: (tf.zeros(3), tf.zeros((), tf.int64)))).batch(
        BATCH
    )


def a_generator(at: int, calls: list[int]) -> Any:
    import tensorflow as tf

    def batches() -> Iterator[Any]:
        for n in range(EXAMPLES // BATCH):
            calls.append(n)
            if n == at:
                raise KeyError("in the generator")
            yield X[:BATCH], Y[:BATCH]

    signature = (tf.TensorSpec((None, 3)), tf.TensorSpec((None,), tf.int64))
    return tf.data.Dataset.from_generator(batches, output_signature=signature)


def sound(at: int, calls: list[int]) -> Any:
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(BATCH)


DATA = [an_operation, a_missing_file, a_generator]


#: The error of a step without data, and of one whose data raises, as TensorFlow 2.21 words them on
#: an H100.
ON_GPU = """Graph execution error:

{at}
{at}
2 root error(s) found.
  (0) {error}
\t [[{fetch}]]
\t [[IteratorGetNext/_2]]
  (1) {error}
\t [[{fetch}]]
0 successful operations.
0 derived errors ignored. [Op:__inference_multi_step_on_iterator_524]"""
DEFINED = "Detected at node {} defined at (most recent call last):\n{}"
NO_DATA = ON_GPU.format(
    at=DEFINED.format("IteratorGetNext", '  File "train.py", line 8, in <module>\n'),
    error=(
        "FAILED_PRECONDITION:  GetNext() failed because the iterator has not been initialized."
        " Ensure that you have run the initializer operation for this iterator before getting the"
        " next element."
    ),
    fetch="{{node IteratorGetNext}}",
)


# -- models ----------------------------------------------------------------------------------------


def dense(calls: list[int]) -> Any:
    import keras

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    return model, "mse", []


def labels_out_of_range(calls: list[int]) -> Any:
    import keras

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    return model, keras.losses.SparseCategoricalCrossentropy(from_logits=True), []


def a_python_metric(calls: list[int]) -> Any:
    import tensorflow as tf

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
    """Return the error, the calls of the user's Python, the updates that the optimizer counts, and
    the weights."""
    import keras

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
        NOISE.sub("", str(raised.value)),
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
    assert stock[0].__name__ in only(run, TrainingFailed).error
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
    raised, _, calls, *_ = assert_as_stock(an_operation, 0, a_trace, "graph", watch_in(tmp_path))
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
    assert (watched[0], STAGE.sub("", watched[1]), *watched[2:]) == stock


@pytest.mark.parametrize("data", [an_operation, a_generator], ids=lambda make: make.__name__)
def test_data_that_raises_in_steps_that_are_taken_one_by_one_does_too(
    data: Any, tmp_path: Path
) -> None:
    assert_as_stock(data, 2, dense, "two steps per call", Watch(tmp_path, split="exact"))


def test_data_that_raises_within_a_call_differs_by_the_place_of_its_fetch(tmp_path: Path) -> None:
    settings = "two steps per call"
    stock = stock_outcome(a_generator, 3, dense, settings)
    watched = outcome(
        partial(a_generator, 3), dense, SETTINGS[settings], [Watch(tmp_path, split="exact")]
    )
    assert watched == (stock[0], IN_CALL.sub("", stock[1]), *stock[2:])
    assert watched[1] != stock[1]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize(
    "model", [labels_out_of_range, a_python_metric], ids=lambda make: make.__name__
)
def test_a_step_that_raises_as_it_runs_ends_fit_as_in_stock_fit(
    model: Any, settings: str, tmp_path: Path
) -> None:
    assert_as_stock(sound, 0, model, settings, watch_in(tmp_path))


def test_an_error_whose_words_are_unknown_keeps_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tfwatch.watch.fit import data_errors

    monkeypatch.setattr(data_errors, "_as_in_graph", None)
    stock = stock_outcome(an_operation, 2, dense, "graph")
    raised, words, *rest = outcome(
        partial(an_operation, 2), dense, SETTINGS["graph"], [watch_in(tmp_path)]
    )
    assert (raised, *rest) == (stock[0], *stock[2:])
    assert "a bad file" in words


@pytest.mark.parametrize(
    ("code", "fetched", "at", "error", "fetch"),
    [
        (
            "NOT_FOUND",
            "/nowhere/at-all; No such file or directory",
            DEFINED.format("IteratorGetNext", '  File "train.py", line 8, in <module>\n'),
            "NOT_FOUND:  /nowhere/at-all; No such file or directory",
            "{{node IteratorGetNext}}",
        ),
        (
            "INVALID_ARGUMENT",
            "a bad file\n\t [[{{function_node f_310}}{{node Assert}}]]",
            DEFINED.format("Assert", "<stack traces unavailable>"),
            "INVALID_ARGUMENT:  a bad file\n\t [[{{node Assert}}]]",
            "IteratorGetNext",
        ),
    ],
    ids=["by the fetch", "by an operation"],
)
def test_an_error_of_the_data_is_worded_as_on_a_gpu(
    code: str, fetched: str, at: str, error: str, fetch: str
) -> None:
    from tfwatch.watch.fit.data_errors import _as_in_graph

    message = "{{function_node __wrapped__IteratorGetNext_device_/device:CPU:0}} " + fetched
    worded = _as_in_graph(f"{message} [Op:IteratorGetNext] name: ", code, NO_DATA)
    assert worded == ON_GPU.format(at=at, error=error, fetch=fetch)

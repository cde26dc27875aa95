"""A cache in a script's own pipeline: its place, its reasons, and its elements."""

import random
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from tests.tfdata.rebuilt_epochs import in_python, made_of, rebuilt_epoch, script_of
from tfwatch.core.knobs import Knobs
from tfwatch.tfdata.pipeline_tree import CannotRebuildError
from tfwatch.tfdata.stage_names import find_code_stages

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("in_parallel")]


@pytest.mark.parametrize(
    ("text", "is_filled"),
    [
        (".shuffle(20, seed=1).map(triple).batch(2)", True),
        (".map(triple).shuffle(20, seed=1).batch(2)", True),
        # The elements that `take` leaves out are never kept.
        (".map(triple).take(195).batch(2).take(95)", False),
    ],
)
def test_a_cache_that_fills_serves_and_is_dropped_changes_no_element_and_no_order(
    text: str, is_filled: bool
) -> None:
    bare, data, chooser = made_of(text), made_of(text), random.Random(text)
    iterator = iter(data)
    script = script_of(iterator)
    for cache in (True, True, False):
        got, switches = rebuilt_epoch(iterator, script, chooser, cache=cache)
        assert got == [in_python(batch) for batch in bare]
        assert switches > 20
        assert script.store
        assert script.store.is_settled == is_filled
        iterator = iter(data)
    script.close_cache()


def more(x: Any) -> Any:
    return x + 1


def test_a_full_cache_takes_the_place_of_all_below_it() -> None:
    data = tf.data.Dataset.range(9).map(more).shuffle(9, seed=1).batch(2)
    script, knobs = script_of(data), Knobs(cache="on")
    labels = []
    for _ in range(2):  # it is full in the second epoch
        source = script.source(iter(data), 0, knobs)
        stages = find_code_stages(script.build(source._dataset, knobs))
        labels.append([stage.label for stage in stages if not stage.hidden])
        list(source)
    script.close_cache()
    assert labels == [
        ["range", "map(more)", "shuffle(9)", "batch(2)"],
        ["shuffle(9)", "map(more)", "batch(2)"],
    ]


_DRAWS = "map(draw) draws random numbers: a cache would give those of one epoch in all others"


def _refused() -> dict[str, tuple[Callable[[Any], Any], str]]:
    variable = tf.Variable(2, dtype=tf.int64)

    def draw(x: Any) -> Any:
        return x + tf.random.uniform([], 0, 9, tf.int64, seed=1)

    def call(x: Any) -> Any:
        return tf.py_function(abs, [x], tf.int64)

    def scale(x: Any) -> Any:
        return x * variable

    def some(x: Any) -> Any:
        return tf.range(x)

    def some_batch(x: Any) -> Any:
        return x + 1

    return {
        "random": (lambda data: data.map(draw), _DRAWS),
        "Python": (
            lambda data: data.map(call),
            "map(call) calls Python, which may give something else each time",
        ),
        "variable": (lambda data: data.map(scale), "map(scale) reads a variable, which may change"),
        "below": (lambda data: data.map(draw).map(abs), _DRAWS),
        "shape": (
            lambda data: data.map(some).map(draw),
            "the elements after map(some) have no fixed shape",
        ),
        "text": (
            lambda data: data.map(tf.strings.as_string),
            "the elements after map are not plain numbers",
        ),
        "count": (
            lambda data: data.flat_map(tf.data.Dataset.range).map(abs),
            "the number of elements after flat_map is unknown: assert_cardinality gives it",
        ),
        "order": (
            lambda data: data.shuffle(9).batch(2).map(some_batch),
            "shuffle(9) gives batch(2) other elements in each epoch",
        ),
        "twice": (
            lambda data: data.shuffle(9).map(abs).shuffle(8),
            "shuffle(9) is followed by another shuffle",
        ),
        "repeated": (
            lambda data: data.map(abs).shuffle(9).repeat(2),
            "it repeats a shuffle, whose next order cannot be known",
        ),
        "endless": (
            lambda data: data.map(abs).repeat(),
            "its data set repeats without end, so that no epoch begins it again",
        ),
        "cached": (lambda data: data.map(abs).cache().batch(2), "cache keeps elements already"),
        "over it": (lambda data: data.map(abs).window(2).batch(2), "window cannot be built again"),
        "no map": (lambda data: data.batch(2), "the pipeline has no map"),
    }


def test_a_pipeline_without_a_cache_has_the_reason() -> None:
    for name, (make, reason) in _refused().items():
        script = script_of(make(tf.data.Dataset.range(8)))
        assert (name, script.why_no_cache) == (name, reason)
        assert script.store is None


def test_a_cache_without_room_is_refused_and_an_open_one_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = script_of(made_of(".map(triple).batch(2)"))
    assert script.store.bytes_needed == 201 * 8
    script.source(None, 0, Knobs(cache="on"))
    monkeypatch.setattr(script.store, "_available_bytes", lambda: 3000.0)
    script.source(None, 0, Knobs(cache="on"))
    script.close_cache()
    with pytest.raises(
        CannotRebuildError, match="the cache needs 2 kB, more than half of the 3 kB"
    ):
        script.source(None, 0, Knobs(cache="on"))

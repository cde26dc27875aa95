"""A script's own pipeline, rebuilt with other settings: every element is equal, and in the same
order."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from tests.tfdata import pipelines
from tests.tfdata.rebuilt_epochs import in_python, rebuilt_epoch
from tfwatch.core.knobs import Knobs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("in_parallel")]

EPOCHS, SWITCHES = 1, 20


@pytest.mark.parametrize("name", [*pipelines.AT_ONCE, *pipelines.WITH_EPOCH])
def test_random_switches_change_no_element_and_no_order(name: str) -> None:
    from tfwatch.watch.fit.switching.script_pipeline import ScriptPipeline

    make = {**pipelines.AT_ONCE, **pipelines.WITH_EPOCH}[name]
    bare, data, script, chooser = make(), make(), ScriptPipeline(), random.Random(name)
    total = 0
    for _ in range(EPOCHS):
        iterator = iter(data)
        script.read(iterator)
        assert not script.why_not
        assert bool(script.why_not_now) == (name in pipelines.WITH_EPOCH)
        got, switches = rebuilt_epoch(iterator, script, chooser)
        assert got == [in_python(batch) for batch in bare]
        total += switches
    assert total >= SWITCHES


def test_a_split_by_a_fixed_shuffle_without_a_seed_stays_the_same() -> None:
    import tensorflow as tf

    from tfwatch.watch.fit.switching.script_pipeline import ScriptPipeline

    shuffled = tf.data.Dataset.range(200).shuffle(200, reshuffle_each_iteration=False)
    data, script = shuffled.map(lambda x: x * 3).skip(100).batch(2), ScriptPipeline()
    bare = [in_python(batch) for batch in data]
    for seed in range(2):
        iterator = iter(data)
        script.read(iterator)
        assert not script.why_not
        assert rebuilt_epoch(iterator, script, random.Random(seed))[0] == bare


def _map(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda data: data.map(function)


def _variable() -> Any:
    import tensorflow as tf

    return tf.Variable(0, dtype=tf.int64)


def _refused() -> dict[str, tuple[Callable[[Any], Any], str]]:
    import keras
    import tensorflow as tf

    variable, flip = _variable(), keras.layers.RandomFlip()

    def crop(x: Any) -> Any:
        return tf.image.random_crop(tf.fill([4], x), [2])

    def some(x: Any) -> Any:
        return tf.random.uniform(tf.reshape(x, [1]))

    def call(x: Any) -> Any:
        return tf.py_function(abs, [x], tf.int64)

    def count(x: Any) -> Any:
        return variable.assign_add(x)

    def nested(x: Any) -> Any:
        return tf.cond(x > 1, lambda: tf.function(count)(x), lambda: x)

    def show(x: Any) -> Any:
        tf.print(x)
        return x

    def augment(x: Any) -> Any:
        return flip(tf.zeros([4, 4, 3])), x

    return {
        "random": (_map(crop), "map(crop) draws random numbers, in the order of its calls"),
        "Python": (_map(call), "map(call) calls Python, which runs one call at a time"),
        "variable": (_map(count), "map(count) changes a variable or a table"),
        "nested": (_map(nested), "map(nested) changes a variable or a table"),
        "side effect": (_map(show), "map(show) has a side effect (PrintV2)"),
        "layer": (_map(augment), "map(augment) changes a variable or a table"),
        "interleaved": (
            lambda data: data.interleave(tf.data.Dataset.range),
            "the pipeline has no map: set num_parallel_calls of its interleave in the script",
        ),
        "no map": (lambda data: data, "the pipeline has no map"),
        "repeated": (
            lambda data: data.shuffle(9).repeat(2).map(abs),
            "it repeats a shuffle, whose next order cannot be known",
        ),
        "smaller": (
            lambda data: data.map(abs).batch(3).repeat(2),
            "a smaller last batch would come among the others: repeat stands after batch(3)",
        ),
        "apart": (
            lambda data: data.map(abs).batch(3).take(2).batch(2),
            "a smaller last batch would come among the others: batch(2) stands after batch(3)",
        ),
        "twice": (
            lambda data: data.map(abs).shuffle(9).shuffle(9),
            "shuffle(9) is followed by another shuffle",
        ),
        "ragged": (
            lambda data: data.map(some).map(abs).padded_batch(2),
            "the elements after map(some) have no fixed shape",
        ),
    }


def test_a_pipeline_that_would_change_is_refused_with_the_reason() -> None:
    import tensorflow as tf

    from tfwatch.watch.fit.switching.script_pipeline import ScriptPipeline

    for name, (make, reason) in _refused().items():
        script = ScriptPipeline()
        script.read(iter(make(tf.data.Dataset.range(8))))
        assert (name, script.why_not) == (name, reason)


def _drawn_anew() -> dict[str, Any]:
    import tensorflow as tf

    numbers, make = tf.data.Dataset.range(8), tf.data.Dataset
    experimental = tf.data.experimental
    return {
        "sampled": make.sample_from_datasets(
            [numbers, numbers], [0.5, 0.5], seed=3, rerandomize_each_iteration=True
        ),
        "chosen": make.choose_from_datasets([numbers, numbers], make.range(2)),
        "random": make.random(seed=3, rerandomize_each_iteration=True).take(8),
        "shuffled": numbers.apply(experimental.shuffle_and_repeat(8, 1, seed=3)),
        "sloppy": numbers.apply(experimental.parallel_interleave(make.range, 2, sloppy=True)),
        "snapshot": numbers.snapshot("never_read"),
    }


@pytest.mark.parametrize("name", ["sampled", "chosen", "random", "shuffled", "sloppy", "snapshot"])
def test_a_stage_that_may_draw_anew_for_each_iterator_is_refused_and_keeps_the_prefetch(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tfwatch.watch.fit.switching.script_pipeline import ScriptPipeline

    monkeypatch.chdir(tmp_path)  # a snapshot writes
    script = ScriptPipeline()
    script.read(iter(_drawn_anew()[name].map(lambda x: x).batch(2)))
    assert script.why_not.endswith("is not known to give another iterator the same elements")
    assert not script.needs_rebuild(Knobs("default", "3"))


@pytest.mark.parametrize("name", ["sampled", "random"])
def test_a_draw_that_is_the_same_in_each_iterator_can_be_switched(name: str) -> None:
    import tensorflow as tf

    from tfwatch.watch.fit.switching.script_pipeline import ScriptPipeline

    numbers, make = tf.data.Dataset.range(8), tf.data.Dataset
    data = (
        make.sample_from_datasets([numbers, numbers], [0.5, 0.5], seed=3)
        if name == "sampled"
        else make.random(seed=3).take(8)
    )
    script = ScriptPipeline()
    script.read(iter(data.map(lambda x: x).batch(2)))
    assert not script.why_not


def test_workers_set_the_parallel_calls_of_each_map() -> None:
    from tfwatch.core.knobs import Knobs
    from tfwatch.tfdata.stage_names import kind_of, nodes_of
    from tfwatch.watch.fit.switching.script_pipeline import ScriptPipeline

    script, data = ScriptPipeline(), pipelines.AT_ONCE["two parallel maps"]()
    script.read(iter(data))
    knobs = Knobs("default", "7")
    source = script.source(iter(data), 0, knobs)
    built = script.build(source._dataset, knobs)
    maps = [node for node in nodes_of(built) if kind_of(node) == "ParallelMap"]
    assert [int(node._num_parallel_calls) for node in maps] == [7, 7]


def test_a_source_that_cannot_be_begun_again_is_refused_where_no_epoch_begins_it() -> None:
    from tfwatch.watch.fit.switching.script_pipeline import ScriptPipeline

    script = ScriptPipeline()
    script.read(iter(pipelines.generated().repeat().map(abs)))
    assert script.why_not == "its data set repeats without end, so that no epoch begins it again"


def test_a_tensorflow_without_a_private_name_leaves_the_pipeline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tfwatch.tfdata import pipeline_tree
    from tfwatch.watch.fit.switching.script_pipeline import ScriptPipeline

    monkeypatch.setattr(pipeline_tree, "function_of", lambda _: None)
    script = ScriptPipeline()
    script.read(iter(pipelines.AT_ONCE["map"]()))
    assert script.why_not.startswith("map(triple) cannot be read with this TensorFlow")
    assert not script.needs_rebuild(Knobs("off", "3"))

"""A script's own pipeline, rebuilt with other settings: every element is equal, and in the same
order."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf

from tests.tfdata.rebuilt_epochs import in_python, made_of, rebuilt_epoch, script_of
from tfwatch.core.knobs import Knobs
from tfwatch.tfdata import pipeline_tree
from tfwatch.tfdata.stage_names import kind_of, nodes_of

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("in_parallel")]

SWITCHES = 20
_UNEVEN = "Dataset.from_tensor_slices(numbers[[5, 0, 31, 2, 17, 0, 0, 40, 1, 46, 13, 30]])"
GENERATED = "Dataset.from_generator(rows, output_signature=tf.TensorSpec([], tf.int64)).repeat(8)"
_NUMBERS = "lambda n: Dataset.range(n * 100, n * 101)"
_LINES = "Dataset.from_tensor_slices(texts * 10)"
_TEXTS = "interleave(tf.data.TextLineDataset"
#: Pipelines in the words of the grammar, those that begin with a dot over 201 numbers. Each is
#: built again over its source at once: the source is replayed.
AT_ONCE = {
    "map": ".map(triple).batch(2)",
    "two maps": ".map(triple).map(more).batch(2)",
    "map after batch": ".batch(2).map(triple)",
    "map before and after": ".map(triple).batch(2).map(more).prefetch(2)",
    "no batch": ".take(100).map(triple)",
    "shuffle": ".shuffle(20, seed=1).map(triple).batch(2)",
    "fixed shuffle": ".shuffle(9, seed=1, reshuffle_each_iteration=False).map(triple).batch(2)",
    "map before shuffle": ".map(triple).shuffle(20, seed=1).batch(2)",
    "two shuffles": ".shuffle(9, seed=1).map(triple).shuffle(20, seed=2).batch(2)",
    "shuffled batches": ".batch(2, drop_remainder=True).map(triple).shuffle(5, seed=4).map(more)",
    "take": ".map(triple).take(195).batch(2).take(95)",
    "skip": ".map(triple).skip(3).batch(2).skip(2)",
    "shard": ".repeat(2).map(triple).shard(2, 1).batch(2)",
    "repeat": ".take(67).map(triple).repeat(3).batch(2)",
    "parallel map": ".map(triple, num_parallel_calls=AUTOTUNE).batch(2).prefetch(AUTOTUNE)",
    "two parallel maps": ".map(triple, 2).batch(2).map(more, 3).prefetch(1)",
    "map and batch": ".map(triple, 2, deterministic=True).batch(2, drop_remainder=True)",
    "parallel batch": ".map(triple).batch(2, num_parallel_calls=2)",
    "padded batch": ".map(growing).padded_batch(2).prefetch(2)",
    "batches of batches": ".map(triple).batch(2).map(more).batch(1, drop_remainder=True)",
    "sums": ".repeat(3).map(triple).batch(2).map(tf.reduce_sum).batch(1).batch(3).map(more)",
    "prefetch inside": ".map(triple).prefetch(4).batch(2).prefetch(2).prefetch(1)",
    "table": ".map(looked_up).batch(2)",
    "structure": ".map(pair).map(as_dict).batch(2)",
    "structure below": "Dataset.from_tensor_slices({'a': range(201), 'b': range(201)})"
    ".shuffle(9, seed=2).map(triple).batch(2)",
    "zip": "Dataset.zip((Dataset.range(99), Dataset.range(99).shuffle(9, seed=5))).map(triple)",
    "concatenate": ".shuffle(9, seed=5).concatenate(Dataset.range(9)).map(triple).batch(2)",
    "options": ".with_options(options(threading__private_threadpool_size=2)).map(triple).batch(2)",
    "optimizations": ".map(triple).batch(2).with_options("
    "options(experimental_optimization__apply_default_optimizations=False))",
    "list of files": "Dataset.list_files(texts * 50, shuffle=True, seed=3).map(length).batch(2)",
}
#: Each is built again with the next epoch: its source is begun once an epoch.
WITH_EPOCH = {
    "filter": ".repeat(2).filter(is_odd_sum).map(triple).batch(2)",
    "shuffle and filter": ".repeat(2).shuffle(9, seed=1).filter(is_odd_sum).map(triple).batch(2)",
    "map and filter": ".repeat(2).map(triple).filter(is_odd_sum).map(more).batch(2)",
    "shuffled small batch": ".map(triple).batch(2).shuffle(5, seed=4).map(more)",
    "repeated small batch": ".take(31).map(triple).batch(2).repeat(6).map(more)",
    "unbatched": ".batch(4).unbatch().map(triple).batch(2)",
    "flat map": ".flat_map(pairs).map(triple).batch(4)",
    "interleave": f"{_LINES}.{_TEXTS}).map(number).batch(2)",
    "parallel interleave": f"{_LINES}.shuffle(9, seed=1).{_TEXTS}, 3, 2, 2).map(number).batch(2)",
    "autotuned interleave": f"{_UNEVEN}.shuffle(9, seed=1)"
    f".interleave({_NUMBERS}, num_parallel_calls=AUTOTUNE).map(more).batch(2)",
    "two interleaves": f"{_UNEVEN}.interleave({_NUMBERS}, 5, 2, num_parallel_calls=3).batch(7)"
    ".interleave(Dataset.from_tensor_slices, 2).map(more).batch(2)",
    "interleave below filter": f"{_UNEVEN}.interleave({_NUMBERS}, 3).enumerate()"
    ".filter(is_odd_sum).map(triple).batch(1)",
    "interleave of a generator": ".take(20).interleave(generated).repeat(2).map(triple).batch(1)",
    "records": "tf.data.TFRecordDataset(records * 10).shuffle(30, seed=7).map(number).batch(2)",
    "shuffled records": "tf.data.TFRecordDataset(Dataset.from_tensor_slices(records * 10)"
    ".shuffle(9, seed=6)).map(number).batch(2)",
    "generator": f"{GENERATED}.map(triple)",
    "shuffled generator": f"{GENERATED}.shuffle(9, seed=1).map(triple)",
    "Python below": ".map(in_python).map(triple).batch(2)",
    "random below": ".map(draw_seeded).map(triple).batch(2)",
    "cache": ".map(more).cache().shuffle(9, seed=1).map(triple).batch(2)",
    "enumerate": ".enumerate().map(triple).batch(2)",
    "window": ".window(2, drop_remainder=True).flat_map(windowed).map(triple)",
    "scan": ".scan(np.int64(0), running).map(triple).batch(2)",
    "in any order": ".map(more, 1, deterministic=False).map(triple).batch(2)",
}


@pytest.mark.parametrize("name", [*AT_ONCE, *WITH_EPOCH])
def test_random_switches_change_no_element_and_no_order(name: str) -> None:
    text = {**AT_ONCE, **WITH_EPOCH}[name]
    bare, data = made_of(text), made_of(text)
    iterator = iter(data)
    script = script_of(iterator)
    assert not script.why_not
    assert bool(script.why_not_now) == (name in WITH_EPOCH)
    got, switches = rebuilt_epoch(iterator, script, random.Random(name))
    assert got == [in_python(batch) for batch in bare]
    assert switches >= SWITCHES


def test_a_split_by_a_fixed_shuffle_without_a_seed_stays_the_same() -> None:
    shuffled = tf.data.Dataset.range(200).shuffle(200, reshuffle_each_iteration=False)
    data = shuffled.map(lambda x: x * 3).skip(100).batch(2)
    bare, script = [in_python(batch) for batch in data], script_of(data)
    assert not script.why_not
    for seed in range(2):
        assert rebuilt_epoch(iter(data), script, random.Random(seed))[0] == bare


def _map(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda data: data.map(function)


def _variable() -> Any:
    return tf.Variable(0, dtype=tf.int64)


def _refused() -> dict[str, tuple[Callable[[Any], Any], str]]:
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

    def augment_and_count(x: Any) -> Any:
        return flip(tf.zeros([4, 4, 3])), variable.assign_add(x)

    return {
        "random": (_map(crop), "map(crop) draws random numbers, in the order of its calls"),
        "Python": (_map(call), "map(call) calls Python, which runs one call at a time"),
        "variable": (_map(count), "map(count) changes a variable or a table"),
        "nested": (_map(nested), "map(nested) changes a variable or a table"),
        "side effect": (_map(show), "map(show) has a side effect (PrintV2)"),
        "layer": (_map(augment), "map(augment) draws random numbers, in the order of its calls"),
        "layer and variable": (
            _map(augment_and_count),
            "map(augment_and_count) changes a variable or a table",
        ),
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
    for name, (make, reason) in _refused().items():
        script = script_of(make(tf.data.Dataset.range(8)))
        assert (name, script.why_not) == (name, reason)


def _drawn_anew() -> dict[str, Any]:
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
    monkeypatch.chdir(tmp_path)  # a snapshot writes
    script = script_of(_drawn_anew()[name].map(lambda x: x).batch(2))
    assert script.why_not.endswith("is not known to give another iterator the same elements")
    assert not script.needs_rebuild(Knobs("default", "3"))


@pytest.mark.parametrize(
    "text",
    [
        "Dataset.sample_from_datasets([Dataset.range(8), Dataset.range(8)], [0.5, 0.5], seed=3)",
        "Dataset.random(seed=3).take(8)",
    ],
)
def test_a_draw_that_is_the_same_in_each_iterator_can_be_switched(text: str) -> None:
    assert not script_of(made_of(f"{text}.map(small).batch(2)")).why_not


def test_workers_set_the_parallel_calls_of_each_map() -> None:
    data, knobs = made_of(AT_ONCE["two parallel maps"]), Knobs("default", "7")
    script = script_of(data)
    source = script.source(iter(data), 0, knobs)
    built = script.build(source._dataset, knobs)
    maps = [node for node in nodes_of(built) if kind_of(node) == "ParallelMap"]
    assert [int(node._num_parallel_calls) for node in maps] == [7, 7]


def test_a_source_that_cannot_be_begun_again_is_refused_where_no_epoch_begins_it() -> None:
    why = "its data set repeats without end, so that no epoch begins it again"
    assert script_of(made_of(f"{GENERATED}.repeat().map(triple)")).why_not == why


def test_a_tensorflow_without_a_private_name_leaves_the_pipeline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pipeline_tree, "function_of", lambda _: None)
    script = script_of(tf.data.Dataset.range(8).map(abs).batch(2))
    assert script.why_not.startswith("map(abs) cannot be read with this TensorFlow")
    assert not script.needs_rebuild(Knobs("off", "3"))

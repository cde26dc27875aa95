"""Pipelines as scripts write them, of tiny elements: each function makes a new one."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: The elements of a pipeline: with batches of two, 100 batches an epoch.
COUNT = 201


def _range() -> Any:
    import tensorflow as tf

    return tf.data.Dataset.range(COUNT)


def _triple(x: Any) -> Any:
    return x * 3


def _more(x: Any) -> Any:
    return x + 1


@functools.cache
def _table() -> Any:
    import tensorflow as tf

    keys = tf.range(COUNT, dtype=tf.int64)
    return tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(keys, keys * 7), tf.constant(0, tf.int64)
    )


def _is_odd(x: Any, *_: Any) -> Any:
    return x % 2 == 1


def _product(x: Any, y: Any) -> Any:
    return x * y


def _pair(x: Any) -> Any:
    import tensorflow as tf

    return tf.data.Dataset.from_tensors(x).repeat(2)


def _rows() -> Iterator[int]:
    yield from range(COUNT)


def generated() -> Any:
    import tensorflow as tf

    return tf.data.Dataset.from_generator(_rows, output_signature=tf.TensorSpec([], tf.int64))


def _in_python(x: Any) -> Any:
    import tensorflow as tf

    return tf.ensure_shape(tf.numpy_function(_triple, [x], tf.int64), [])


def _sum(x: Any) -> Any:
    import tensorflow as tf

    return tf.reduce_sum(x)


def _random(x: Any) -> Any:
    import tensorflow as tf

    return x + tf.random.uniform([], maxval=1000, dtype=tf.int64, seed=3)


def _fields(x: Any) -> dict[str, Any]:
    import tensorflow as tf

    return {"number": x, "text": tf.strings.as_string(x), "pair": tf.stack([x, x])}


def _label(fields: dict[str, Any]) -> tuple[Any, Any]:
    return fields, fields["number"] * 2


def _growing(x: Any) -> Any:
    import tensorflow as tf

    return tf.range(x % 4 + 1)


def _uneven() -> Any:
    """Return the lengths of data sets, some empty."""
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices([5, 0, 31, 2, 17, 0, 0, 40, 1, 62, 13, 30])


def _numbers(count: Any) -> Any:
    import tensorflow as tf

    return tf.data.Dataset.range(tf.cast(count, tf.int64)).map(
        lambda x: x * 100 + tf.cast(count, tf.int64)
    )


def _rows_of(batch: Any) -> Any:
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(batch)


def _in_python_rows(_: Any) -> Any:
    return generated()


@functools.cache
def _files() -> list[str]:
    """Ten text files and ten files of records, of twenty lines each."""
    import tensorflow as tf

    folder = Path(tempfile.mkdtemp())
    for n in range(10):
        lines = [str(100 * n + k) for k in range(20)]
        (folder / f"{n}.txt").write_text("\n".join(lines))
        with tf.io.TFRecordWriter(str(folder / f"{n}.rec")) as writer:
            for line in lines:
                writer.write(line.encode())
    return sorted(str(path) for path in folder.iterdir())


def _texts() -> list[str]:
    return [file for file in _files() if file.endswith(".txt")]


def _records() -> list[str]:
    return [file for file in _files() if file.endswith(".rec")]


def _to_number(text: Any) -> Any:
    import tensorflow as tf

    return tf.strings.to_number(text, tf.int64)


def _lines_of(file: Any) -> Any:
    import tensorflow as tf

    return tf.data.TextLineDataset(file)


def _read(file: Any) -> Any:
    import tensorflow as tf

    return tf.strings.length(tf.io.read_file(file))


def _threads() -> Any:
    import tensorflow as tf

    options = tf.data.Options()
    options.threading.private_threadpool_size = 2
    return options


def _plain() -> Any:
    import tensorflow as tf

    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    return options


def _data() -> Any:
    import tensorflow as tf

    return tf.data.Dataset


#: Each is built again over its source at once: the source is replayed.
AT_ONCE: dict[str, Callable[[], Any]] = {
    "map": lambda: _range().map(_triple).batch(2),
    "two maps": lambda: _range().map(_triple).map(_more).batch(2),
    "map after batch": lambda: _range().batch(2).map(_triple),
    "map before and after": lambda: _range().map(_triple).batch(2).map(_more).prefetch(2),
    "no batch": lambda: _range().take(100).map(_triple),
    "shuffle": lambda: _range().shuffle(20, seed=1).map(_triple).batch(2),
    "fixed shuffle": lambda: _range().shuffle(20, seed=1, reshuffle_each_iteration=False).map(_triple).batch(2),  # noqa: E501
    "fixed shuffle over another": lambda: _range().shuffle(9, seed=1).shuffle(20, seed=2, reshuffle_each_iteration=False).map(_triple).batch(2),  # noqa: E501
    "map before shuffle": lambda: _range().map(_triple).shuffle(20, seed=1).batch(2),
    "two shuffles": lambda: _range().shuffle(9, seed=1).map(_triple).shuffle(20, seed=2).batch(2),
    "shuffled batches": lambda: _range().map(_triple).batch(2, drop_remainder=True).shuffle(5, seed=4).map(_more),  # noqa: E501
    "take": lambda: _range().map(_triple).take(195).batch(2).take(95),
    "skip": lambda: _range().map(_triple).skip(3).batch(2).skip(2),
    "shard": lambda: _range().repeat(2).map(_triple).shard(2, 1).batch(2),
    "repeat": lambda: _range().take(67).map(_triple).repeat(3).batch(2),
    "parallel map": lambda: _range().map(_triple, num_parallel_calls=-1).batch(2).prefetch(-1),
    "two parallel maps": lambda: _range().map(_triple, 2).batch(2).map(_more, 3).prefetch(1),
    "map and batch": lambda: _range().map(_triple, 2, deterministic=True).batch(2, drop_remainder=True),  # noqa: E501
    "parallel batch": lambda: _range().map(_triple).batch(2, num_parallel_calls=2),
    "padded batch": lambda: _range().map(_growing).padded_batch(2).prefetch(2),
    "batches of batches": lambda: _range().map(_triple).batch(2).map(_more).batch(1, drop_remainder=True),  # noqa: E501
    "padded batch of batches": lambda: _range().repeat(2).map(_triple).batch(2).padded_batch(2).map(_more),  # noqa: E501
    "batch of sums": lambda: _range().repeat(3).map(_triple).batch(2).map(_sum).batch(1).batch(3).map(_more),  # noqa: E501
    "prefetch inside": lambda: _range().map(_triple).prefetch(4).batch(2).prefetch(2).prefetch(1),
    "table": lambda: _range().map(_table().lookup).batch(2),
    "structure": lambda: _range().map(_fields).map(_label).batch(2),
    "structure below": lambda: (
        _data().from_tensor_slices({"a": [*range(COUNT)], "b": [str(n) for n in range(COUNT)]})
        .shuffle(9, seed=2).map(lambda x: (x["a"], x["b"])).batch(2)
    ),
    "zip": lambda: _data().zip((_range(), _range().shuffle(9, seed=5))).map(_product).batch(2),
    "concatenate": lambda: _range().shuffle(9, seed=5).concatenate(_range().take(9)).map(_triple).batch(2),  # noqa: E501
    "options": lambda: _range().with_options(_threads()).map(_triple).batch(2),
    "optimizations": lambda: _range().map(_triple).batch(2).with_options(_plain()),
    "list of files": lambda: _data().list_files(_texts() * 20, shuffle=True, seed=3).map(_read).batch(2),  # noqa: E501
}  # fmt: skip
#: Each is built again with the next epoch: its source is begun once an epoch.
WITH_EPOCH: dict[str, Callable[[], Any]] = {
    "filter": lambda: _range().repeat(2).filter(_is_odd).map(_triple).batch(2),
    "filter over a shuffle": lambda: _range().repeat(2).shuffle(9, seed=1).filter(_is_odd).map(_triple).batch(2),  # noqa: E501
    "map and filter": lambda: _range().repeat(2).map(_triple).filter(_is_odd).map(_more).batch(2),
    "shuffled small batch": lambda: _range().map(_triple).batch(2).shuffle(5, seed=4).map(_more),
    "repeated small batch": lambda: _range().take(31).map(_triple).batch(2).repeat(6).map(_more),
    "unbatched": lambda: _range().batch(4).unbatch().map(_triple).batch(2),
    "flat map": lambda: _range().flat_map(_pair).map(_triple).batch(4),
    "interleave": lambda: _data().from_tensor_slices(_texts()).interleave(_lines_of).map(_to_number).batch(2),  # noqa: E501
    "parallel interleave": lambda: (
        _data().from_tensor_slices(_texts()).shuffle(9, seed=1)
        .interleave(_lines_of, cycle_length=3, block_length=2, num_parallel_calls=2).map(_to_number).batch(2)  # noqa: E501
    ),
    "autotuned interleave": lambda: _uneven().shuffle(9, seed=1).interleave(_numbers, num_parallel_calls=-1).map(_more).batch(2),  # noqa: E501
    "two interleaves": lambda: (
        _uneven().interleave(_numbers, 5, 2, num_parallel_calls=3).batch(7).interleave(_rows_of, 2).map(_more).batch(2)  # noqa: E501
    ),
    "interleave below filter": lambda: (
        _uneven().interleave(_numbers, 3).enumerate().filter(_is_odd).map(_product).batch(1)
    ),
    "interleave of a generator": lambda: _range().take(1).interleave(_in_python_rows).map(_triple).batch(2),  # noqa: E501
    "records": lambda: _data_of_records().shuffle(30, seed=7).map(_to_number).batch(2).prefetch(-1),
    "shuffled records": lambda: _data_of_records(shuffled=True).map(_to_number).batch(2),
    "generator": lambda: generated().map(_triple).batch(2),
    "shuffled generator": lambda: generated().shuffle(9, seed=1).map(_triple).batch(2),
    "Python below": lambda: _range().map(_in_python).map(_triple).batch(2),
    "random below": lambda: _range().map(_random).map(_triple).batch(2),
    "cache": lambda: _range().map(_more).cache().shuffle(9, seed=1).map(_triple).batch(2),
    "enumerate": lambda: _range().enumerate().map(_product).batch(2),
    "window": lambda: _range().window(2, drop_remainder=True).flat_map(lambda x: x.batch(2)).map(_triple),  # noqa: E501
    "scan": lambda: _range().scan(0, lambda total, x: (total + 1, x * 2)).map(_triple).batch(2),
    "in any order": lambda: _range().map(_more, 1, deterministic=False).map(_triple).batch(2),
}  # fmt: skip


def _data_of_records(*, shuffled: bool = False) -> Any:
    import tensorflow as tf

    if shuffled:
        return tf.data.TFRecordDataset(
            tf.data.Dataset.from_tensor_slices(_records()).shuffle(9, seed=6)
        )
    return tf.data.TFRecordDataset(_records())

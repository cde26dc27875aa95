"""Pipelines as scripts write them whose maps stand before a batch: each function makes a new one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tests.tfdata.rebuilding import pipelines

if TYPE_CHECKING:
    from collections.abc import Callable

#: Examples of a pipeline: with batches of four, the last one has three.
COUNT = 63
SIDE = 7


def _images() -> Any:
    import tensorflow as tf

    images = np.random.default_rng(0).integers(0, 256, (COUNT, SIDE, SIDE, 3), dtype=np.uint8)
    return tf.data.Dataset.from_tensor_slices((images, np.arange(COUNT) % 10))


def _cast(x: Any, y: Any) -> tuple[Any, Any]:
    import tensorflow as tf

    return tf.cast(x, tf.float16), tf.cast(y, tf.int32)


def _normalise(x: Any, y: Any) -> tuple[Any, Any]:
    import tensorflow as tf

    return tf.cast(x, tf.float32) / 255.0 - [0.485, 0.456, 0.406], y


def _crop(x: Any, y: Any) -> tuple[Any, Any]:
    import tensorflow as tf

    return tf.image.resize_with_crop_or_pad(x[1:, :-1], 5, 9), y


def _one_hot(x: Any, y: Any) -> tuple[Any, Any]:
    import tensorflow as tf

    return x, tf.one_hot(y, 10)


def _dictionary(x: Any, y: Any) -> tuple[dict[str, Any], Any]:
    import tensorflow as tf

    return {"image": tf.transpose(x, [2, 0, 1]), "flat": tf.reshape(x, [-1]), "one": 1.0}, y


def _of_dictionary(fields: dict[str, Any], y: Any) -> tuple[Any, Any]:
    import tensorflow as tf

    return tf.pad(fields["flat"], [[1, 2]]), (y, tf.reduce_sum(tf.cast(fields["flat"], tf.int32)))


def _augment(x: Any, y: Any) -> tuple[Any, Any]:
    import tensorflow as tf

    return tf.image.flip_left_right(x), tf.clip_by_value(y, 2, 7)


def _branch(x: Any, y: Any) -> tuple[Any, Any]:
    import tensorflow as tf

    return tf.cond(y > 5, lambda: tf.image.flip_up_down(x), lambda: 255 - x), y


def _mask(x: Any, y: Any) -> tuple[Any, Any]:
    import tensorflow as tf

    return tf.where(x > 99, x, tf.zeros_like(x)), tf.reduce_max(x)


def _jitter(x: Any, y: Any) -> tuple[Any, Any]:
    import tensorflow as tf

    return x + tf.cast(tf.random.uniform([], maxval=5, dtype=tf.int32, seed=3), tf.uint8), y


def _exponent(x: Any, y: Any) -> tuple[Any, Any]:
    import tensorflow as tf

    return tf.exp(tf.cast(x, tf.float32) / 255.0), y


def _standardise(x: Any, y: Any) -> tuple[Any, Any]:
    import tensorflow as tf

    return tf.image.per_image_standardization(x), y


def _encode(x: Any, y: Any) -> tuple[Any, Any]:
    import tensorflow as tf

    return tf.io.decode_jpeg(tf.io.encode_jpeg(x)), y


def _in_python(x: Any, y: Any) -> tuple[Any, Any]:
    import tensorflow as tf

    return tf.ensure_shape(tf.numpy_function(np.flipud, [x], tf.uint8), x.shape), y


def _tail(x: Any, y: Any) -> tuple[Any, Any]:
    return x[: tf_int(y)], y


def tf_int(y: Any) -> Any:
    import tensorflow as tf

    return tf.cast(y, tf.int32) % 3


def _parsed() -> Any:
    import tensorflow as tf

    def example(n: int) -> bytes:
        numbers = tf.train.Feature(float_list=tf.train.FloatList(value=[n, n / 3]))
        label = tf.train.Feature(int64_list=tf.train.Int64List(value=[n]))
        features = tf.train.Features(feature={"x": numbers, "y": label})
        return bytes(tf.train.Example(features=features).SerializeToString())

    columns = {
        "x": tf.io.FixedLenFeature([2], tf.float32),
        "y": tf.io.FixedLenFeature([], tf.int64),
    }
    records = tf.data.Dataset.from_tensor_slices([example(n) for n in range(COUNT)])
    return records.map(lambda record: tf.io.parse_single_example(record, columns))


_IN_PYTHON = "from_generator(rows) calls Python, which runs one call at a time"
#: Each gives the same bits with vectorised maps.
EQUAL: dict[str, Callable[[], Any]] = {
    "cast": lambda: _images().map(_cast).batch(4),
    "normalise": lambda: _images().map(_normalise).batch(4),
    "crop": lambda: _images().map(_crop).batch(4).prefetch(2),
    "one hot": lambda: _images().map(_one_hot).batch(4, drop_remainder=True),
    "dictionary": lambda: _images().map(_dictionary).batch(4),
    "several maps": lambda: _images().map(_augment).map(_dictionary).map(_of_dictionary).batch(4),
    "branch": lambda: _images().map(_branch).batch(4),
    "mask": lambda: _images().map(_mask, num_parallel_calls=2).batch(4),
    "parallel": lambda: (
        _images().map(_normalise, num_parallel_calls=-1).batch(4, num_parallel_calls=2).prefetch(-1)
    ),
    "shuffle": lambda: _images().shuffle(20, seed=1).map(_normalise).batch(4),
    "shuffle and repeat": lambda: (
        _images().shuffle(20, seed=1, reshuffle_each_iteration=True).map(_normalise).batch(4)
    ),
    "map before shuffle": lambda: _images().map(_normalise).shuffle(20, seed=1).batch(4),
    "repeat": lambda: _images().map(_normalise).repeat(2).batch(4),
    "one smaller batch": lambda: _images().take(3).repeat(99).map(_normalise).batch(64),
    "batches of one": lambda: _images().map(_normalise).batch(1),
    "batches of batches": lambda: (
        _images().map(_augment).batch(4, drop_remainder=True).map(_mask).batch(2)
    ),
    "map after batch": lambda: _images().map(_normalise).batch(4).map(_mask),
    "random below": lambda: _images().map(_jitter).map(_normalise).batch(4),
    "cache below": lambda: (
        _images().map(_augment).cache().shuffle(20, seed=1).map(_normalise).batch(4)
    ),
    "JPEG below": lambda: _images().map(_encode).map(_fixed).cache().map(_normalise).batch(4),
    "JPEG before": lambda: (
        _images().map(_encode).map(_fixed).map(_normalise).map(_one_hot).batch(4)
    ),
    "parsed": lambda: _parsed().batch(4),
}
#: Each is refused without a proof, for this reason.
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "random": (
        lambda: _images().map(_jitter).batch(4),
        "map(jitter) draws random numbers, in the order of its calls",
    ),
    "Python": (
        lambda: _images().map(_in_python).batch(4),
        "map(in_python) calls Python, which runs one call at a time",
    ),
    "JPEG": (
        lambda: _images().map(_encode).batch(4),
        "TensorFlow cannot vectorise DecodeJpeg of map(encode)",
    ),
    "padded": (
        lambda: _images().map(_tail).padded_batch(4),
        "padded_batch(4) pads elements of several shapes, which no batch before map(tail) can",
    ),
    "shapes": (
        lambda: _images().map(_tail).batch(1),
        "the elements around map(tail) have no fixed shape",
    ),
    "no batch": (
        lambda: _images().batch(4).map(_normalise),
        "no map stands directly before a batch",
    ),
    "generator": (
        lambda: pipelines.generated().map(abs).batch(4),
        f"a proof would read its examples a second time: {_IN_PYTHON}",
    ),
    "table": (pipelines.AT_ONCE["table"], "TensorFlow cannot vectorise LookupTableFindV2 of map"),
}
#: Each is refused by its proof, for a reason that begins so.
NOT_EQUAL: dict[str, tuple[Callable[[], Any], str]] = {
    "last bits": (lambda: _images().map(_exponent).batch(4), "values differ in "),
    "sums": (
        lambda: _images().map(_standardise).batch(4),
        "map(standardise) was equal in 9 batches, but Mean may round otherwise in others",
    ),
}


def _fixed(x: Any, y: Any) -> tuple[Any, Any]:
    import tensorflow as tf

    return tf.ensure_shape(x, [SIDE, SIDE, 3]), y

"""The input pipeline from JPEG files: list, shuffle | read, decode, augment, batch.

The part before the bar is the source: batches of paths, labels and numbers, cheap to make and the same in every run
with the same seed. The part after it is rebuilt for each setting of the knobs. It returns one batch for each batch of
the source, in order, and computes an image from its file, its number and its batch's seed only, so that no setting
changes a bit. The cache of decoded images comes before the augmentation, which differs in each epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.core.knobs import Knobs
from tfwatch.tfdata import work_ahead
from tfwatch.workloads.data import numbered_examples
from tfwatch.workloads.data.image_folder import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    import tensorflow as tf
    from numpy.typing import NDArray

    from tfwatch.tfdata.cache import CachedExamples, ExampleStore
    from tfwatch.tfdata.shuffle import Shuffle

#: The part of a latency that is spent on starting the sleep and waking up, in microseconds: 250 for a sleep of 0 ms,
#: 450 for 5 ms, up to 900 for 40 ms.
_SLEEP_COST_US = 450
_BRIGHTNESS = 0.15


def source(
    paths: Sequence[bytes], labels: NDArray[np.int32], batch_size: int, seed: int, shuffle: Shuffle
) -> tf.data.Dataset:
    """Return batches of (path, label, number of the image, all of shape [batch], and the batch's seed).

    Each pass shuffles differently; the n-th pass is the same for the same seed. The last batch may be smaller.
    """
    import tensorflow as tf

    seeds = tf.data.Dataset.random(seed=seed, rerandomize_each_iteration=True)
    return _named(paths, labels, tf.data.Dataset.zip((shuffle.numbers.batch(batch_size), seeds)))


def in_order(paths: Sequence[bytes], labels: NDArray[np.int32], batch_size: int) -> tf.data.Dataset:
    """Return batches like those of `source`, unshuffled and the same in every pass."""
    import tensorflow as tf

    numbers = tf.data.Dataset.range(len(paths)).batch(batch_size)
    return _named(paths, labels, numbers.map(lambda batch: (batch, tf.constant(0, tf.int64))))


def _named(
    paths: Sequence[bytes], labels: NDArray[np.int32], numbered: tf.data.Dataset
) -> tf.data.Dataset:
    import tensorflow as tf

    all_paths, all_labels = tf.constant(list(paths)), tf.constant(labels)

    def name(numbers: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return tf.gather(all_paths, numbers), tf.gather(all_labels, numbers), numbers, seed

    return (
        numbered.map(name)
        .with_options(work_ahead.options(Knobs()))
        .with_options(work_ahead.without_autotune())
    )


def pipeline(
    batches: tf.data.Dataset,
    knobs: Knobs,
    *,
    batch_size: int,
    image_size: int,
    augmented: bool = True,
) -> tf.data.Dataset:
    """Return images of shape [batch, image_size, image_size, 3], 0 to 1, and labels, from batches of `source`."""
    parallel = work_ahead.num_parallel_calls(knobs.workers)
    images = (
        batches.map(reading(knobs.latency_ms), num_parallel_calls=_readers(knobs))
        .unbatch()
        .map(decoding(image_size), num_parallel_calls=parallel)
    )
    finish = augment if augmented else _plain
    return numbered_examples.finished(
        images.map(finish, num_parallel_calls=parallel).batch(batch_size), knobs
    )


def _readers(knobs: Knobs) -> int | None:
    """Return the number of batches that are read in parallel."""
    return (
        work_ahead.num_parallel_calls_stateful(knobs.workers)
        if knobs.latency_ms
        else work_ahead.num_parallel_calls(knobs.workers)
    )


def reading(latency_ms: float, cached: CachedExamples | None = None) -> Callable[..., Any]:
    """Return a map of a batch's paths to its files' bytes, label, number and seed for each element.

    cached: a batch whose images are all in the cache is not read.
    """
    import tensorflow as tf

    def files(paths: tf.Tensor) -> tf.Tensor:
        arrived = delayed(paths, latency_ms) if latency_ms else paths
        return tf.map_fn(tf.io.read_file, arrived)

    def read(
        paths: tf.Tensor, labels: tf.Tensor, numbers: tf.Tensor, seed: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        if cached is None:
            data = files(paths)
        else:
            data = tf.cond(tf.reduce_all(cached.has(numbers)), lambda: paths, lambda: files(paths))
        return data, labels, numbers, tf.fill(tf.shape(numbers), seed)

    return read


def delayed(value: tf.Tensor, latency_ms: float | tf.Tensor) -> tf.Tensor:
    """Return the value after a sleep inside TensorFlow, without Python and the GIL."""
    import tensorflow as tf

    once = tf.data.Dataset.from_tensors(value)
    delayed_once = tf.raw_ops.SleepDataset(
        input_dataset=tf.data.experimental.to_variant(once),
        sleep_microseconds=tf.maximum(tf.cast(latency_ms * 1000, tf.int64) - _SLEEP_COST_US, 0),
        output_types=[value.dtype],
        output_shapes=[value.shape],
    )
    # take(1): reading on to the end would sleep a second time.
    return (
        tf.data.experimental.from_variant(delayed_once, once.element_spec)
        .take(1)
        .get_single_element()
    )


def decoding(image_size: int, cached: CachedExamples | None = None) -> Callable[..., Any]:
    """Return a map of a file's bytes to the image; cached: an image in the cache is not decoded."""
    import tensorflow as tf

    def decoded(data: tf.Tensor) -> tf.Tensor:
        return tf.image.resize(decode(data), (image_size, image_size)) / 255.0

    def decode_one(
        data: tf.Tensor, label: tf.Tensor, number: tf.Tensor, seed: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        if cached is None:
            image = decoded(data)
        else:
            image = tf.cond(
                cached.has(number), lambda: cached.get(number)[0], lambda: decoded(data)
            )
        return image, label, number, seed

    return decode_one


def augment(
    image: tf.Tensor, label: tf.Tensor, number: tf.Tensor, seed: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Flip, shift by up to an eighth, and change the brightness, at random by the image's number and seed."""
    import tensorflow as tf

    size = image.shape[0]
    flip, shift, light = tf.unstack(
        tf.random.experimental.stateless_split(tf.stack([seed, number]), 3)
    )
    image = tf.image.stateless_random_flip_left_right(image, flip)
    edge = size // 8
    image = tf.pad(image, [[edge, edge], [edge, edge], [0, 0]], mode="REFLECT")
    image = tf.image.stateless_random_crop(image, (size, size, 3), shift)
    image = tf.image.stateless_random_brightness(image, _BRIGHTNESS, light)
    return tf.clip_by_value(image, 0.0, 1.0), label


def _plain(
    image: tf.Tensor, label: tf.Tensor, number: tf.Tensor, seed: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    del number, seed
    return image, label


def cached_pipeline(
    batches: tf.data.Dataset, knobs: Knobs, *, batch_size: int, image_size: int, store: ExampleStore
) -> tf.data.Dataset:
    """Return `pipeline`; with the cache on, every image is decoded once."""
    if not knobs.cache:
        return pipeline(batches, knobs, batch_size=batch_size, image_size=image_size)
    cached = store.examples_of()
    parallel = work_ahead.num_parallel_calls_stateful(knobs.workers)
    if cached.is_full:
        numbered = batches.map(_numbered).unbatch()
        ready = numbered.map(_getting(cached), num_parallel_calls=parallel).batch(batch_size)
    else:
        images = (
            batches.map(reading(knobs.latency_ms, cached), num_parallel_calls=parallel)
            .unbatch()
            .map(decoding(image_size, cached), num_parallel_calls=parallel)
        )
        ready = (
            images.map(_augmenting, num_parallel_calls=parallel)
            .batch(batch_size)
            .map(_keeping(cached))
        )
    return numbered_examples.finished(ready, knobs)


def _numbered(
    paths: tf.Tensor, labels: tf.Tensor, numbers: tf.Tensor, seed: tf.Tensor
) -> tuple[tf.Tensor, ...]:
    """Map a batch without its paths to label, number and seed for each element."""
    import tensorflow as tf

    del paths
    return labels, numbers, tf.fill(tf.shape(numbers), seed)


def _getting(cached: CachedExamples) -> Callable[..., Any]:
    def get(label: tf.Tensor, number: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        (image,) = cached.get(number)
        return augment(image, label, number, seed)

    return get


def _augmenting(
    image: tf.Tensor, label: tf.Tensor, number: tf.Tensor, seed: tf.Tensor
) -> tuple[tf.Tensor, ...]:
    """Return `augment`, and the number and the image to cache."""
    return *augment(image, label, number, seed), number, image


def _keeping(cached: CachedExamples) -> Callable[..., Any]:
    import tensorflow as tf

    def keep(
        images: tf.Tensor, labels: tf.Tensor, numbers: tf.Tensor, plain: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.control_dependencies(cached.keep(numbers, plain)):
            return tf.identity(images), labels

    return keep

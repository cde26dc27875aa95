"""Examples that have numbers: their source, pseudo-random values from a number, and their pipeline, usual and fast.

`pick` makes an example from a number, and a batch of examples from a batch of numbers, with the same code.
Pseudo-random values are the same in every form of a pipeline, because they are computed from whole numbers: sines of
Python and TensorFlow differ in their last bits.
"""

from __future__ import annotations

import functools
import math
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from tfwatch.core.knobs import Knobs
from tfwatch.tfdata import work_ahead
from tfwatch.workloads.workload import Prepared, Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    import keras
    import tensorflow as tf

    from tfwatch.tfdata.shuffle import Shuffle
    from tfwatch.workloads.data import arrays

    Pick: TypeAlias = Callable[[tf.Tensor], Any]


def seed_of(settings: Settings) -> int:
    """Return the seed of a source's shuffle: the requested one, else a random one."""
    return secrets.randbits(31) if settings.seed is None else settings.seed


def source(shuffle: Shuffle, batch_size: int) -> tf.data.Dataset:
    """Return batches of numbers, int64 of shape [batch]; each pass shuffles differently, by the seed."""
    return (
        shuffle.numbers.batch(batch_size)
        .with_options(work_ahead.options(Knobs()))
        .with_options(work_ahead.without_autotune())
    )


def in_order(count: int, batch_size: int) -> tf.data.Dataset:
    """Return batches of numbers in order, for validation."""
    import tensorflow as tf

    return (
        tf.data.Dataset.range(count).batch(batch_size).with_options(work_ahead.without_autotune())
    )


def finished(batches: tf.data.Dataset, knobs: Knobs) -> tf.data.Dataset:
    """Add prefetch by the knob to a pipeline's end, and turn off all other work ahead."""
    ahead = work_ahead.buffer_size(knobs.prefetch)
    return (batches if ahead is None else batches.prefetch(ahead)).with_options(
        work_ahead.options(knobs)
    )


def steps_per_epoch(count: int, batch_size: int) -> int:
    """Return the batches of an epoch, including a ragged last one."""
    return math.ceil(count / batch_size)


# The middle bits of a square whose root advances by a large odd step (Widynski, "Squares: A Fast Counter-Based RNG").
# A number and a column below 2**31 leave every product below 2**63.
_ROW, _COLUMN, _ROOT = 0x5E3779B1, 0x25EBCA77, 2**31 - 1
_MIDDLE = 23
#: The number of different values: float32 holds each, and the sum of a hundred of them, exactly.
_LEVELS = 2**16
_HIGHEST = _LEVELS - 1


def value(number: int, column: int) -> float:
    """Return the value of a number and a column, from 0 to below 1."""
    root = number * _ROW + column * _COLUMN & _ROOT
    return (root * root >> _MIDDLE & _HIGHEST) / _LEVELS


def rows(numbers: tf.Tensor, width: int, each: int = 1, first: int = 0) -> tf.Tensor:
    """Return `value` for each number and `width` columns, every `each`-th from `first` on; float32 [..., width]."""
    import tensorflow as tf

    columns = (tf.range(width, dtype=tf.int64) * each + first) * _COLUMN
    roots = tf.bitwise.bitwise_and(tf.cast(numbers, tf.int64)[..., None] * _ROW + columns, _ROOT)
    middles = tf.bitwise.bitwise_and(tf.bitwise.right_shift(roots * roots, _MIDDLE), _HIGHEST)
    return tf.cast(middles, tf.float32) / _LEVELS


@dataclass(frozen=True, slots=True)
class Examples:
    """Examples by number: the training ones are below `count`, the held-out ones from there on."""

    pick: Pick
    count: int
    held_out: int


def prepared(
    settings: Settings, examples: Examples, model: Callable[[], keras.Model], metric: str
) -> Prepared:
    """Prepare a workload over examples that have numbers."""
    from tfwatch.tfdata.shuffle import Shuffle

    shuffle = Shuffle(examples.count, seed_of(settings))
    return Prepared(
        source=source(shuffle, settings.batch_size),
        pipeline=functools.partial(pipeline, pick=examples.pick, batch_size=settings.batch_size),
        validation=_validation(examples, settings.batch_size),
        model=model,
        steps_per_epoch=steps_per_epoch(examples.count, settings.batch_size),
        images=examples.count,
        metric=metric,
        shuffle=shuffle,
    )


def pipeline(
    numbers: tf.data.Dataset, knobs: Knobs, *, pick: Pick, batch_size: int
) -> tf.data.Dataset:
    """Return batches of examples from batches of numbers."""
    batches = (
        fast(numbers, pick, knobs)
        if knobs.fast_pipeline
        else slow(numbers, pick, knobs, batch_size)
    )
    return finished(batches, knobs)


def slow(numbers: tf.data.Dataset, pick: Pick, knobs: Knobs, batch_size: int) -> tf.data.Dataset:
    """Return the usual pipeline: one example after another, then batch."""
    return (
        numbers.unbatch()
        .map(pick, num_parallel_calls=work_ahead.num_parallel_calls(knobs.workers))
        .batch(batch_size)
    )


def fast(numbers: tf.data.Dataset, pick: Pick, knobs: Knobs) -> tf.data.Dataset:
    """Return the fast pipeline: one call of the map for a whole batch."""
    return numbers.map(pick, num_parallel_calls=work_ahead.num_parallel_calls(knobs.workers))


def from_arrays(data: arrays.Arrays, shape: tuple[int, ...]) -> Examples:
    """Return images of `shape`, 0 to 1, and their classes."""
    import numpy as np
    import tensorflow as tf

    with tf.device("/CPU:0"):  # tf.data works in host memory
        images = tf.constant(np.concatenate([data.images, data.held_images]).reshape(-1, *shape))
        labels = tf.constant(np.concatenate([data.labels, data.held_labels]))

    def pick(numbers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.cast(tf.gather(images, numbers), tf.float32) / 255.0, tf.gather(labels, numbers)

    return Examples(pick, len(data.labels), len(data.held_labels))


def _validation(examples: Examples, batch_size: int) -> tf.data.Dataset:
    numbers = in_order(examples.held_out, batch_size).map(lambda batch: batch + examples.count)
    return (
        fast(numbers, examples.pick, Knobs())
        .prefetch(2)
        .with_options(work_ahead.without_autotune())
    )

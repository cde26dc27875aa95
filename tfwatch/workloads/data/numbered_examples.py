"""Examples that have numbers: a source of batches of numbers, and pseudo-random values from an example's number.

The values are the same in every form of a pipeline, because they are computed from whole numbers: sines of Python and
TensorFlow differ in their last bits.
"""

from __future__ import annotations

import math
import secrets
from typing import TYPE_CHECKING

from tfwatch.core.knobs import Knobs
from tfwatch.tfdata import work_ahead

if TYPE_CHECKING:
    import tensorflow as tf

    from tfwatch.tfdata.shuffle import Shuffle
    from tfwatch.workloads.workload import Settings


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


def movable_source(count: int, batch_size: int) -> tf.data.Dataset:
    """Return batches like those of `source`, in another order, that workers of the tf.data service can make."""
    import tensorflow as tf

    from tfwatch.tfdata.shuffle import AUTO

    return tf.data.Dataset.range(count).shuffle(min(count, AUTO), seed=1).batch(batch_size)


def in_order(count: int, batch_size: int) -> tf.data.Dataset:
    """Return batches of numbers in order, for validation."""
    import tensorflow as tf

    return tf.data.Dataset.range(count).batch(batch_size).with_options(work_ahead.without_autotune())


def finished(batches: tf.data.Dataset, knobs: Knobs) -> tf.data.Dataset:
    """Add prefetch by the knob to a pipeline's end, and turn off all other work ahead."""
    ahead = work_ahead.buffer_size(knobs.prefetch)
    return (batches if ahead is None else batches.prefetch(ahead)).with_options(work_ahead.options(knobs))


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

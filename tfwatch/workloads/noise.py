"""Numbers that look random and follow from an example's number alone, the same in every form of a pipeline."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorflow as tf

# The shader programmer's one-line hash: the fraction of a large sine. Good enough to learn from, and vectorises.
_ROW, _COLUMN, _LARGE = 12.9898, 78.233, 43758.5453


def value(number: float, column: float) -> float:
    """One number, 0 to 1."""
    wave = math.sin(number * _ROW + column * _COLUMN) * _LARGE
    return wave - math.floor(wave)


def rows(numbers: tf.Tensor, width: int, salt: float = 0.0) -> tf.Tensor:
    """`value` for each number and the columns `salt` to `salt + width`; float32 of shape [..., width]."""
    import tensorflow as tf

    columns = (tf.range(width, dtype=tf.float64) + salt) * _COLUMN
    waves = tf.sin(tf.cast(numbers, tf.float64)[..., None] * _ROW + columns) * _LARGE
    return tf.cast(waves - tf.floor(waves), tf.float32)

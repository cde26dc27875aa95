"""Numbers that look random and follow from an example's number alone, the same in every form of a pipeline.

Whole numbers are mixed: a sine of Python's and one of TensorFlow's differ in their last bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorflow as tf

# The middle bits of a square whose root moves by a large odd step (Widynski, "Squares: A Fast Counter-Based RNG").
# A number and a column below 2**31 leave every product below 2**63.
_ROW, _COLUMN, _ROOT = 0x5E3779B1, 0x25EBCA77, 2**31 - 1
_MIDDLE = 23
#: A number is one of so many: float32 holds each, and the sum of a hundred of them.
_LEVELS = 2**16
_HIGHEST = _LEVELS - 1


def value(number: int, column: int) -> float:
    """One number, from 0 to below 1."""
    root = number * _ROW + column * _COLUMN & _ROOT
    return (root * root >> _MIDDLE & _HIGHEST) / _LEVELS


def rows(numbers: tf.Tensor, width: int, each: int = 1, first: int = 0) -> tf.Tensor:
    """`value` for each number and `width` columns, every `each`-th from `first` on; float32 of shape [..., width]."""
    import tensorflow as tf

    columns = (tf.range(width, dtype=tf.int64) * each + first) * _COLUMN
    roots = tf.bitwise.bitwise_and(tf.cast(numbers, tf.int64)[..., None] * _ROW + columns, _ROOT)
    middles = tf.bitwise.bitwise_and(tf.bitwise.right_shift(roots * roots, _MIDDLE), _HIGHEST)
    return tf.cast(middles, tf.float32) / _LEVELS

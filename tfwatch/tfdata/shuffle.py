"""A shuffle whose buffer size can change from the next pass on."""

from __future__ import annotations

import tensorflow as tf

#: The largest buffer of `auto`: a million elements take seconds before each epoch's first batch.
AUTO = 20_000


class Shuffle:
    """The numbers below `count`, reshuffled in each pass: `Dataset.shuffle` with a `buffer_size` that can change.

    The order of the n-th pass depends only on the seed, n and the buffer size.

    Attributes:
        numbers: the data set; int64 of shape [].
    """

    def __init__(self, count: int, seed: int) -> None:
        self._count = count
        with tf.device("/CPU:0"):
            self._size = tf.Variable(0, dtype=tf.int64, trainable=False, name="tfwatch_shuffle")
        self.set("auto")
        seeds = tf.data.Dataset.random(seed=seed, rerandomize_each_iteration=True).take(1)
        self.numbers = seeds.flat_map(self._shuffled).apply(
            tf.data.experimental.assert_cardinality(count)
        )

    def set(self, setting: str) -> None:
        """Set the buffer size from the next pass on: a size, `off` for none, `auto` for all, up to 20 000."""
        words = {"off": 1, "auto": min(self._count, AUTO)}
        self._size.assign(words[setting] if setting in words else int(setting))

    @tf.autograph.experimental.do_not_convert
    def _shuffled(self, seed: tf.Tensor) -> tf.data.Dataset:
        size = self._size.read_value()
        return tf.data.Dataset.range(self._count).shuffle(
            size, seed=seed, reshuffle_each_iteration=False
        )

"""The settings of tf.data that decide what works ahead, in one place, and a shuffle whose buffer can change.

Which hidden hands TensorFlow may put on an input pipeline: the one place where they are set.

tf.data works ahead by itself in three ways, unless told not to. Each belongs to a knob, and is on only where
that knob says `default`:

* `inject_prefetch` adds a prefetch at the pipeline's end: `prefetch`.
* `map_parallelization` makes stateless maps parallel: `workers`.
* `map_and_batch_fusion` turns a map and the batch after it into one stage that is parallel and works ahead:
  both knobs, so it is on only where both say `default`.

A parallel map works ahead by as many elements as it has workers. Who sets workers asks for that, whatever
prefetch says. tf.data's autotuning stays on: without it its model of the stages cannot be read.

No pipeline begins before its first batch is asked for (`experimental_warm_start`, which a user's file may ask for): the
next one is built while the present one still takes from the same source.

A source's shuffle whose buffer can be another in the next epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

if TYPE_CHECKING:
    from tfwatch.core.knobs import Knobs, Setting


def options(knobs: Knobs) -> tf.data.Options:
    """The options of a pipeline under these knobs, for `Dataset.with_options`; elements keep their order."""
    import tensorflow as tf

    prefetch, workers = knobs.prefetch == "default", knobs.workers == "default"
    chosen = tf.data.Options()
    chosen.deterministic = True
    chosen.experimental_warm_start = False
    chosen.experimental_optimization.inject_prefetch = prefetch
    chosen.experimental_optimization.map_parallelization = workers
    chosen.experimental_optimization.map_and_batch_fusion = prefetch and workers
    return chosen


def untuned() -> tf.data.Options:
    """Options of a data set that needs no autotuning.

    Deleting an iterator waits for the thread that does it (see `disposal`): on two busy cores 15 ms, at most 540 of
    1 900 times; without it 1, at most 120. tf.data keeps no model of the stages then (see `stages`).
    """
    import tensorflow as tf

    chosen = tf.data.Options()
    chosen.autotune.enabled = False
    return chosen


def buffer_size(prefetch: Setting) -> int | None:
    """The argument of `Dataset.prefetch`; None where no prefetch is to be added."""
    return _count(prefetch)


def num_parallel_calls(workers: Setting) -> int | None:
    """The argument of `Dataset.map`; None for a map that is not parallel by its own."""
    return _count(workers)


def of_resource(workers: Setting) -> int | None:
    """`num_parallel_calls` of a map that reads something outside it, or sleeps.

    TensorFlow takes that for a side effect and does not make the map parallel by itself, as it does others: under
    `default` it is done for it.
    """
    return _count("auto" if workers == "default" else workers)


def _count(setting: Setting) -> int | None:
    import tensorflow as tf

    if isinstance(setting, int):
        return setting
    return tf.data.AUTOTUNE if setting == "auto" else None


#: At most so many numbers wait in the shuffle by itself: a million take seconds before each epoch's first batch.
AUTO = 20_000


class Shuffle:
    """The numbers below `count`, shuffled anew in each pass: `Dataset.shuffle` with a `buffer_size` that can change.

    The order of the n-th pass follows from the seed, from n and from the buffer size alone.

    Attributes:
        numbers: the data set; int64 of shape [].
    """

    def __init__(self, count: int, seed: int) -> None:
        self._count = count
        with tf.device("/CPU:0"):
            self._size = tf.Variable(0, dtype=tf.int64, trainable=False, name="tfwatch_shuffle")
        self.set("auto")
        seeds = tf.data.Dataset.random(seed=seed, rerandomize_each_iteration=True).take(1)
        self.numbers = seeds.flat_map(self._shuffled).apply(tf.data.experimental.assert_cardinality(count))

    def set(self, setting: Setting) -> None:
        """The buffer from the next pass on: a size, `off` for none, `auto` for all, up to 20 000."""
        size = {"off": 1, "auto": min(self._count, AUTO)}.get(str(setting), setting)
        self._size.assign(size)

    @tf.autograph.experimental.do_not_convert
    def _shuffled(self, seed: tf.Tensor) -> tf.data.Dataset:
        size = self._size.read_value()
        return tf.data.Dataset.range(self._count).shuffle(size, seed=seed, reshuffle_each_iteration=False)

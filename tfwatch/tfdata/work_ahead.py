"""The tf.data options that decide which stages work ahead. Importing it loads no TensorFlow.

tf.data works ahead by itself through two optimizations. Each belongs to a knob and is on only while
that knob is `default`:

* `inject_prefetch` adds a prefetch at the pipeline's end: `prefetch`.
* `map_parallelization` makes stateless maps parallel: `workers`.

`map_and_batch_fusion` turns a map and the batch after it into one stage, which writes its batches
into memory that a GPU reads directly: the copy of 37 MB takes 1.5 ms in place of 5.6. The stage
works ahead, so it is off where a knob is `off`; otherwise it stays as the script has it.

A parallel map works ahead by as many elements as it has workers, whatever prefetch is. Autotuning
is always on: without it tf.data keeps no model of the stages.

No pipeline starts before its first batch is requested (`experimental_warm_start`, which a script
may turn on): the next one is built while the current one still takes from the same source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core.knobs import AUTO, DEFAULT, OFF, Knobs, number_of

if TYPE_CHECKING:
    import tensorflow as tf


def options(knobs: Knobs) -> tf.data.Options:
    """Return the options of a pipeline under these knobs, for `Dataset.with_options`; elements keep
    their order."""
    import tensorflow as tf

    prefetch, workers = knobs.prefetch == DEFAULT, knobs.workers == DEFAULT
    chosen = tf.data.Options()
    chosen.deterministic = True
    chosen.experimental_warm_start = False
    chosen.experimental_optimization.inject_prefetch = prefetch
    chosen.experimental_optimization.map_parallelization = workers
    works_ahead = knobs.prefetch != OFF and knobs.workers != OFF
    chosen.experimental_optimization.map_and_batch_fusion = works_ahead
    return chosen


def prefetch_only(batches: tf.data.Dataset, knobs: Knobs) -> tf.data.Dataset:
    """Return the pipeline over data that tfwatch did not build: unchanged, or with a prefetch.

    Nothing else in it works ahead, whatever the knobs are: without prefetch, tfwatch can stop using
    it between two batches and none is lost.
    """
    size = count_of(knobs.prefetch)
    return (batches if size is None else batches.prefetch(size)).with_options(options(Knobs()))


def is_added(knobs: Knobs) -> bool:
    """Return whether the knobs add a stage to data that tfwatch did not build."""
    sizes = (count_of(knobs.prefetch), count_of(knobs.device_prefetch))
    return knobs.pinned != OFF or any(size is not None for size in sizes)


def count_of(value: str) -> int | None:
    """Return the argument of `Dataset.prefetch` or `Dataset.map` for a knob's value; None for no
    prefetch, or a sequential map."""
    import tensorflow as tf

    return tf.data.AUTOTUNE if value == AUTO else number_of(value)

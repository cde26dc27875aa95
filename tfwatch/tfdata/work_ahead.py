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


#: The device that batches are prefetched to: the first GPU that TensorFlow sees.
DEVICE = "/GPU:0"


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
    size = buffer_size(knobs.prefetch)
    return (batches if size is None else batches.prefetch(size)).with_options(options(Knobs()))


def on_device(batches: tf.data.Dataset, knobs: Knobs) -> tf.data.Dataset:
    """Return a finished pipeline with the prefetch to the GPU's memory that the knobs ask for, as
    the last stage.

    The stages before it run in an iterator of their own, and keep the options they have.
    """
    import tensorflow as tf

    size = buffer_size(knobs.device_prefetch)
    return (
        batches
        if size is None
        else batches.apply(tf.data.experimental.prefetch_to_device(DEVICE, size))
    )


def is_added(knobs: Knobs) -> bool:
    """Return whether the knobs add a stage to data that tfwatch did not build."""
    return buffer_size(knobs.prefetch) is not None or buffer_size(knobs.device_prefetch) is not None


def without_autotune() -> tf.data.Options:
    """Return the options of a data set that needs no autotuning.

    Deleting an iterator waits for the autotuning thread (see `disposal`): on two busy cores 15 ms,
    at most 540 ms, of 1 900 times; without it 1 ms, at most 120. tf.data then keeps no model of the
    stages (see `stage_model`).
    """
    import tensorflow as tf

    chosen = tf.data.Options()
    chosen.autotune.enabled = False
    return chosen


def buffer_size(prefetch: str) -> int | None:
    """Return the argument of `Dataset.prefetch`; None to add no prefetch."""
    return _count(prefetch)


def num_parallel_calls(workers: str) -> int | None:
    """Return the argument of `Dataset.map`; None for a sequential map."""
    return _count(workers)


def num_parallel_calls_stateful(workers: str) -> int | None:
    """Return `num_parallel_calls` for a map that reads an outside resource, or sleeps.

    TensorFlow treats that as a side effect and does not make such a map parallel by itself. Under
    `default` it is autotuned as TensorFlow does for other maps.
    """
    return _count(AUTO if workers == DEFAULT else workers)


def _count(value: str) -> int | None:
    import tensorflow as tf

    return tf.data.AUTOTUNE if value == AUTO else number_of(value)

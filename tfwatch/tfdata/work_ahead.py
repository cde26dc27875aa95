"""The additions of knobs to a pipeline: the tf.data options that decide which stages work ahead,
and the stages after all others, a prefetch and those that bring batches to the GPU.

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

from itertools import dropwhile
from typing import Any

import tensorflow as tf

from tfwatch.core.knobs import AUTO, DEFAULT, OFF, PINNED_CALLS, Knobs, number_of
from tfwatch.tfdata.stage_names import OWN, kind_of, spine_of


def options(knobs: Knobs) -> tf.data.Options:
    """Return the options of a pipeline under these knobs, for `Dataset.with_options`; elements keep
    their order."""
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
    return tf.data.AUTOTUNE if value == AUTO else number_of(value)


# -- on the way to a GPU --------------------------------------------------------------------------

#: The device that batches are prefetched to: the first GPU that TensorFlow sees.
DEVICE = "/GPU:0"


def in_pinned_memory(batches: tf.data.Dataset, knobs: Knobs) -> tf.data.Dataset:
    """Return a pipeline whose batches are in memory that the GPU reads directly, if the knobs ask
    for it: the same elements.

    The kernel of `MapAndBatch` allocates its batches there; that of `batch` does not. So each batch
    is copied into a batch of one, two or three ahead, whose first axis is taken off again, which
    copies nothing. The stages are those of the line that a user pastes.
    """
    if knobs.pinned == OFF:
        return batches
    is_unpacked = type(batches.element_spec) is tuple

    @tf.autograph.experimental.do_not_convert
    def same(*batch: Any) -> Any:
        return batch if is_unpacked else batch[0]

    @tf.autograph.experimental.do_not_convert
    def first(*batch: Any) -> Any:
        return tf.nest.map_structure(lambda part: tf.squeeze(part, 0), same(*batch))

    copied = _in_batches_of_one(batches, same)
    pinned = copied.map(first)
    for stage in (copied, pinned):
        setattr(stage, OWN, True)
    return pinned


def _in_batches_of_one(elements: tf.data.Dataset, same: Any) -> tf.data.Dataset:
    # `tf.data.experimental.map_and_batch`, which warns that it is deprecated.
    from tensorflow.python.data.experimental.ops import batching

    return batching._MapAndBatchDataset(elements, same, 1, PINNED_CALLS, False)


def in_one_batch(parts: list[tf.Tensor]) -> list[tf.Tensor]:
    """Return tensors in memory that the GPU reads directly, each with a first axis of one."""
    element = tf.data.Dataset.from_tensors(tuple(parts))

    @tf.autograph.experimental.do_not_convert
    def same(*element: Any) -> Any:
        return element

    return list(next(iter(_in_batches_of_one(element, same))))


#: Stages that hand batches on as they are.
_HAND_ON = frozenset(
    {"CopyToDevice", "Filter", "Prefetch", "Repeat", "Shuffle", "Skip", "Take"},
)


def ends_in_pinned_memory(dataset: tf.data.Dataset) -> bool:
    """Return whether a pipeline makes its batches by a map and a batch in one stage: TensorFlow
    fuses the two where nothing stands between them. A map behind such a stage takes an axis off, as
    in the line for it."""
    kinds = [kind for kind in map(kind_of, spine_of(dataset)) if kind != "Options"]
    last, before, *_ = [*dropwhile(_HAND_ON.__contains__, kinds), "", ""]
    if last == "MapAndBatch" or (last, before) == ("Map", "MapAndBatch"):
        return True
    chosen = dataset.options().experimental_optimization
    is_off = False in (chosen.map_and_batch_fusion, chosen.apply_default_optimizations)
    return last == "Batch" and before in ("Map", "ParallelMap") and not is_off


def on_device(batches: tf.data.Dataset, knobs: Knobs) -> tf.data.Dataset:
    """Return a finished pipeline with the prefetch to the GPU's memory that the knobs ask for, as
    the last stage.

    The stages before it run in an iterator of their own, and keep the options they have.
    """
    size = count_of(knobs.device_prefetch)
    return (
        batches
        if size is None
        else batches.apply(tf.data.experimental.prefetch_to_device(DEVICE, size))
    )


def first_on_device(flat: list[tf.TensorSpec]) -> list[tf.Tensor]:
    """Return the first batch of a small prefetch to the device, of tensors of such kinds and a
    shape of ones: TensorFlow loads and converts code for the first such prefetch of a process,
    which takes 0.15 to 0.2 s of an H200's host."""
    parts = tuple(tf.zeros([1] * (spec.shape.rank or 0), spec.dtype) for spec in flat)
    batches = tf.data.Dataset.from_tensors(parts)
    return list(next(iter(on_device(batches, Knobs(device_prefetch="1")))))


#: Batches that are past their stamp and not yet taken, beside those of the buffer: one in the copy,
#: and those of a prefetch that TensorFlow adds before it.
_BETWEEN = 64


class CopyStamps:
    """The times at which the batches of a prefetch to the device are ready in host memory, where
    their copies begin: a fetch that blocks waits for the pipeline until then, and for the copy from
    then on.

    A ring in graph variables: no Python runs in the pipeline's threads.

    taken: the number of batches that the training has taken.
    """

    def __init__(self, depth: int) -> None:
        self.taken = 0
        self._size = depth + _BETWEEN
        with tf.device("/CPU:0"):
            self._count = tf.Variable(0, dtype=tf.int64, trainable=False, name="tfwatch_copies")
            self._ready_s = tf.Variable(
                tf.zeros(self._size, tf.float64), trainable=False, name="tfwatch_ready"
            )

    def over(self, batches: tf.data.Dataset) -> tf.data.Dataset:
        """Return the same batches, each stamped as it leaves the stages in host memory."""
        is_unpacked = type(batches.element_spec) is tuple

        @tf.autograph.experimental.do_not_convert
        def stamp(*batch: Any) -> Any:
            at = (self._count.assign_add(1) - 1) % self._size
            self._ready_s.scatter_nd_update([[at]], [tf.timestamp()])
            return batch if is_unpacked else batch[0]

        stamped = batches.map(stamp)
        setattr(stamped, OWN, True)
        return stamped

    def newest_ns(self) -> int:
        """Return when the batch that was taken last was ready, on the wall clock."""
        return int(float(self._ready_s.numpy()[(self.taken - 1) % self._size]) * 1e9)


def make_stamps(knobs: Knobs) -> CopyStamps | None:
    """Return stamps for a prefetch to the device of known depth; None without one, and where op
    determinism forbids the clock."""
    from tensorflow.python.framework import config

    depth = count_of(knobs.device_prefetch)
    if depth is None or depth < 0 or config.is_op_determinism_enabled():
        return None
    return CopyStamps(depth)

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

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tfwatch.core.knobs import (
    AUTO,
    BETWEEN_STAGES,
    DEFAULT,
    OFF,
    Knobs,
    is_by_stage,
    number_of,
    stage_value,
)
from tfwatch.tfdata.pipeline_tree import is_stateless, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    works_ahead = knobs.prefetch != OFF and OFF not in knobs.workers.split(BETWEEN_STAGES)
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
    """Return the argument of `Dataset.map`; None for a sequential map, and where the stages of a
    script differ."""
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


@dataclass(frozen=True, slots=True)
class ParallelCalls:
    """The requested parallel calls of a pipeline's stages.

    shared: of all stages alike; `default` where they differ. by_function: of each stage where they
    differ, by the `id` of its traced function, which a rebuilt stage shares with the script's own.
    makes_parallel: TensorFlow makes the script's maps parallel by itself.
    """

    shared: str = DEFAULT
    by_function: Mapping[int, str] = field(default_factory=dict)
    makes_parallel: bool = True

    @staticmethod
    def of(workers: str, stages: Sequence[Any], options: Any) -> ParallelCalls:
        """Return those of a knob's value.

        stages: the maps, in the order of the pipeline. options: the script's, of
        its data set.
        """
        if not is_by_stage(workers):
            return ParallelCalls(workers)
        by_function = {
            id(node._map_func): stage_value(workers, at) for at, node in enumerate(stages)
        }
        return ParallelCalls(
            DEFAULT, by_function, _makes_parallel(options.experimental_optimization)
        )

    def of_stage(self, node: Any) -> str:
        """Return the setting of a map.

        Where the stages differ, TensorFlow makes no map parallel by itself: a plain one as the
        script has it is autotuned here, as it would be (`map_parallelization`).
        """
        setting = self.by_function.get(id(node._map_func), self.shared)
        is_plain = bool(self.by_function) and setting == DEFAULT and kind_of(node) == "Map"
        return AUTO if self.makes_parallel and is_plain and is_stateless(node) else setting


def _makes_parallel(chosen: Any) -> bool:
    """Return whether TensorFlow makes maps parallel by itself under these options."""
    wanted = chosen.map_parallelization
    return chosen.apply_default_optimizations is not False if wanted is None else bool(wanted)

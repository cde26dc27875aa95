"""The advice against data wait in a user's script, by the kind of its data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tfwatch.analysis.findings import code_suggestions
from tfwatch.analysis.findings.situation import Advice, SourceKind
from tfwatch.core.refusals import PER_REPLICA

if TYPE_CHECKING:
    from tfwatch.analysis.findings.situation import Situation

#: A pipeline that uses this share of a core during data wait is computing: threads would share the GIL.
_COMPUTES = 0.5


def advise_data_wait(now: Situation) -> Advice:
    """Advise on data wait for this kind of data, with lines of Python."""
    if now.replicas > 1 and not now.origin.has_no_pipeline:
        return _below_strategy(now)
    return _FOR[now.origin.kind](now)


def _below_strategy(now: Situation) -> Advice:
    """Advise on the data set that a strategy spreads over its replicas: it prepares batches ahead already."""
    several = (
        "num_parallel_calls=tf.data.AUTOTUNE on the map below the strategy: its batches are prepared ahead already"
    )
    size = f"if only some batches are late, {PER_REPLICA}={code_suggestions.BUFFER_PER_REPLICA}"
    lines = code_suggestions.switch_line("workers", "auto", now.stages, code=now.code)
    return Advice(f"{several}; {size}", f"{lines}\n{code_suggestions.SPREAD}")


def advise_longer_epochs(now: Situation) -> Advice:
    """Advise on longer epochs for this kind of data."""
    kind = now.origin.kind
    if kind is SourceKind.ARRAYS:
        return Advice("longer epochs (tf.data's .repeat() with steps_per_epoch)", code_suggestions.REPEATED)
    if kind is SourceKind.PY_DATASET:
        return Advice("longer epochs: let the PyDataset's __len__ span several passes over the data")
    if kind is SourceKind.GENERATOR:
        return Advice("longer epochs: a larger steps_per_epoch")
    return Advice("longer epochs (.repeat() with steps_per_epoch)", code_suggestions.ONE_ITERATOR)


def _py_dataset(now: Situation) -> Advice:
    if now.origin.has_workers:
        more = "more workers for the PyDataset; use_multiprocessing=True too if __getitem__ computes in Python"
        return Advice(more, code_suggestions.MORE_WORKERS)
    if computes(now):
        return Advice(
            "workers=4, use_multiprocessing=True for the PyDataset: processes do not share the GIL",
            code_suggestions.PROCESSES,
        )
    return Advice(
        "workers=4, max_queue_size=8 for the PyDataset: four batches are prepared in parallel", code_suggestions.THREADS
    )


def _generator(now: Situation) -> Advice:
    # Keras prefetches a generator already, and a generator cannot yield batches in parallel.
    way = "workers=4, use_multiprocessing=True" if computes(now) else "workers=4"
    made = f"a PyDataset({way}) in place of the generator, which cannot run in parallel"
    return Advice(made, code_suggestions.PY_DATASET.format(way=way))


def _iterator(now: Situation) -> Advice:
    del now
    return Advice(
        "tf.data.Dataset.from_generator(...).prefetch(...): prepares batches during steps", code_suggestions.FROM_PYTHON
    )


def _arrays(now: Situation) -> Advice:
    larger = "larger batches, or compile(steps_per_execution=8); Keras prefetches arrays already"
    return Advice(larger, code_suggestions.SHARED_CALLS)


def _tf_data(now: Situation) -> Advice:
    table = now.stages
    if table is None:
        return _unknown(now)
    if not table.is_prefetched and not table.stages[-1].is_parallel:
        return Advice(
            ".prefetch(tf.data.AUTOTUNE) at the end of the pipeline: prepares batches during steps",
            code_suggestions.switch_line("prefetch", "auto", table, code=now.code),
        )
    place = table.bottleneck
    stage = table.stages[place.stage] if place else None
    if place is None or stage is None:
        return _DEARER
    if stage.kind.startswith("FlatMap") and place.reason == "python":
        return _from_generator(now)
    if place.reason == "python" and computes(now):
        return Advice("TensorFlow operations in place of Python: the GIL allows no parallel calls")
    if stage.is_parallel or "Map" not in stage.kind or ("workers", "auto") in now.better:
        return _DEARER
    return Advice(
        "num_parallel_calls=tf.data.AUTOTUNE on the map: its calls run in parallel",
        code_suggestions.switch_line("workers", "auto", table, code=now.code),
    )


def _from_generator(now: Situation) -> Advice:
    if computes(now):
        return Advice(
            "a parallel map of TensorFlow operations in place of from_generator", code_suggestions.FROM_GENERATOR
        )
    several = "several from_generator, interleaved: one works while another waits; prefetch is on already"
    return Advice(several, code_suggestions.INTERLEAVED)


def _unknown(now: Situation) -> Advice:
    on = now.knobs.get("prefetch", "default") not in ("off", "default")
    return Advice(f"prefetch cannot hide the wait: {CHEAPER}") if on else GENERAL


def computes(now: Situation) -> bool:
    """Return True if preparing batches uses the CPU, False also where that is unknown."""
    cores = now.stages.wait_cores if now.stages else math.nan
    return cores >= _COMPUTES


#: The advice where the stages are unknown.
CHEAPER = "make batches cheaper: a parallel map, cache, a map over whole batches"
GENERAL = Advice(f".prefetch(tf.data.AUTOTUNE) at the end of the pipeline; if it is there already, {CHEAPER}")
_DEARER = Advice(f"{CHEAPER}; they are prepared ahead already")
_FOR = {
    SourceKind.PY_DATASET: _py_dataset,
    SourceKind.GENERATOR: _generator,
    SourceKind.ARRAYS: _arrays,
    SourceKind.ITERATOR: _iterator,
    SourceKind.TF_DATA: _tf_data,
    SourceKind.UNKNOWN: _unknown,
}

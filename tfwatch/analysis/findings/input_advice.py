"""What lessens the wait for batches, by what the training is given them from."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tfwatch.analysis.findings import code_suggestions
from tfwatch.analysis.findings.situation import Advice, SourceKind

if TYPE_CHECKING:
    from tfwatch.analysis.findings.situation import Situation

#: What uses this share of a core while a batch is waited for computes: threads share Python's lock then.
_COMPUTES = 0.5


def advise_data_wait(now: Situation) -> Advice:
    """What a script's author can do against the wait: words that hold for his kind of data, and the lines."""
    return _FOR[now.origin.given](now)


def advise_longer_epochs(now: Situation) -> Advice:
    """What spares epochs a beginning of their own."""
    given = now.origin.given
    if given is SourceKind.ARRAYS:
        return Advice("longer epochs (tf.data's .repeat() with steps_per_epoch)", code_suggestions.REPEATED)
    if given is SourceKind.PY_DATASET:
        return Advice("longer epochs: let the PyDataset's __len__ span several passes over the data")
    if given is SourceKind.GENERATOR:
        return Advice("longer epochs: a larger steps_per_epoch")
    return Advice("longer epochs (.repeat() with steps_per_epoch)", code_suggestions.ONE_ITERATOR)


def _py_dataset(now: Situation) -> Advice:
    if now.origin.workers:
        more = "more workers for the PyDataset; use_multiprocessing=True too where __getitem__ computes in Python"
        return Advice(more, code_suggestions.MORE_WORKERS)
    if _computes(now):
        return Advice(
            "workers=4, use_multiprocessing=True for the PyDataset: processes share no lock of Python's",
            code_suggestions.PROCESSES,
        )
    return Advice(
        "workers=4, max_queue_size=8 for the PyDataset: four batches are made at once", code_suggestions.THREADS
    )


def _generator(now: Situation) -> Advice:
    # Keras prefetches a generator already, and a generator can give but one batch at a time.
    way = "workers=4, use_multiprocessing=True" if _computes(now) else "workers=4"
    made = f"a PyDataset({way}) in place of the generator, which makes one batch at a time"
    return Advice(made, code_suggestions.PY_DATASET.format(way=way))


def _iterator(now: Situation) -> Advice:
    del now
    return Advice(
        "tf.data.Dataset.from_generator(...).prefetch(...): batches are made during steps", code_suggestions.FROM_PYTHON
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
            ".prefetch(tf.data.AUTOTUNE) at the pipeline's end: batches are made during steps",
            code_suggestions.PREFETCH,
        )
    place = table.bottleneck
    stage = table.stages[place.stage] if place else None
    if place is None or stage is None:
        return _DEARER
    if stage.kind.startswith("FlatMap") and place.reason == "python":
        return _from_generator(now)
    if place.reason == "python" and _computes(now):
        return Advice("operations of TensorFlow's in place of Python's: its lock lets one call run at a time")
    if stage.is_parallel or "Map" not in stage.kind:
        return _DEARER
    return Advice(
        "num_parallel_calls=tf.data.AUTOTUNE on the map: several run at once",
        code_suggestions.switch_line("workers", "auto", table),
    )


def _from_generator(now: Situation) -> Advice:
    if _computes(now):
        return Advice(
            "a parallel map of TensorFlow operations in place of from_generator", code_suggestions.FROM_GENERATOR
        )
    several = "several from_generator, interleaved: one waits while others work; a prefetch is there already"
    return Advice(several, code_suggestions.INTERLEAVED)


def _unknown(now: Situation) -> Advice:
    on = now.knobs.get("prefetch", "default") not in ("off", "default")
    return Advice(f"prefetch cannot hide it: {CHEAPER}") if on else GENERAL


def _computes(now: Situation) -> bool:
    """Whether making batches uses the CPU; not where that is not known."""
    cores = now.stages.wait_cores if now.stages else math.nan
    return cores >= _COMPUTES


#: What is said where nothing nearer is known.
CHEAPER = "make batches cheaper: a parallel map, cache, vectorise before batch"
GENERAL = Advice(f".prefetch(tf.data.AUTOTUNE) at the pipeline's end; where it is there, {CHEAPER}")
_DEARER = Advice(f"{CHEAPER}; they are made ahead already")
_FOR = {
    SourceKind.PY_DATASET: _py_dataset,
    SourceKind.GENERATOR: _generator,
    SourceKind.ARRAYS: _arrays,
    SourceKind.ITERATOR: _iterator,
    SourceKind.TF_DATA: _tf_data,
    SourceKind.UNKNOWN: _unknown,
}

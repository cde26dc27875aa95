"""The advice against data wait in a user's script, by the kind of its data; and when one machine is
too little."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.knobs import CACHE, MULTIPROCESSING, PER_REPLICA, PREFETCH, WORKERS
from tfwatch.core.script_code import edited_lines
from tfwatch.judge.findings import code_suggestions
from tfwatch.judge.findings.finding import Advice
from tfwatch.judge.findings.situation import SourceKind

if TYPE_CHECKING:
    from tfwatch.judge.findings.situation import Situation
    from tfwatch.judge.stages import Bottleneck, Stage

#: The fewest threads to try for calls that wait, and so many times those in use: AUTOTUNE stops at
#: one for each core.
_LEAST_THREADS, _MORE_THREADS = 16, 4
#: Of larger batches of arrays, copying the rows takes longer than all else: 2 ms for 25 MB, 0.2 ms
#: for 5 kB.
_LARGE_BATCH = 2**22


def advise_data_wait(now: Situation) -> Advice:
    """Advise on data wait for this kind of data, with lines of Python."""
    if len(now.manifest.replicas) > 1 and not now.origin.has_no_pipeline:
        return _below_strategy(now)
    return _FOR[now.origin.kind](now)


def _below_strategy(now: Situation) -> Advice:
    """Advise on the data set that a strategy spreads over its replicas: it prepares batches ahead
    already."""
    several = (
        "num_parallel_calls=tf.data.AUTOTUNE on the map below the strategy: its batches are"
        " prepared ahead already"
    )
    size = f"if only some batches are late, {PER_REPLICA}={code_suggestions.BUFFER_PER_REPLICA}"
    lines = code_suggestions.switch_line(
        WORKERS, "auto", now.setting.stages, code=now.manifest.code
    )
    return Advice(f"{several}; {size}", f"{lines}\n{code_suggestions.SPREAD}")


def advise_longer_epochs(now: Situation) -> Advice:
    """Advise on longer epochs for this kind of data."""
    kind = now.origin.kind
    if kind is SourceKind.ARRAYS:
        lines = code_suggestions.one_iterator(now.manifest.steps_per_epoch, of_arrays=True)
        return Advice("longer epochs (tf.data's .repeat() with steps_per_epoch)", lines)
    if kind is SourceKind.PY_DATASET:
        return Advice(
            "longer epochs: let the PyDataset's __len__ span several passes over the data"
        )
    if kind is SourceKind.GENERATOR:
        return Advice("longer epochs: a larger steps_per_epoch")
    return Advice(
        "longer epochs (.repeat() with steps_per_epoch)",
        code_suggestions.one_iterator(now.manifest.steps_per_epoch),
    )


def _py_dataset(now: Situation) -> Advice:
    if now.origin.has_workers and now.setting.knobs.get(MULTIPROCESSING) == "on":
        return Advice("more workers for the PyDataset", code_suggestions.MORE_WORKERS)
    if now.origin.has_workers:
        processes = (
            "use_multiprocessing=True for the PyDataset: its threads share the GIL where"
            " __getitem__ computes in Python; where it waits, more of them"
        )
        return Advice(processes, code_suggestions.PROCESSES)
    if computes(now):
        return Advice(
            "workers=4, use_multiprocessing=True for the PyDataset: processes do not share the GIL",
            code_suggestions.PROCESSES,
        )
    return Advice(
        "workers=4, max_queue_size=8 for the PyDataset: four batches are prepared in parallel",
        code_suggestions.THREADS,
    )


def _generator(now: Situation) -> Advice:
    # Keras prefetches a generator already, and a generator cannot yield batches in parallel.
    place = now.setting.stages.bottleneck if now.setting.stages else None
    way = "workers=4, use_multiprocessing=True" if computes(now) else "workers=4"
    made = f"a PyDataset({way}) in place of the generator, which cannot run in parallel"
    is_unknown = place is None or (place.reason == "python" and place.waits is None)
    also = (
        "; use_multiprocessing=True too if it computes in Python"
        if is_unknown and not computes(now)
        else ""
    )
    return Advice(f"{made}{also}", code_suggestions.PY_DATASET.format(way=way))


def _iterator(now: Situation) -> Advice:
    del now
    return Advice(
        "tf.data.Dataset.from_generator(...).prefetch(...): prepares batches during steps",
        code_suggestions.FROM_PYTHON,
    )


def _arrays(now: Situation) -> Advice:
    # Keras gathers the rows in parallel and prefetches them: no data set of one's own was faster.
    if (now.manifest.batch_bytes or 0) >= _LARGE_BATCH:
        assert now.manifest.batch_bytes
        fewer = f"fewer bytes: each batch is {units.memory(now.manifest.batch_bytes)} of the arrays"
        return Advice(
            f"{fewer}; as uint8 or float16 it is smaller, and the model's first layer casts; Keras"
            " prefetches already",
            code_suggestions.SMALLER_ARRAYS,
        )
    larger = "larger batches, or compile(steps_per_execution=8); Keras prefetches arrays already"
    return Advice(larger, code_suggestions.CALLS_ON_ARRAYS)


def _tf_data(now: Situation) -> Advice:
    table = now.setting.stages
    if table is None:
        return _unknown(now)
    if not (table.is_prefetched or table.stages[-1].is_parallel or _gains_nothing(now)):
        return Advice(
            ".prefetch(tf.data.AUTOTUNE) at the end of the pipeline: prepares batches during steps",
            code_suggestions.switch_line(PREFETCH, "auto", table, code=now.manifest.code),
        )
    place = table.bottleneck
    stage = table.stages[place.stage] if place else None
    if place is None or stage is None:
        return _DEARER
    if stage.kind.startswith("FlatMap") and place.reason == "python":
        return _from_generator(now, stage)
    if place.reason == "python":
        return _python_map(place, stage)
    is_parallel = stage.is_parallel and stage.parallelism > 1
    if is_parallel or "Map" not in stage.kind or (WORKERS, "auto") in now.better:
        return _costly_stage(now, place, stage)
    return Advice(
        "num_parallel_calls=tf.data.AUTOTUNE on the map: its calls run in parallel",
        code_suggestions.switch_line(WORKERS, "auto", table, code=now.manifest.code),
    )


def _costly_stage(now: Situation, place: Bottleneck, stage: Stage) -> Advice:
    """Advise on a stage that parallel calls of a map do not help."""
    if stage.kind.startswith("Interleave"):
        return Advice(_INTERLEAVE, edited_lines(now.manifest.code, {WORKERS: "auto"}))
    if not stage.is_parallel:
        return _DEARER
    return _busy(now, place, stage) if place.reason == "cpu" else _more_calls(stage)


def _busy(now: Situation, place: Bottleneck, stage: Stage) -> Advice:
    """Advise on a stage whose parallel calls use all cores: to cache it only where that keeps the
    elements."""
    words = f"cheaper operations or a map over whole batches: all workers of {stage.name} are busy"
    lines = ""
    if now.setting.cores_free < _CORES_FREE and not now.has_own_loop:
        words, lines = f"{words}; {_OTHER_MACHINES}", code_suggestions.SERVICE
    if not _can_cache(now, place):
        return Advice(words, lines)
    size = (
        f" ({units.memory(now.manifest.cache_bytes)})"
        if now.manifest.cache_bytes
        else " where it fits into memory"
    )
    general = code_suggestions.CACHE_AFTER.format(
        stage=now.manifest.cache_after or "the slow stages"
    )
    own = edited_lines(now.manifest.code, {CACHE: "on"}) or general
    return Advice(f".cache(){size}, {words}", f"{own}\n{lines}".strip())


def _can_cache(now: Situation, place: Bottleneck) -> bool:
    """Return whether a cache may save the work of a stage: its results are kept, or nothing is
    known of a cache."""
    if now.setting.knobs.get(CACHE) == "on" or (CACHE, "on") in now.better:
        return False
    if not now.manifest.cache_after:
        return not now.manifest.fixed.get(CACHE)
    names = (
        [one.name.split(", ") for one in now.setting.stages.stages] if now.setting.stages else []
    )
    return place.stage <= next(
        (n for n, parts in enumerate(names) if now.manifest.cache_after in parts), -1
    )


def _python_map(place: Bottleneck, stage: Stage) -> Advice:
    """Advise on a stage that calls Python: calls that wait can wait at the same time."""
    if place.waits is False:
        return Advice("TensorFlow operations in place of Python: the GIL allows no parallel calls")
    if "Map" not in stage.kind:
        return _DEARER
    if place.waits is None:
        more = "more threads" if stage.is_parallel else "num_parallel_calls"
        line = "" if stage.is_parallel else code_suggestions.parallel_map(stage.name)
        return Advice(
            f"{more} where its calls wait, TensorFlow operations in place of Python where they"
            " compute",
            line,
        )
    if not stage.is_parallel:
        line = code_suggestions.parallel_map(stage.name)
        return Advice(
            "num_parallel_calls=tf.data.AUTOTUNE on the map: its calls wait at the same time", line
        )
    return _more_calls(stage)


def _more_calls(stage: Stage) -> Advice:
    """Advise more calls at the same time than the machine has cores: 16 took 12 ms/batch where 2
    took 98."""
    threads = max(_LEAST_THREADS, round(_MORE_THREADS * stage.parallelism))
    if "Map" not in stage.kind:
        return _DEARER
    more = (
        f"num_parallel_calls={threads} and a private_threadpool_size of {threads}: more calls wait"
        " at the same time"
    )
    return Advice(more, code_suggestions.waiting_map(stage.name, threads))


def _from_generator(now: Situation, stage: Stage) -> Advice:
    if computes(now):
        return Advice(
            "a parallel map of TensorFlow operations in place of from_generator",
            code_suggestions.FROM_GENERATOR,
        )
    several = (
        "several from_generator, interleaved: one works while another waits; prefetch is on already"
    )
    return Advice(several, code_suggestions.interleaved(stage.name))


def _unknown(now: Situation) -> Advice:
    on = now.setting.knobs.get(PREFETCH, "default") not in ("off", "default")
    return CANNOT_HIDE if on or _gains_nothing(now) else GENERAL


def _gains_nothing(now: Situation) -> bool:
    """Return True where prefetch has a forecast: one that gains is advised before any other."""
    return any(one.knob == PREFETCH and one.is_known for one in now.setting.forecasts.values())


def computes(now: Situation) -> bool:
    """Return True if preparing batches uses the CPU, False also where that is unknown."""
    return now.setting.stages is not None and now.setting.stages.is_computing


#: The advice where the stages are unknown.
CHEAPER = "make batches cheaper: a parallel map, cache, a map over whole batches"
GENERAL = Advice(
    f".prefetch(tf.data.AUTOTUNE) at the end of the pipeline; if it is there already, {CHEAPER}"
)
CANNOT_HIDE = Advice(f"prefetch cannot hide the wait: {CHEAPER}")
_DEARER = Advice(f"{CHEAPER}; prefetch is on already")
#: Other machines are advised where fewer cores of this one are free.
_CORES_FREE = 1.0
_OTHER_MACHINES = "or a tf.data service on other machines: elements then come in another order"
_INTERLEAVE = (
    "num_parallel_calls=tf.data.AUTOTUNE on the interleave (make_csv_dataset, TFRecordDataset:"
    " num_parallel_reads), over several files; or .cache() after it"
)
_FOR = {
    SourceKind.PY_DATASET: _py_dataset,
    SourceKind.GENERATOR: _generator,
    SourceKind.ARRAYS: _arrays,
    SourceKind.ITERATOR: _iterator,
    SourceKind.TF_DATA: _tf_data,
    SourceKind.UNKNOWN: _unknown,
}

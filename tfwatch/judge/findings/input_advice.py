"""The advice against data wait in a user's script, by the kind of its data; and when one machine is
too little."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.knobs import CACHE, MULTIPROCESSING, PER_REPLICA, PREFETCH, WORKERS
from tfwatch.core.script_code import code_kinds, count_moving, edited_lines, why_not_moving
from tfwatch.judge.findings import code_suggestions
from tfwatch.judge.findings.finding import Advice
from tfwatch.judge.findings.situation import SourceKind
from tfwatch.judge.forecasts.forecast import best
from tfwatch.judge.steps.verdict import Bound

if TYPE_CHECKING:
    from tfwatch.judge.findings.bottleneck import Bottleneck, Stage, StageTable
    from tfwatch.judge.findings.situation import Situation
    from tfwatch.judge.steps.verdict import Breakdown

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
    if not table.is_prefetched and not table.stages[-1].is_parallel:
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
    if stage.is_parallel or "Map" not in stage.kind or (WORKERS, "auto") in now.better:
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
    if not _can_cache(now, place):
        return Advice(words)
    size = (
        f" ({units.memory(now.manifest.cache_bytes)})"
        if now.manifest.cache_bytes
        else " where it fits into memory"
    )
    general = code_suggestions.CACHE_AFTER.format(
        stage=now.manifest.cache_after or "the slow stages"
    )
    return Advice(
        f".cache(){size}, {words}", edited_lines(now.manifest.code, {CACHE: "on"}) or general
    )


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
    return CANNOT_HIDE if on else GENERAL


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


# -- a service of other machines --------------------------------------------------

#: The work of a batch in a worker over that in the training's process: least, expected, most.
_WORK = (0.9, 1.05, 1.3)
#: In which a worker sends an element: 0.5 ms on two busy cores, of 1 B as of 150 kB.
_SENDING_MS = (0.1, 0.4, 0.8)
#: Of a core, in which the training takes an element: 0.25 to 0.35 ms on two busy cores.
_TAKING_MS = 0.25
#: The elements of a batch of unknown size, as in a forecast of a switch.
_BATCH_SIZE = 32
_SOURCE_KIND = "Source"


@dataclass(frozen=True, slots=True)
class WorkerCount:
    """The workers that end the starving."""

    likely: int
    #: The 90 % prediction interval.
    low: int
    high: int

    @property
    def words(self) -> str:
        """`3 (2 to 4) workers`; without the interval where that is one number."""
        interval = f" ({self.low} to {self.high})" if self.low < self.high else ""
        return f"{self.likely}{interval} worker{'s' * (self.high != 1)}"


def forecast_workers(supply_ms: float, rest_ms: float, batch_size: int) -> WorkerCount | None:
    """Return the forecast; None where the step does not wait, or a time is not known.

    supply_ms: in which a machine like this one makes a batch.
    rest_ms: compute and host time of a step.
    """
    if not (0 < rest_ms < supply_ms < math.inf):
        return None
    costs = (
        supply_ms * work + batch_size * sending
        for work, sending in zip(_WORK, _SENDING_MS, strict=True)
    )
    low, likely, high = (math.ceil(cost / rest_ms) for cost in costs)
    return WorkerCount(likely, low, high)


def service_workers(now: Situation) -> WorkerCount | None:
    """Return the workers on other machines that a run needs; None where this one can do more."""
    part, table = now.setting.judgement.breakdown, now.setting.stages
    if part is None or table is None or now.setting.judgement.bound is not Bound.INPUT:
        return None
    if not _can_move(now, table) or _has_order_kept(now, table, part):
        return None
    # Behind a buffer the pipeline works all of a step.
    supply_ms, size = part.step.mean, now.manifest.batch_size or _BATCH_SIZE
    if not _exceeds_machine(now, table, supply_ms, part.work_mean_ms, size):
        return None
    return forecast_workers(supply_ms, part.work_mean_ms, size)


def _can_move(now: Situation, table: StageTable) -> bool:
    """Return whether the pipeline can run in workers."""
    is_fit = not now.has_own_loop and len(now.manifest.replicas) <= 1
    is_tf_data = now.origin.kind in (SourceKind.TF_DATA, SourceKind.UNKNOWN)
    is_served = any(stage.is_service for stage in table.stages)
    return is_fit and is_tf_data and not is_served and _stages_move(table.stages)


def _stages_move(stages: tuple[Stage, ...]) -> bool:
    kinds = [code_kinds(stage.kind.partition(" ")[0]) for stage in stages]
    moving = count_moving(kinds)
    return any("Map" in part for part in kinds[:moving]) and not any(
        stage.calls_python or any(map(why_not_moving, _below_batch(part)))
        for stage, part in zip(stages[:moving], kinds, strict=False)
    )


def _below_batch(kinds: tuple[str, ...]) -> tuple[str, ...]:
    """Return the kinds that move: no batch fused with a map, no source without stages."""
    if kinds == (_SOURCE_KIND,):
        return ()
    return kinds[:1] if kinds[-1:] == ("Batch",) else kinds


def _has_order_kept(now: Situation, table: StageTable, part: Breakdown) -> bool:
    """Return whether a change that keeps the order comes first, or no stage explains the wait."""
    place = table.bottleneck
    return (
        place is None
        or place.reason == "storage"
        or table.is_ahead(part.work_mean_ms)
        or not _overlaps(table)
        or best(now.setting.forecasts.values()) is not None
    )


def _exceeds_machine(
    now: Situation, table: StageTable, supply_ms: float, rest_ms: float, size: int
) -> bool:
    """Return whether a batch is more work than all cores do in a step, and worth the sending."""
    own = table.wait_cores if table.wait_cores > 0 else table.all_ms / table.rate_ms
    cores, work_ms = own + now.setting.cores_free, own * supply_ms
    is_worth_sending = work_ms > size * (_SENDING_MS[1] + _TAKING_MS)
    can_take = size * _TAKING_MS < max(cores, 1.0) * rest_ms
    return work_ms > cores * rest_ms and is_worth_sending and can_take


def _overlaps(table: StageTable) -> bool:
    return table.is_prefetched or table.stages[-1].is_parallel

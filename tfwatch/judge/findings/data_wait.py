"""Data wait: the device has no batch to train on.

Remedy: press the key that the banner names, then copy the line with `y`. [The usual
pipelines](pipelines.md) and their edits.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.knobs import (
    AUTO,
    CACHE,
    DEFAULT,
    KNOBS,
    MULTIPROCESSING,
    OFF,
    ON,
    PREFETCH,
    PY_DATASET_KNOBS,
    WORKERS,
    number_of,
)
from tfwatch.core.script_code import edited_lines
from tfwatch.judge.effects.wording import expected_gain_text
from tfwatch.judge.findings.finding import (
    PARALLEL_CALLS,
    STEPS_PER_EXECUTION,
    Advice,
    Finding,
    Tone,
)
from tfwatch.judge.findings.situation import SourceKind, of_step
from tfwatch.judge.findings.switch_lines import (
    advise_gain,
    parallel_map,
    py_dataset_lines,
    switch_line,
)
from tfwatch.judge.forecasts.evidence import cores_of
from tfwatch.judge.forecasts.forecast import best
from tfwatch.judge.stages import FETCH_MS
from tfwatch.judge.steps.steady_steps import HIGHLY_FROM

if TYPE_CHECKING:
    from tfwatch.judge.findings.situation import Situation
    from tfwatch.judge.forecasts.forecast import Forecast
    from tfwatch.judge.stages import Bottleneck, Stage
    from tfwatch.judge.steps.steady_steps import Breakdown

#: The share of the fetches that larger batches give back where batches are ready: of batches eight
#: times as large a fetch took a quarter an example.
_FEWER_FETCHES = 0.5
#: The share of a serial stage's work that other cores take over where it computes and the idle ones
#: are not known: on two cores 0.9 in three maps, on two threads of one core half or two thirds.
_SHARED = 0.75
#: Parallel maps take so many times the work of a serial one; the least share that they save: a wait
#: does not read as compute.
_PARALLEL_LOSS, _LEAST_SHARED = 1.05, 0.1


def find(now: Situation) -> Finding | None:
    """Find the data wait of the steps."""
    waited_s = now.regime.spent.data_wait_s
    if not waited_s:
        return None
    gain = _gain(now)
    remedy = _advise(now, gain)
    brief = _brief(now)
    limit = now.bottleneck
    cause = f": {_with_place(now, limit)}" if limit else ""
    return Finding(
        "input-bound",
        now.label("STARVING", waited_s),
        f"{brief}{cause}",
        remedy.sentence,
        remedy.edit,
        Tone.BAD if now.regime.share(waited_s) >= HIGHLY_FROM else Tone.WARN,
        brief,
        arguments=remedy.arguments,
        where=now.stages.stages[limit.stage].name if now.stages and limit else "",
        forecast=gain,
        claims={"data_wait_s": waited_s * _recovered(now, gain if gain and gain.is_sure else None)},
    )


def _brief(now: Situation) -> str:
    """Return the data wait in a sentence."""
    spent, part = now.regime.spent, now.split
    if part is None:
        wait_ms = units.milliseconds(1e3 * spent.data_wait_s / max(spent.steps, 1))
        return f"a step waits {wait_ms} for data in the mean"
    return f"each step waits {of_step(part.wait, part.step)} for data"


def _with_place(now: Situation, limit: Bottleneck) -> str:
    """Return the sentence on the bottleneck with its line in the script, where that is known: the
    line is of the map that workers would share."""
    assert now.stages
    name = now.stages.stages[limit.stage].name
    lines = [edit.place for edit in now.manifest.code if edit.knob == WORKERS]
    if len(lines) != 1 or "map" not in name:
        return limit.sentence
    return limit.sentence.replace(name, f"{name} at {lines[0]}", 1)


def _gain(now: Situation) -> Forecast | None:
    """Return the switch to advise; None where none gains.

    On a live screen a switch that is sure to gain, else that of the cause, else one to try. In a
    script the cause comes first: where it is no pipeline to add a stage to, and where the limit is
    known and no switch is sure to gain: a stage that runs serially, of which no switch was
    forecast, or any other one.
    """
    gain, limit = best(now.switches), now.bottleneck
    if gain is None or now.split is None:
        return None
    if now.live:
        of_cause = now.forecasts.get((WORKERS, "auto"))
        is_serial = limit is not None and limit.reason == "serial"
        if is_serial and of_cause in now.switches and not gain.is_sure:
            return of_cause
        return gain
    is_fixed = now.origin.has_no_pipeline or PREFETCH not in now.manifest.switchable
    is_cause_known = limit is not None and gain.knob != WORKERS
    is_first = is_cause_known and limit and (limit.reason == "serial" or not gain.is_sure)
    return None if is_fixed or is_first else gain


def _advise(now: Situation, gain: Forecast | None) -> Advice:
    """Advise the switch, else on the user's code; the advice comes first: a narrow row cuts the
    end."""
    part = now.split
    is_fetch = part is not None and is_fetch_bound(now, part)
    cause = _fetch if is_fetch else _cause
    found = advise_gain(now, gain) if gain else cause(now)
    if part is None or is_fetch:
        return found
    if gain or not now.live:
        return found
    return replace(found, sentence=_beside_keys(now, found.sentence))


def _beside_keys(now: Situation, sentence: str) -> str:
    """Return the advice on a live screen, and which key helps."""
    if PREFETCH not in now.manifest.switchable:
        return f"{sentence}; this pipeline cannot be switched live"
    if keys := _keys_of_py_dataset(now):
        draws = "; it draws other random numbers then" if now.manifest.workers_ask else ""
        return f"{keys}, from the next epoch: {sentence}{draws}"
    is_known = any(one.is_known for one in now.switches)
    return f"{sentence}; no key helps" if is_known or now.origin.has_no_pipeline else sentence


def _keys_of_py_dataset(now: Situation) -> str:
    """Return the keys that give a `PyDataset` workers, and processes where they help; empty where
    there are none."""
    knobs, can_switch = now.knobs, now.manifest.switchable
    can = [one for one in PY_DATASET_KNOBS if one in can_switch or now.manifest.needs_consent(one)]
    if MULTIPROCESSING not in knobs or WORKERS not in can:
        return ""
    helps = {WORKERS: not _is_slower(now, WORKERS), MULTIPROCESSING: _may_need_processes(now)}
    off = [knob for knob in can if knobs[knob] == OFF]
    return " and ".join(KNOBS[knob].key for knob in off if helps[knob])


def is_fetch_bound(now: Situation, part: Breakdown) -> bool:
    """Return True if batches are ready and the data wait is the fetch itself, not a few long
    waits."""
    alike = part.wait.mean < FETCH_MS or part.wait.median >= part.wait.mean / 2
    return alike and now.stages is not None and now.stages.is_ahead(part.work_mean_ms)


def compute_beside(now: Situation) -> float:
    """Return the seconds of compute on the CPU that batches have in the prefetch work: where steps
    find no batch, it never pauses. 0.0 where it pauses, or where that is not known."""
    part, table = now.split, now.stages
    waits = part is not None and part.wait.median > FETCH_MS
    works = waits and table is not None and table.is_prefetched and not now.manifest.accelerated
    return now.regime.spent.compute_s if works else 0.0


def _recovered(now: Situation, gain: Forecast | None) -> float:
    """Return the share of the data wait that the remedy gives back; 1 where no forecast says
    less. A serial stage would share all cores."""
    part, limit = now.split, now.bottleneck
    if part is None or part.wait.mean <= 0:
        return 1.0
    if gain is not None:
        return min(1.0, max(0.0, gain.now_ms - gain.step_ms) / part.wait.mean)
    cores = cores_of(now.manifest)
    slow = now.stages.stages[limit.stage] if now.stages and limit else None
    has_threads = now.origin is SourceKind.TF_DATA and cores > 1  # one for each core
    # A map that TensorFlow joins with its batch is a parallel stage, of one call.
    if has_threads and slow is not None and not (slow.is_parallel and slow.parallelism > 1):
        is_serial = limit is not None and limit.reason == "serial"
        saved = _saved_by_cores(now, part, cores) if is_serial else 1 - 1 / cores
        return min(1.0, saved * part.step.mean / part.wait.mean)
    is_fetch = now.origin is SourceKind.ARRAYS or is_fetch_bound(now, part)
    return _FEWER_FETCHES if is_fetch else 1.0


def _saved_by_cores(now: Situation, part: Breakdown, cores: int) -> float:
    """Return the share of a step that all cores save of a serial stage which computes: the work
    stays the same, so no more than their idle share, by the machine's figures and by those of the
    step. Other programs leave some of theirs."""
    if math.isnan(now.cores_free) or now.others.matters:
        idle = _SHARED * (1 - 1 / cores)
    else:
        idle = 1 - _PARALLEL_LOSS * (1 - min(now.cores_free / cores, 1.0))
    of_map_ms = _PARALLEL_LOSS * now.stages.all_ms if now.stages else 0.0
    of_step_ms = 0.0 if now.manifest.accelerated else part.work_mean_ms
    return max(_LEAST_SHARED, min(idle, 1 - (of_map_ms + of_step_ms) / (cores * part.step.mean)))


# -- the user's code -------------------------------------------------------------------------------

_CALLS = "model.compile(..., steps_per_execution=8)  # the same steps"
_FEWER_CALLS = (
    f"{_CALLS}\nmodel.fit(x, y, batch_size=4 * batch_size, ...)  # or this: fewer, other steps"
)
#: Of larger batches of arrays, copying the rows takes longer than all else: 2 ms for 25 MB, 0.2 ms
#: for 5 kB.
_LARGE_BATCH = 2**22
_SMALLER_ARRAYS = (
    'x = x.astype("uint8")  # images of whole numbers to 255: a quarter of the bytes\n'
    "keras.layers.Rescaling(1 / 255)  # the model's first layer casts"
)
_CHEAPER_BATCHES = Advice("a cheaper __getitem__ for the PyDataset: workers measured slower")
#: The workers of a `PyDataset` to begin with: as many as `auto` has at least.
_LEAST_WORKERS = 4
_PY_DATASET = """class Batches(keras.utils.PyDataset):  # in place of the generator
    def __len__(self): return batches  # in an epoch
    def __getitem__(self, index): return x, y  # the batch with this number
model.fit(Batches({way}), ...)"""


def _cause(now: Situation) -> Advice:
    """Advise on the user's code, by the kind of data."""
    if len(now.manifest.replicas) > 1 and not now.origin.has_no_pipeline:
        return _below_strategy(now)
    return _FOR[now.origin](now)


def _fetch(now: Situation) -> Advice:
    """Advise where batches are ready.

    Measured on two cores: a batch eight times as large took a quarter of the fetch time per
    example; eight steps per execution left the fetch unchanged and shortened a step from 0.8 to 0.3
    ms.
    """
    calls = "" if now.has_own_loop else "; compile(steps_per_execution=8) shortens steps"
    words = f"larger batches need fewer fetches{calls}; the buffer is full, so the data wait is the"
    is_arrays = now.origin is SourceKind.ARRAYS
    lines = "" if now.has_own_loop else _FEWER_CALLS if is_arrays else _CALLS
    arguments = () if now.has_own_loop else (STEPS_PER_EXECUTION,)
    return Advice(f"{words} fetch itself", lines, arguments)


def _below_strategy(now: Situation) -> Advice:
    """Advise on the data set that a strategy spreads over its replicas: it prepares batches ahead
    already."""
    return Advice(
        "num_parallel_calls=tf.data.AUTOTUNE on the map below the strategy: its batches are"
        " prepared ahead already",
        switch_line(WORKERS, "auto", now.stages, now.manifest.code),
    )


def _py_dataset(now: Situation) -> Advice:
    has_workers = now.knobs.get(WORKERS, OFF) not in (OFF, DEFAULT)
    has_processes = now.knobs.get(MULTIPROCESSING) == ON
    if has_processes and _is_slower(now, MULTIPROCESSING):
        return Advice("threads for the PyDataset: its processes measured slower")
    needs_processes = _may_need_processes(now)
    if has_processes or (has_workers and not needs_processes):
        return _more_workers(now)
    lines = py_dataset_lines(str(_workers(now)), has_processes=needs_processes)
    if has_workers:
        return Advice(
            "use_multiprocessing=True for the PyDataset: its threads share the GIL where"
            " __getitem__ computes in Python; where it waits, more of them",
            lines,
        )
    if needs_processes:
        return Advice(
            "workers=4, use_multiprocessing=True for the PyDataset: processes do not share the GIL",
            lines,
        )
    if _is_slower(now, WORKERS):
        return _CHEAPER_BATCHES
    return Advice(
        "workers=4, max_queue_size=8 for the PyDataset: four batches are prepared in parallel",
        lines,
    )


def _more_workers(now: Situation) -> Advice:
    workers = str(2 * _workers(now))
    if _is_slower(now, WORKERS) or (WORKERS, workers) in now.better:
        return _CHEAPER_BATCHES
    return Advice("more workers for the PyDataset", py_dataset_lines(workers))


def _workers(now: Situation) -> int:
    """Return the workers of a `PyDataset`; 4 where it has none."""
    workers = now.knobs.get(WORKERS, OFF)
    least = max(cores_of(now.manifest), _LEAST_WORKERS) if workers == AUTO else _LEAST_WORKERS
    return number_of(workers) or least


def _may_need_processes(now: Situation) -> bool:
    """Return whether processes may be faster than threads: `__getitem__` computes, and nothing
    measured says no. Threads that measured faster than none wait, for a disk or a network."""
    if _is_slower(now, MULTIPROCESSING):
        return False
    if now.knobs.get(WORKERS, OFF) in (OFF, DEFAULT):
        return _computes(now)
    return (WORKERS, OFF) not in now.better


def _is_slower(now: Situation, knob: str) -> bool:
    """Return whether the run has measured a knob of a `PyDataset` as slower than without it."""
    return any(one == knob and faster == OFF for (one, _), faster in now.better.items())


def _generator(now: Situation) -> Advice:
    # Keras prefetches a generator already, and a generator cannot yield batches in parallel.
    limit = now.bottleneck
    holds_gil = limit.waits is not True if limit and limit.reason == "python" else _computes(now)
    way = "workers=4, use_multiprocessing=True" if holds_gil else "workers=4"
    return Advice(
        f"a PyDataset({way}) in place of the generator, which cannot run in parallel",
        _PY_DATASET.format(way=way),
    )


def _iterator(now: Situation) -> Advice:
    return Advice(
        "tf.data.Dataset.from_generator(...).prefetch(...): prepares batches during steps",
        "dataset = tf.data.Dataset.from_generator(rows, output_signature=...)"
        ".prefetch(tf.data.AUTOTUNE)  # rows() returns your iterator; loop over dataset",
    )


def _arrays(now: Situation) -> Advice:
    # Keras gathers the rows in parallel and prefetches them: no data set of one's own was faster.
    size = now.manifest.batch_bytes or 0
    if size >= _LARGE_BATCH:
        return Advice(
            f"fewer bytes: each batch is {units.memory(size)} of the arrays; as uint8 or float16 it"
            " is smaller, and the model's first layer casts; Keras prefetches already",
            _SMALLER_ARRAYS,
        )
    return Advice(
        "larger batches, or compile(steps_per_execution=8); Keras prefetches arrays already",
        _FEWER_CALLS,
        (STEPS_PER_EXECUTION,),
    )


_CHEAPER = "make batches cheaper: a parallel map, cache, a map over whole batches"
_DEARER = Advice(f"{_CHEAPER}; prefetch is on already")


def _unknown(now: Situation) -> Advice:
    """Advise where the stages are unknown."""
    is_on = now.knobs.get(PREFETCH, "default") not in ("off", "default")
    if is_on or _gains_nothing(now):
        return Advice(f"prefetch cannot hide the wait: {_CHEAPER}")
    line = ".prefetch(tf.data.AUTOTUNE) at the end of the pipeline"
    return Advice(f"{line}; if it is there already, {_CHEAPER}")


def _gains_nothing(now: Situation) -> bool:
    """Return True where prefetch has a forecast: one that gains is advised before any other."""
    return any(one.knob == PREFETCH and one.is_known for one in now.forecasts.values())


def _computes(now: Situation) -> bool:
    """Return True if preparing batches uses the CPU, False also where that is unknown."""
    return now.stages is not None and now.stages.is_computing


# -- tf.data ---------------------------------------------------------------------------------------

#: The fewest threads to try for calls that wait, and so many times those in use: AUTOTUNE stops at
#: one for each core.
_LEAST_THREADS, _MORE_THREADS = 16, 4
#: Other machines are advised where fewer cores of this one are free.
_CORES_FREE = 1.0
_FROM_GENERATOR = (
    "dataset = dataset.map(load, num_parallel_calls=tf.data.AUTOTUNE)"
    "  # TensorFlow operations in place of from_generator: they do not hold the GIL"
)


def _tf_data(now: Situation) -> Advice:
    table, limit = now.stages, now.bottleneck
    if table is None:
        return _unknown(now)
    if not (table.is_prefetched or table.stages[-1].is_parallel or _gains_nothing(now)):
        return Advice(
            ".prefetch(tf.data.AUTOTUNE) at the end of the pipeline: prepares batches during steps",
            switch_line(PREFETCH, "auto", table, now.manifest.code),
        )
    if limit is None:
        return _DEARER
    stage = table.stages[limit.stage]
    if limit.reason == "python":
        return _python(now, limit, stage)
    if stage.kind.startswith("Interleave"):
        return Advice(
            "num_parallel_calls=tf.data.AUTOTUNE on the interleave (make_csv_dataset,"
            " TFRecordDataset: num_parallel_reads), over several files; or .cache() after it",
            edited_lines(now.manifest.code, {WORKERS: "auto"}),
        )
    if stage.is_parallel and stage.parallelism > 1:
        return _busy(now, limit, stage) if limit.reason == "cpu" else _more_calls(stage)
    if "Map" not in stage.kind or (WORKERS, "auto") in now.better:
        return _DEARER
    return Advice(_parallel_words(now), switch_line(WORKERS, "auto", table, now.manifest.code))


def _parallel_words(now: Situation) -> str:
    """Advise parallel calls of the map, with the forecast where it is known."""
    words = "num_parallel_calls=tf.data.AUTOTUNE on the map: its calls run in parallel"
    if not now.manifest.random_maps:
        return words
    then = now.forecasts.get((WORKERS, "auto"))
    gain = f", {expected_gain_text(then)}" if then and then.has_gain and then.is_sure else ""
    return f"{words}{gain}; it draws other random numbers then"


def _python(now: Situation, limit: Bottleneck, stage: Stage) -> Advice:
    """Advise on a stage that calls Python: calls that wait can wait at the same time."""
    if stage.kind.startswith("FlatMap"):
        return _from_generator(now, stage)
    if limit.waits is False:
        return Advice("TensorFlow operations in place of Python: the GIL allows no parallel calls")
    if "Map" not in stage.kind:
        return _DEARER
    if stage.is_parallel:
        return _more_calls(stage)
    wait = "its calls wait" if limit.waits else "calls that wait do so"
    return Advice(
        f"num_parallel_calls=tf.data.AUTOTUNE on the map: {wait} at the same time",
        parallel_map(stage.name),
        (PARALLEL_CALLS,),
    )


def _from_generator(now: Situation, stage: Stage) -> Advice:
    if _computes(now):
        words = "a parallel map of TensorFlow operations in place of from_generator"
        return Advice(words, _FROM_GENERATOR)
    kind, _, name = stage.name.removesuffix(")").partition("(")
    name = name if kind == "from_generator" and name.isidentifier() else "rows"
    return Advice(
        "several from_generator, interleaved: one works while another waits; prefetch is on"
        " already",
        "dataset = tf.data.Dataset.range(4).interleave(lambda n:"
        f" tf.data.Dataset.from_generator({name}, args=(n, 4), output_signature=...),"
        f" cycle_length=4, num_parallel_calls=4)  # {name}(n, 4): every fourth element from the"
        " n-th on",
    )


def _more_calls(stage: Stage) -> Advice:
    """Advise more calls at the same time than the machine has cores, each of which needs a thread:
    16 took 12 ms/batch where 2 took 98."""
    threads = max(_LEAST_THREADS, round(_MORE_THREADS * stage.parallelism))
    if "Map" not in stage.kind:
        return _DEARER
    return Advice(
        f"num_parallel_calls={threads} and a private_threadpool_size of {threads}: more calls wait"
        " at the same time",
        f"{parallel_map(stage.name, str(threads))}\noptions = tf.data.Options()\n"
        f"options.threading.private_threadpool_size = {threads}\n"
        "dataset = dataset.with_options(options)  # after the last stage",
        (PARALLEL_CALLS,),
    )


def _busy(now: Situation, limit: Bottleneck, stage: Stage) -> Advice:
    """Advise on a stage whose parallel calls use all cores: to cache it only where that keeps the
    elements."""
    words = f"cheaper operations or a map over whole batches: all workers of {stage.name} are busy"
    if now.cores_free < _CORES_FREE and not now.has_own_loop:
        words = f"{words}; or other machines (tfwatch run --feed): elements in another order"
    if not _can_cache(now, limit):
        return Advice(words)
    size, after = now.manifest.cache_bytes, now.manifest.cache_after or "the slow stages"
    fits = f" ({units.memory(size)})" if size else " where it fits into memory"
    line = edited_lines(now.manifest.code, {CACHE: "on"}) or (
        f"dataset = dataset.cache()  # after {after}, both before shuffle and anything random"
    )
    return Advice(f".cache(){fits}, {words}", line)


def _can_cache(now: Situation, limit: Bottleneck) -> bool:
    """Return whether a cache may save the work of a stage: its results are kept, or nothing is
    known of a cache."""
    after = now.manifest.cache_after
    if now.knobs.get(CACHE) == "on" or (CACHE, "on") in now.better:
        return False
    if not after:
        return not now.manifest.fixed.get(CACHE)
    names = [one.name.split(", ") for one in now.stages.stages] if now.stages else []
    return limit.stage <= next((n for n, parts in enumerate(names) if after in parts), -1)


_FOR = {
    SourceKind.PY_DATASET: _py_dataset,
    SourceKind.GENERATOR: _generator,
    SourceKind.ARRAYS: _arrays,
    SourceKind.ITERATOR: _iterator,
    SourceKind.TF_DATA: _tf_data,
    SourceKind.UNKNOWN: _unknown,
}

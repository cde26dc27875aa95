"""The advice against data wait on the user's code: by the kind of data, and for a tf.data pipeline
by the stage that limits it."""

from __future__ import annotations

import math
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
    no_room,
)
from tfwatch.core.script_code import edited_lines
from tfwatch.judge.effects.wording import expected_gain_text
from tfwatch.judge.findings.finding import (
    KEEPS_ITERATOR,
    PARALLEL_CALLS,
    STEPS_PER_EXECUTION,
    Advice,
)
from tfwatch.judge.findings.first_batch import one_iterator_line
from tfwatch.judge.findings.situation import SourceKind
from tfwatch.judge.findings.switch_lines import (
    function_of,
    line_with_switch,
    parallel_map,
    proved_knobs,
    py_dataset_lines,
    switch_phrase,
    workers_of,
)
from tfwatch.judge.forecasts.evidence import cores_of

if TYPE_CHECKING:
    from tfwatch.judge.findings.situation import Situation
    from tfwatch.judge.stages import Bottleneck, Stage

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
_PY_DATASET = """class Batches(keras.utils.PyDataset):  # in place of the generator
    def __len__(self): return batches  # in an epoch
    def __getitem__(self, index): return x, y  # the batch with this number
model.fit(Batches({way}), ...)"""


def advise_on_data(now: Situation) -> Advice:
    """Advise on the user's code, by the kind of data."""
    if len(now.manifest.replicas) > 1 and not now.origin.has_no_pipeline:
        return Advice(
            "num_parallel_calls=tf.data.AUTOTUNE on the map below the strategy: its batches are"
            " prepared ahead already",
            line_with_switch(now, WORKERS, AUTO),
        )
    return _FOR[now.origin](now)


def advise_fewer_fetches(now: Situation) -> Advice:
    """Advise where batches are ready.

    Measured on two cores: a batch eight times as large took a quarter of the fetch time per
    example; eight steps per execution left the fetch unchanged and shortened a step from 0.8 to 0.3
    ms.
    """
    larger = "larger batches need fewer fetches"
    full = "the buffer is full, so the data wait is the fetch itself"
    if now.has_own_loop:
        return Advice(f"{larger}; {full}")
    return Advice(
        f"{larger}; compile(steps_per_execution=8) shortens steps; {full}",
        _FEWER_CALLS if now.origin is SourceKind.ARRAYS else _CALLS,
        (STEPS_PER_EXECUTION,),
    )


def _generator(now: Situation) -> Advice:
    # Keras prefetches a generator already, and a generator cannot yield batches in parallel.
    limit = now.bottleneck
    is_python = limit is not None and limit.reason == "python"
    holds_gil = not limit.waits if limit and is_python else now.computes_batches
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


# -- a PyDataset -----------------------------------------------------------------------------------

#: Threads share the GIL where they use this share of a core in a data wait, and wait where they use
#: at most that one: four that computed used 0.77 to 0.94 of it, four that slept for a disk and read
#: arrays 0.61. Other programs that use so many cores leave it open: four that computed used 0.53.
_SHARES_GIL, _LEAVES_GIL, _CROWDED = 0.7, 0.35, 0.5
_CHEAPER_BATCHES = Advice("a cheaper __getitem__ for the PyDataset: workers measured slower")


def _py_dataset(now: Situation) -> Advice:
    """Advise workers, threads or processes, or what is left where the run measured them slower."""
    has_workers = now.knobs.get(WORKERS, OFF) not in (OFF, DEFAULT)
    has_processes = now.knobs.get(MULTIPROCESSING) == ON
    if has_processes and _is_slower(now, MULTIPROCESSING):
        return Advice("threads for the PyDataset: its processes measured slower")
    needs_processes = _may_need_processes(now)
    if has_processes or (has_workers and not needs_processes):
        return _more_workers(now, is_sure=has_processes or needs_processes is not None)
    lines = py_dataset_lines(
        now, str(workers_of(now, now.knobs.get(WORKERS, OFF))), has_processes=bool(needs_processes)
    )
    if has_workers:
        return Advice(
            "use_multiprocessing=True for the PyDataset: its threads compute in Python, and share"
            " the GIL",
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


def _more_workers(now: Situation, *, is_sure: bool) -> Advice:
    current = now.knobs.get(WORKERS, OFF)
    workers = str(2 * workers_of(now, current))
    if _is_slower(now, WORKERS) or (WORKERS, workers) in now.better:
        return _CHEAPER_BATCHES
    is_live = now.live and WORKERS in now.manifest.switchable
    to_do = f"workers={workers}"
    if is_live:
        to_do = f"tfwatch set {to_do} in a second terminal"
    is_proved = any(key[0] == WORKERS and best == current for key, best in now.better.items())
    # The lines of what is proved come before these.
    lines = f"# then workers={workers}: not measured"
    words = f"more workers for the PyDataset: {to_do}"
    if not is_sure:
        words = f"{to_do}, if __getitem__ waits; use_multiprocessing=True if it computes in Python"
    return Advice(
        words,
        lines if is_proved else py_dataset_lines(now, workers),
        is_live=is_live,
    )


def _may_need_processes(now: Situation) -> bool | None:
    """Return whether processes may be faster than threads: `__getitem__` computes, and nothing
    measured says no; None where that is unknown. Threads that measured faster than none wait, for a
    disk or a network."""
    if _is_slower(now, MULTIPROCESSING):
        return False
    if now.knobs.get(WORKERS, OFF) in (OFF, DEFAULT):
        return now.computes_batches
    return False if (WORKERS, OFF) in now.better else _do_threads_compute(now)


def _do_threads_compute(now: Situation) -> bool | None:
    """Return whether the threads that prepare batches share the GIL: one of them computes at any
    time of a data wait; None where that is unknown, as beside other programs."""
    part, used = now.split, now.cores_used
    others = cores_of(now.manifest) - used - now.cores_free
    if part is None or math.isnan(others) or others > _CROWDED or not part.wait.mean:
        return None
    # Compute on the CPU takes a core at least.
    of_compute = 0.0 if now.manifest.accelerated else part.work_mean_ms
    share = (used * part.step.mean - of_compute) / part.wait.mean
    if share >= _SHARES_GIL:
        return True
    return False if share <= _LEAVES_GIL else None


def _is_slower(now: Situation, knob: str) -> bool:
    """Return whether the run has measured a knob of a `PyDataset` as slower than without it."""
    return any(one == knob and faster == OFF for (one, _), faster in now.better.items())


def py_dataset_keys(now: Situation) -> str:
    """Return the keys that give a `PyDataset` workers, and processes where they help; empty where
    there are none."""
    knobs, can_switch = now.knobs, now.manifest.switchable
    can = [one for one in PY_DATASET_KNOBS if one in can_switch or now.manifest.needs_consent(one)]
    if MULTIPROCESSING not in knobs or WORKERS not in can:
        return ""
    helps = {WORKERS: not _is_slower(now, WORKERS), MULTIPROCESSING: _may_need_processes(now)}
    off = [knob for knob in can if knobs[knob] == OFF]
    return " and ".join(KNOBS[knob].key for knob in off if helps[knob])


# -- tf.data ---------------------------------------------------------------------------------------

_CHEAPER = "make batches cheaper: a parallel map, cache, a map over whole batches"
_DEARER = Advice(f"{_CHEAPER}; prefetch is on already")
#: The fewest threads to try for calls that wait, and so many times those in use: AUTOTUNE stops at
#: one for each core.
_LEAST_THREADS, _MORE_THREADS = 16, 4
#: In epochs that are shorter, seconds, the wait for tf.data's autotuning thread is 5 % or more:
#: 30 s in the mean where it sleeps for its longest.
_SHORT_EPOCH_S = 600.0
#: Other machines are advised where fewer cores of this one are free.
_CORES_FREE = 1.0
_FROM_GENERATOR = (
    "dataset = dataset.map(load, num_parallel_calls=tf.data.AUTOTUNE)"
    "  # TensorFlow operations in place of from_generator: they do not hold the GIL"
)


def _tf_data(now: Situation) -> Advice:
    """Advise a prefetch where none shows, else on the stage that limits the others."""
    table, limit, stage = now.stages, now.bottleneck, now.limiting_stage
    if table is None:
        return _without_stages(now)
    if not (table.is_prefetched or table.stages[-1].is_parallel or _prefetch_is_forecast(now)):
        return Advice(
            ".prefetch(tf.data.AUTOTUNE) at the end of the pipeline: prepares batches during steps",
            line_with_switch(now, PREFETCH, AUTO),
        )
    if limit is None or stage is None:
        return _DEARER
    if limit.reason == "python":
        return _python(now, limit, stage)
    if stage.kind.startswith("Interleave"):
        return Advice(
            "num_parallel_calls=tf.data.AUTOTUNE on the interleave (make_csv_dataset,"
            " TFRecordDataset: num_parallel_reads), over several files; or .cache() after it",
            edited_lines(now.manifest.code, {WORKERS: AUTO}),
        )
    if stage.workers > 1 and limit.reason == "storage":
        return _more_calls(stage)
    if "Map" not in stage.kind:
        return _busy(now, limit, stage) if stage.workers > 1 else _DEARER
    if split := _split_at_cache(now, stage):
        return split
    if stage.workers > 1 or now.gains_nothing(WORKERS, AUTO):
        return _busy(now, limit, stage)
    words, lines = _parallel_words(now), line_with_switch(now, WORKERS, AUTO)
    above = table.stages[table.stages.index(stage) + 1 :]
    if not _has_short_epochs(now) or any(one.name.startswith("repeat") for one in above):
        return Advice(words, lines)
    return Advice(
        f"{words}; with .repeat() and steps_per_epoch, as a new iterator may wait for tf.data's"
        " autotuning to end",
        f"{lines}\n{one_iterator_line(now)}",
        (KEEPS_ITERATOR,),
    )


def _has_short_epochs(now: Situation) -> bool:
    """Return whether the wait at the begin of an epoch may be a good part of it: see
    `Regime.tuning_s`. With a parallel map 17 of 18 epochs on a Xeon waited."""
    regime = now.regime
    many = regime.epochs > max(regime.fits, 1) and not now.has_own_loop
    return many and regime.spent.iterator_s < _SHORT_EPOCH_S * regime.epochs


def _parallel_words(now: Situation) -> str:
    """Advise parallel calls of the map, with the forecast where it is known."""
    words = "num_parallel_calls=tf.data.AUTOTUNE on the map: its calls run in parallel"
    if not now.manifest.random_maps:
        return words
    then = now.forecasts.get((WORKERS, AUTO))
    gain = f", {expected_gain_text(then)}" if then and then.has_gain and then.is_sure else ""
    return f"{words}{gain}; it draws other random numbers then"


def is_split_at_cache(now: Situation) -> bool:
    """Return whether the remedy is a cache within the map that limits the steps: it draws random
    numbers, which no cache may keep, after work that does not change, such as decoding.

    It needs data that is read more than once and fits into memory. Parallel calls that are sure to
    gain come first.
    """
    limit, stage, size = now.bottleneck, now.limiting_stage, now.bytes_of_epoch
    is_kept = CACHE not in now.manifest.fixed or stage is None or not stage.draws_random
    if is_kept or limit is None or limit.reason in ("storage", "python"):
        return False
    has_room = bool(size and now.memory_free) and not no_room(size, now.memory_free)
    is_repeated = max(now.manifest.epochs or 0, now.regime.epochs) > 1
    then = now.forecasts.get((WORKERS, AUTO))
    return has_room and is_repeated and not (then and then.has_gain and then.is_sure)


def _split_at_cache(now: Situation, stage: Stage) -> Advice | None:
    """Advise a cache before the random part of a map; None where it is not the remedy.

    Two maps of a JPEG pipeline, which was decoded and flipped on two busy cores, took 0.41 times
    the step; parallel calls took 0.98 times.
    """
    if not is_split_at_cache(now):
        return None
    is_shuffled = now.stages and any("Shuffle" in one.kind for one in now.stages.stages)
    first = "decode" if stage.reads_files else "what is not random"
    before, after = (", both before shuffle", ", after shuffle") if is_shuffled else ("", "")
    name = stage.name.partition(", ")[0]
    function = function_of(name) or "its function"
    places = [edit.place for edit in now.manifest.code if edit.knob == WORKERS]
    calls = proved_knobs(now).get(WORKERS, OFF)
    then = "then " if calls != now.manifest.knobs.get(WORKERS, calls) else ""
    parallel = "" if calls in (OFF, DEFAULT) else f", {switch_phrase(WORKERS, calls)}"
    return Advice(
        f"{first} in a map of its own, .cache() after it ({units.memory(now.bytes_of_epoch)})"
        f"{before}, then the random part",
        f"# {then}{f'{places[0]}: ' if len(places) == 1 else ''}{name} becomes two, of functions"
        f" that you write\ndataset = dataset.map(decode{parallel}).cache()"
        f"  # decode: {function} without what is random{before.replace(' both', '')}\n"
        f"dataset = dataset.map(augment{parallel})"
        f"  # augment: the random part of {function}{after}",
    )


def _python(now: Situation, limit: Bottleneck, stage: Stage) -> Advice:
    """Advise on a stage that calls Python: calls that wait can wait at the same time."""
    if stage.kind.startswith("FlatMap"):
        return _from_generator(now, stage)
    if limit.waits is False:
        return Advice("TensorFlow operations in place of Python: the GIL allows no parallel calls")
    if "Map" not in stage.kind or stage.is_parallel:
        if limit.waits or "Map" not in stage.kind:
            return _more_calls(stage)
        first = "TensorFlow operations in place of Python where it computes"
        return Advice(f"{first}; where it waits, {_threads_words(_threads_of(stage))}")
    wait = "its calls wait" if limit.waits else "calls that wait do so"
    return Advice(
        f"num_parallel_calls=tf.data.AUTOTUNE on the map: {wait} at the same time",
        parallel_map(stage.name),
        (PARALLEL_CALLS,),
    )


def _from_generator(now: Situation, stage: Stage) -> Advice:
    if now.computes_batches:
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
    threads = _threads_of(stage)
    if "Map" not in stage.kind:
        return _DEARER
    return Advice(
        f"{_threads_words(threads)}: more calls wait at the same time",
        f"{parallel_map(stage.name, str(threads))}\noptions = tf.data.Options()\n"
        f"options.threading.private_threadpool_size = {threads}\n"
        "dataset = dataset.with_options(options)  # after the last stage",
        (PARALLEL_CALLS,),
    )


def _threads_of(stage: Stage) -> int:
    return max(_LEAST_THREADS, round(_MORE_THREADS * stage.workers))


def _threads_words(threads: int) -> str:
    return f"num_parallel_calls={threads} and a private_threadpool_size of {threads}"


def _busy(now: Situation, limit: Bottleneck, stage: Stage) -> Advice:
    """Advise on a stage whose calls use all cores: to cache it only where that keeps the
    elements."""
    is_parallel = stage.workers > 1
    why = (
        f"all workers of {stage.name} are busy"
        if is_parallel
        else f"parallel calls of {stage.name} gain nothing"
    )
    words = f"cheaper operations or a map over whole batches: {why}"
    if now.cores_free < _CORES_FREE and not now.has_own_loop:
        words = f"{words}; or other machines (tfwatch run --feed): elements in another order"
    if not _can_cache(now, limit):
        return Advice(words)
    size, after = now.manifest.cache_bytes, now.manifest.cache_after or "the slow stages"
    fits = f" ({units.memory(size)})" if size else " where it fits into memory"
    line = f"dataset = dataset.cache()  # after {after}, both before shuffle and anything random"
    if any(edit.knob == CACHE for edit in now.manifest.code):
        line = line_with_switch(now, CACHE, ON)
    return Advice(f".cache(){fits}, {words}", line)


def _can_cache(now: Situation, limit: Bottleneck) -> bool:
    """Return whether a cache may save the work of a stage: its results are kept, or nothing is
    known of a cache."""
    after = now.manifest.cache_after
    if now.knobs.get(CACHE) == ON or (CACHE, ON) in now.better:
        return False
    if not after:
        return not now.manifest.fixed.get(CACHE)
    names = [one.name.split(", ") for one in now.stages.stages] if now.stages else []
    return limit.stage <= next((n for n, parts in enumerate(names) if after in parts), -1)


def _without_stages(now: Situation) -> Advice:
    if now.knobs.get(PREFETCH, DEFAULT) not in (OFF, DEFAULT) or _prefetch_is_forecast(now):
        return Advice(f"prefetch cannot hide the wait: {_CHEAPER}")
    line = ".prefetch(tf.data.AUTOTUNE) at the end of the pipeline"
    return Advice(f"{line}; if it is there already, {_CHEAPER}")


def _prefetch_is_forecast(now: Situation) -> bool:
    """Return whether prefetch has a forecast: one that gains is advised before any other."""
    return any(one.knob == PREFETCH and one.is_known for one in now.forecasts.values())


_FOR = {
    SourceKind.PY_DATASET: _py_dataset,
    SourceKind.GENERATOR: _generator,
    SourceKind.ARRAYS: _arrays,
    SourceKind.ITERATOR: _iterator,
    SourceKind.TF_DATA: _tf_data,
    SourceKind.UNKNOWN: _without_stages,
}

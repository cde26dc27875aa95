"""The advice for a tf.data pipeline, by the stage that limits it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.knobs import CACHE, PREFETCH, WORKERS
from tfwatch.core.script_code import edited_lines
from tfwatch.judge.effects.wording import expected_gain_text
from tfwatch.judge.findings.finding import PARALLEL_CALLS, Advice
from tfwatch.judge.findings.switch_lines import parallel_map, switch_line

if TYPE_CHECKING:
    from tfwatch.judge.findings.situation import Situation
    from tfwatch.judge.stages import Bottleneck, Stage

_CHEAPER = "make batches cheaper: a parallel map, cache, a map over whole batches"
_DEARER = Advice(f"{_CHEAPER}; prefetch is on already")
#: The fewest threads to try for calls that wait, and so many times those in use: AUTOTUNE stops at
#: one for each core.
_LEAST_THREADS, _MORE_THREADS = 16, 4
#: Other machines are advised where fewer cores of this one are free.
_CORES_FREE = 1.0
_FROM_GENERATOR = (
    "dataset = dataset.map(load, num_parallel_calls=tf.data.AUTOTUNE)"
    "  # TensorFlow operations in place of from_generator: they do not hold the GIL"
)


def advise_tf_data(now: Situation) -> Advice:
    """Advise a prefetch where none shows, else on the stage that limits the others."""
    table, limit = now.stages, now.bottleneck
    if table is None:
        return advise_without_stages(now)
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
    if stage.workers > 1:
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
    threads = max(_LEAST_THREADS, round(_MORE_THREADS * stage.workers))
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


def advise_without_stages(now: Situation) -> Advice:
    """Advise where the stages are unknown."""
    is_on = now.knobs.get(PREFETCH, "default") not in ("off", "default")
    if is_on or _gains_nothing(now):
        return Advice(f"prefetch cannot hide the wait: {_CHEAPER}")
    line = ".prefetch(tf.data.AUTOTUNE) at the end of the pipeline"
    return Advice(f"{line}; if it is there already, {_CHEAPER}")


def _gains_nothing(now: Situation) -> bool:
    """Return True where prefetch has a forecast: one that gains is advised before any other."""
    return any(one.knob == PREFETCH and one.is_known for one in now.forecasts.values())

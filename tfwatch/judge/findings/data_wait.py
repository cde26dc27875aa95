"""Data wait: the device has no batch to train on.

Remedy: press the key that the banner names, then copy the line with `y`. [The usual
pipelines](pipelines.md) and their edits.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.knobs import PREFETCH, WORKERS
from tfwatch.judge.findings.finding import STEPS_PER_EXECUTION, Advice, Finding, Tone
from tfwatch.judge.findings.py_dataset_advice import advise_py_dataset, keys_of_py_dataset
from tfwatch.judge.findings.shared_cores import saved_by_cores
from tfwatch.judge.findings.situation import SourceKind, of_step
from tfwatch.judge.findings.switch_lines import advise_gain, switch_line
from tfwatch.judge.findings.tf_data_advice import advise_tf_data, advise_without_stages
from tfwatch.judge.forecasts.evidence import cores_of
from tfwatch.judge.forecasts.forecast import best
from tfwatch.judge.stages import FETCH_MS
from tfwatch.judge.steps.steady_steps import HIGHLY_FROM

if TYPE_CHECKING:
    from tfwatch.judge.findings.situation import Situation
    from tfwatch.judge.forecasts.forecast import Forecast
    from tfwatch.judge.stages import Bottleneck
    from tfwatch.judge.steps.steady_steps import Breakdown

#: The share of the fetches that larger batches give back where batches are ready: of batches eight
#: times as large a fetch took a quarter an example.
_FEWER_FETCHES = 0.5


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
    if part is None or is_fetch or gain or not now.live:
        return found
    return replace(found, sentence=_beside_keys(now, found.sentence))


def _beside_keys(now: Situation, sentence: str) -> str:
    """Return the advice on a live screen, and which key helps."""
    if PREFETCH not in now.manifest.switchable:
        return f"{sentence}; this pipeline cannot be switched live"
    if keys := keys_of_py_dataset(now):
        draws = "; it draws other random numbers then" if now.manifest.workers_ask else ""
        return f"{keys}, from the next epoch: {sentence}{draws}"
    is_known = any(one.is_known for one in now.switches)
    return f"{sentence}; no key helps" if is_known or now.origin.has_no_pipeline else sentence


def is_fetch_bound(now: Situation, part: Breakdown) -> bool:
    """Return True if batches are ready and the data wait is the fetch itself, not a few long
    waits."""
    alike = part.wait.mean < FETCH_MS or part.wait.median >= part.wait.mean / 2
    return alike and now.stages is not None and now.stages.is_ahead(part.work_mean_ms)


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
    if has_threads and slow is not None and slow.workers == 1:
        is_serial = limit is not None and limit.reason == "serial"
        saved = saved_by_cores(now, part, cores) if is_serial else 1 - 1 / cores
        return min(1.0, saved * part.step.mean / part.wait.mean)
    is_fetch = now.origin is SourceKind.ARRAYS or is_fetch_bound(now, part)
    return _FEWER_FETCHES if is_fetch else 1.0


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
    larger = "larger batches need fewer fetches"
    full = "the buffer is full, so the data wait is the fetch itself"
    if now.has_own_loop:
        return Advice(f"{larger}; {full}")
    return Advice(
        f"{larger}; compile(steps_per_execution=8) shortens steps; {full}",
        _FEWER_CALLS if now.origin is SourceKind.ARRAYS else _CALLS,
        (STEPS_PER_EXECUTION,),
    )


def _below_strategy(now: Situation) -> Advice:
    """Advise on the data set that a strategy spreads over its replicas: it prepares batches ahead
    already."""
    return Advice(
        "num_parallel_calls=tf.data.AUTOTUNE on the map below the strategy: its batches are"
        " prepared ahead already",
        switch_line(WORKERS, "auto", now.stages, now.manifest.code),
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


_FOR = {
    SourceKind.PY_DATASET: advise_py_dataset,
    SourceKind.GENERATOR: _generator,
    SourceKind.ARRAYS: _arrays,
    SourceKind.ITERATOR: _iterator,
    SourceKind.TF_DATA: advise_tf_data,
    SourceKind.UNKNOWN: advise_without_stages,
}

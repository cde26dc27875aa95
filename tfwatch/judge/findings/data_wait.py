"""Data wait: the device has no batch to train on.

Remedy: press the key that the banner names, then copy the line with `y`. [The usual
pipelines](pipelines.md) and their edits.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.knobs import AUTO, PREFETCH, WORKERS
from tfwatch.judge.findings.data_advice import (
    advise_fewer_fetches,
    advise_on_data,
    is_split_at_cache,
    py_dataset_keys,
)
from tfwatch.judge.findings.finding import KEEPS_ITERATOR, Finding, Tone
from tfwatch.judge.findings.situation import LEADS_FROM, SourceKind
from tfwatch.judge.findings.stalls import stepped_s, waited_s
from tfwatch.judge.findings.switch_lines import advise_gain
from tfwatch.judge.forecasts.evidence import cores_of
from tfwatch.judge.forecasts.forecast import best
from tfwatch.judge.stages import FETCH_MS
from tfwatch.judge.steps.steady_steps import HIGHLY_FROM

if TYPE_CHECKING:
    from tfwatch.judge.findings.finding import Advice
    from tfwatch.judge.findings.situation import Situation
    from tfwatch.judge.forecasts.forecast import Forecast
    from tfwatch.judge.steps.steady_steps import Breakdown

#: The share of the fetches that larger batches give back where batches are ready: of batches eight
#: times as large a fetch took a quarter an example.
_FEWER_FETCHES = 0.5
#: Where the usual step waits for a smaller share of the mean, few steps wait for many.
_EVEN = 0.5
#: The share of a serial stage's work that other cores take over beside other programs: on two cores
#: 0.9 in three maps, on two threads of one core half or two thirds.
_SHARED = 0.75
#: The least share that they save: a wait does not read as compute.
_LEAST_SHARED = 0.1


def find(now: Situation) -> Finding | None:
    """Find the data wait of the steps."""
    lost_s = waited_s(now)
    if lost_s <= 0:
        return None
    gain = _gain(now)
    remedy = _advise(now, gain)
    brief = _brief(now, lost_s)
    keeps = KEEPS_ITERATOR in remedy.arguments
    # As the word: its share is that of the steps, and a small part of the run is not starving.
    is_starving = now.regime.share(lost_s) >= LEADS_FROM
    is_high = is_starving and lost_s >= HIGHLY_FROM * stepped_s(now)
    begins = {"first_batch_s": now.regime.tuning_s} if keeps and now.regime.tuning_s else {}
    return Finding(
        "input-bound",
        now.label("STARVING", lost_s, stepped_s(now)),
        f"{brief}{_cause(now)}",
        remedy.sentence,
        remedy.edit,
        Tone.BAD if is_high else Tone.WARN,
        brief,
        arguments=remedy.arguments,
        where=_where(now),
        forecast=gain,
        claims={"data_wait_s": lost_s * _recovered(now, gain), **begins},
    )


def _brief(now: Situation, lost_s: float) -> str:
    """Return the mean step of the regime, whose share the word has: the steady steps of the last
    seconds waited 1.3 of 39.6 ms beside 53 %, where few steps wait for many."""
    spent, part = now.regime.spent, now.split
    steps = max(spent.steps, 1)
    wait_ms, step_ms = (1e3 * seconds / steps for seconds in (lost_s, stepped_s(now)))
    waits = f"waits {' of '.join(units.in_one_unit(wait_ms, step_ms))} for data"
    is_even = part is not None and part.wait.mean >= _EVEN * wait_ms
    return f"each step {waits}" if is_even else f"a step {waits} in the mean"


def _cause(now: Situation) -> str:
    """Return the sentence on the bottleneck with its line in the script, where that is known."""
    limit, slow, where = now.bottleneck, now.limiting_stage, _where(now)
    if limit is None or slow is None:
        return f": {where}" if where else ""
    return f": {limit.sentence.replace(slow.name, where, 1)}"


def _where(now: Situation) -> str:
    """Return the stage that limits the steps, `map(load) at train.py:24` where the script has one
    map that workers would share; of a `PyDataset` its code."""
    slow = now.limiting_stage
    if slow is None or _code_of(now):
        return _code_of(now)
    lines = [edit.place for edit in now.manifest.code if edit.knob == WORKERS]
    return f"{slow.name} at {lines[0]}" if len(lines) == 1 and "map" in slow.name else slow.name


def _code_of(now: Situation) -> str:
    """Return `Rows.__getitem__ at train.py:17` of a `PyDataset`; empty where it is not known."""
    manifest = now.manifest
    is_known = manifest.batch_class and now.origin is SourceKind.PY_DATASET
    return f"{manifest.batch_class}.__getitem__ at {manifest.batch_place}" if is_known else ""


def _gain(now: Situation) -> Forecast | None:
    """Return the switch to advise; None where none gains.

    On a live screen a switch that is sure to gain, else that of the cause, else one to try where
    the cause is no serial stage. In a script the cause comes first: where it is no pipeline to add
    a stage to, and where the limit is known and no switch is sure to gain: a stage that runs
    serially, of which no switch was forecast, or any other one.
    """
    gain, limit = best(now.switches), now.bottleneck
    if gain is None or now.split is None or (not gain.is_sure and is_split_at_cache(now)):
        return None
    if now.live:
        of_cause = now.forecasts.get((WORKERS, AUTO))
        is_serial = limit is not None and limit.reason == "serial"
        if is_serial and not gain.is_sure and not now.gains_nothing(WORKERS, AUTO):
            return of_cause if of_cause in now.switches else None
        return gain
    is_fixed = now.origin.has_no_pipeline or PREFETCH not in now.manifest.switchable
    is_cause_known = limit is not None and gain.knob != WORKERS
    is_first = is_cause_known and limit and (limit.reason == "serial" or not gain.is_sure)
    return None if is_fixed or is_first else gain


def _advise(now: Situation, gain: Forecast | None) -> Advice:
    """Advise the switch, else on the user's code; the advice comes first: a narrow row cuts the
    end."""
    part = now.split
    if gain:
        return advise_gain(now, gain)
    if part is not None and is_fetch_bound(now, part):
        return advise_fewer_fetches(now)
    found = advise_on_data(now)
    if part is None or not now.live:
        return found
    return replace(found, sentence=_beside_keys(now, found))


def _beside_keys(now: Situation, found: Advice) -> str:
    """Return the advice on a live screen, and which key helps."""
    sentence = found.sentence
    if PREFETCH not in now.manifest.switchable:
        return f"{sentence}; this pipeline cannot be switched live"
    if keys := py_dataset_keys(now):
        draws = "; it draws other random numbers then" if now.manifest.workers_ask else ""
        return f"{keys}, from the next epoch: {sentence}{draws}"
    is_known = any(one.is_known for one in now.switches) and best(now.switches) is None
    helps_no_key = not found.is_live and (is_known or now.origin.has_no_pipeline)
    return f"{sentence}; no key helps" if helps_no_key else sentence


def is_fetch_bound(now: Situation, part: Breakdown) -> bool:
    """Return True if batches are ready and the data wait is the fetch itself, not a few long
    waits."""
    alike = part.wait.mean < FETCH_MS or part.wait.median >= part.wait.mean / 2
    return alike and now.stages is not None and now.stages.is_ahead(part.work_mean_ms)


def _recovered(now: Situation, gain: Forecast | None) -> float:
    """Return the share of the data wait that the remedy gives back; 1 where no forecast says
    less. A serial stage would share all cores."""
    part, cores, slow = now.split, cores_of(now.manifest), now.limiting_stage
    if part is None or part.wait.mean <= 0:
        return 1.0
    if gain is not None and gain.is_sure:
        return min(1.0, max(0.0, gain.now_ms - gain.step_ms) / part.wait.mean)
    if now.origin is SourceKind.TF_DATA and is_split_at_cache(now):
        return 1.0
    has_threads = now.origin is SourceKind.TF_DATA and cores > 1  # one for each core
    # A map that TensorFlow joins with its batch is a parallel stage, of one call.
    if has_threads and slow is not None and slow.workers == 1:
        is_serial = now.bottleneck is not None and now.bottleneck.reason == "serial"
        saved = _saved_by_cores(now, part, cores) if is_serial else 1 - 1 / cores
        return min(1.0, saved * part.step.mean / part.wait.mean)
    is_fetch = now.origin is SourceKind.ARRAYS or is_fetch_bound(now, part)
    return _FEWER_FETCHES if is_fetch else 1.0


def _saved_by_cores(now: Situation, part: Breakdown, cores: int) -> float:
    """Return the share of a step that all cores save of a serial stage which computes: the work of
    the map and of the step on a CPU stays, the map's as its busy time, in six pairs 0.95 to 1.07 of
    it, and the step's as that of one core.

    Where the wait is less than half of it, the step may use more: TensorFlow's threads also spin
    while they wait for work, so the idle cores say how much is saved at least.
    """
    if now.others.matters:
        return _SHARED * (1 - 1 / cores)
    of_map_ms = min(now.stages.all_ms, part.step.mean) if now.stages else 0.0
    of_step_ms = 0.0 if now.manifest.accelerated else part.work_mean_ms
    saved = 1 - (of_map_ms + of_step_ms) / (cores * part.step.mean)
    if part.wait_share < 1 / 2 and not math.isnan(now.cores_free):
        saved = min(saved, now.cores_free / cores)
    return max(_LEAST_SHARED, saved)

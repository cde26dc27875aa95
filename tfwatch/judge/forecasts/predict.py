"""The step after a switch to a setting that the run has not measured, by a model of the batch
supply.

A batch takes D ms to prepare, of which maps may share a part among workers; a step takes W ms of
copy, compute and host. Without a prefetch a step takes D + W, with one the longer of the two, since
a batch is prepared while the step before it runs. That held within 5 % on an H200 with loaders of 5
to 40 ms and steps of 13.4 ms (docs/developers/results.md). The model is applied before and after
the switch, and its difference added to the measured step. The interval grows with the doubt about
D.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tfwatch.core.knobs import (
    CACHE,
    DEVICE_PREFETCH,
    MULTIPROCESSING,
    OFF,
    PINNED,
    PREFETCH,
    PY_DATASET_KNOBS,
    WORKERS,
)
from tfwatch.judge.effects.comparison import LEAST
from tfwatch.judge.stages import FETCH_MS
from tfwatch.judge.steps.steady_steps import MODERATELY_FROM

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfwatch.judge.forecasts.evidence import Evidence
    from tfwatch.judge.steps.steady_steps import Breakdown
    from tfwatch.runs.format import Manifest

#: A buffer size that TensorFlow chooses counts as this many batches.
_AUTO_DEPTH = 8
_MAPS = ("Map", "ParallelMap")
#: The examples of a batch of unknown size.
_BATCH = 32
#: The share of maps in the work of a pipeline without stage figures: decoding is most of a JPEG
#: pipeline. Of the work that no stage shows, this share is in maps.
_IN_MAPS, _HIDDEN_IN_MAPS = 0.9, 0.5
#: Parallel maps take more work in total: 1.0 where they sleep, 1.3 for JPEGs decoded on both of two
#: cores.
PARALLEL_LOSS = 1.05
#: The work of a batch over its busy time in tf.data's model. Busy time is wall clock: of parallel
#: maps it includes the waits for each other.
_BUSY_BESIDE_EACH_OTHER = 0.7
#: The share of the work that remains with a cache: random augmentation runs each epoch.
_CACHED = 0.3
#: The doubt about the change of a step, as a share of it: by measured waits, by the figures of the
#: stages, where those are of parallel maps, unknown, or hidden in bursts, and of an unseen cache.
_MEASURED, _BY_STAGES, _GUESSED, _UNSEEN = 0.05, 0.1, 0.5, 0.85
#: A prefetch buffer that is fuller than this share is not the limit.
_FULL = 0.5
#: The share that a training gets of the cores that it and other programs use, as programs of one
#: priority share them. In ten pairs of epochs on two busy cores, of which it had half, a parallel
#: map of JPEGs was 1.02 times as fast.
_YIELDED = 0.5
#: The most that more workers lengthen a step on a CPU with no free core.
_CROWDED = 1.4
#: The most, the usual and the least share of the copy's saving by which pinned memory shortens a
#: step: 1.1 and 1.0 over a data set and arrays, 0.4 over a slow `PyDataset`
#: (docs/developers/results.md).
_PINNED_SAVES = (1.2, 1.0, 0.4)
#: Bytes a second. Of batches in ordinary memory 4.8 to 6.6e9 were copied on an H100 and an H200, of
#: those in pinned memory 24 to 45e9.
_ORDINARY, _PINNED = 12e9, 25e9
#: The bytes of a batch from which on these rates hold.
_LEAST_BYTES = 2 * 2**20
#: The share of waits, host and launching that a copy ahead from ordinary memory hides: with it 26
#: of 33 forecasts on three H100s are within 10 %. It is -0.3 to 1.0, and differs between runs of
#: one model: whether a copy or launching comes first is a race.
_OVERLAP = 0.25
#: The milliseconds by which epochs begin later with a prefetch to the device, whose iterator is
#: made again: 75 to 95 on an H200. From this share of a step on they are its reason.
_BEGIN_MS, _BEGINS_FROM = 80.0, 0.1
#: The most, the usual and the least share of a copy from pinned memory that one ahead hides, and
#: the milliseconds that the hand-over from its thread takes: on H200s it gains 0.6 to 1.2 ms of
#: copies of 0.9 to 1.2, and of 0.3 nothing (docs/developers/results.md).
_PINNED_HIDES, _HAND_OVER_MS = (1.4, 1.0, 0.4), 0.3


@dataclass(frozen=True, slots=True)
class Prediction:
    """A predicted typical step with its bounds, milliseconds. why: its limit; empty where it is the
    usual one. may_be_slower: a race decides, which may cost more than the switch hides."""

    step_ms: float
    low_ms: float
    high_ms: float
    why: str = ""
    may_be_slower: bool = False


def depth(value: str) -> int:
    """Return the number of batches that a prefetch or a parallel map may hold; 0 where it is
    off."""
    if value == "off":
        return 0
    return int(value) if value.isdigit() else _AUTO_DEPTH


def needed_bytes(knobs: Mapping[str, str], batch_bytes: float) -> float:
    """Return the most bytes in the buffers of a setting: those of the prefetch and of the parallel
    calls."""
    return batch_bytes * (depth(knobs.get(PREFETCH, "off")) + depth(knobs.get(WORKERS, "off")))


def predict(evidence: Evidence, split: Breakdown, settings: Mapping[str, str]) -> Prediction | str:
    """Predict the step after a switch to these settings; a sentence where that is not possible."""
    if settings.keys() & set(PY_DATASET_KNOBS) and MULTIPROCESSING in evidence.knobs:
        return "the part of a PyDataset's __getitem__ that holds the GIL is unknown"
    if copied := settings.get(PINNED, settings.get(DEVICE_PREFETCH)):
        if copied == OFF:
            return "the copy has not been timed in this run"
        in_call_ms = evidence.run.copy_in_call_ms(evidence.knobs)
        copy_ms = in_call_ms if split.copy is None else split.typical_ms(split.copy)
        if copy_ms is None:
            return "the copy of batches is not timed"
        if PINNED in settings:
            return _pinned(evidence, split, copy_ms)
        hides_all = is_pinned(evidence.knobs, evidence.run.copied_bytes, copy_ms)
        ahead = _hidden(split, copy_ms) if hides_all else _copied_ahead(split, copy_ms)
        return _with_begins(ahead, evidence.run)
    if settings.get(CACHE) == "off":
        return "the time of a batch without a cache has not been measured in this run"
    now = _as_it_runs(evidence)
    then = {**now, **{k: "auto" if v == "default" else v for k, v in settings.items()}}
    found = _by_supply(evidence, split, now, then)
    return found if isinstance(found, str) else _on_shared_cores(evidence, split, found, settings)


def _by_supply(
    evidence: Evidence, split: Breakdown, now: Mapping[str, str], then: Mapping[str, str]
) -> Prediction | str:
    parts = (split.copy, split.compute, split.host)
    work_ms = sum(split.typical_ms(part) for part in parts if part)
    now_ms = split.typical_ms(split.step)
    before = _supply(evidence, split, now)
    if before is None:
        is_more = all(then.get(knob) != "off" for knob in (PREFETCH, WORKERS) if knob in now)
        if is_more and not _starves(evidence, split):
            return Prediction(now_ms, now_ms, now_ms)
        return "the time of a batch behind its prefetch or workers is not visible"
    is_cached = then.get(CACHE) == "on" != now.get(CACHE)
    after = _cached(before, evidence) if is_cached else before
    cores = evidence.cores
    change = after.step_ms(then, work_ms, cores) - before.step_ms(now, work_ms, cores)
    # Without stages, the share of maps is a guess, which only workers depend on.
    is_guess = evidence.stages is None and now.get(WORKERS) != then.get(WORKERS)
    doubt = max(after.doubt, _GUESSED if is_guess or split.in_bursts else 0.0)
    steps = (now_ms + change * times for times in (1.0, 1 - doubt, 1 + doubt))
    step_ms, *bounds = (max(step, min(work_ms, now_ms)) for step in steps)
    return Prediction(step_ms, min(bounds), max(bounds))


def _pinned(evidence: Evidence, split: Breakdown, copy_ms: float) -> Prediction | str:
    """Predict the step whose batches are copied from pinned memory.

    A thread of the pipeline copies them there, one or two ahead, which delays a step only where it
    waits for data.
    """
    now_ms = split.typical_ms(split.step)
    saved_ms = saved_if_pinned_ms(evidence.run.copied_bytes, copy_ms)
    if not saved_ms:
        return "batches are small, or in pinned memory already"
    least_ms, step_ms, most_ms = (now_ms - share * saved_ms for share in _PINNED_SAVES)
    return Prediction(step_ms, least_ms, most_ms, "a thread copies them to pinned memory")


def bandwidth(copied_bytes: Mapping[str, int], copy_ms: float) -> float | None:
    """Return the bytes that are copied per second; None where unknown."""
    total = sum(copied_bytes.values())
    return total / copy_ms * 1e3 if total and copy_ms > 0 else None


def saved_if_pinned_ms(copied_bytes: Mapping[str, int], copy_ms: float) -> float:
    """Return the time of a copy that pinned memory saves; 0 where batches are in it, are small, or
    their size is unknown."""
    rate = bandwidth(copied_bytes, copy_ms)
    is_small = sum(copied_bytes.values()) < _LEAST_BYTES
    if rate is None or rate >= _ORDINARY or is_small:
        return 0.0
    return copy_ms * (1 - rate / _PINNED)


def is_pinned(knobs: Mapping[str, str], copied_bytes: Mapping[str, int], copy_ms: float) -> bool:
    """Return whether batches are in memory that the GPU reads directly: by the knob, or by the rate
    of a copy."""
    rate = bandwidth(copied_bytes, copy_ms)
    return knobs.get(PINNED, OFF) != OFF or (rate is not None and rate >= _ORDINARY)


def _hidden(split: Breakdown, copy_ms: float) -> Prediction:
    """Predict the step behind a prefetch to the device of batches in pinned memory.

    Their copies run beside the kernels, as far as batches come ahead of their steps.
    """
    now_ms = split.typical_ms(split.step)
    low_ms, step_ms, high_ms = (max(now_ms - share * copy_ms, 0.0) for share in _PINNED_HIDES)
    if split.wait_share >= MODERATELY_FROM:
        high_ms = now_ms
    why = "copies run beside kernels"
    return Prediction(step_ms + _HAND_OVER_MS, low_ms, high_ms + _HAND_OVER_MS, why)


def _copied_ahead(split: Breakdown, copy_ms: float) -> Prediction:
    """Predict the step behind a prefetch to the device of batches in ordinary memory.

    TensorFlow's copy waits for the kernels that are launched before it, and launching waits for a
    copy from pageable memory. So a copy overlaps with waits, host and launching, and hardly with
    kernels that compute for long. Where they are as long as the copy, the race between the two
    decides on a fifth of the step.
    """
    now_ms = split.typical_ms(split.step)
    beside = sum(split.typical_ms(part) for part in (split.dispatch, split.host, split.wait))
    least_ms = max(copy_ms, now_ms - copy_ms)
    low_ms, step_ms = (
        max(now_ms - min(share * beside, copy_ms), least_ms) for share in (1.0, _OVERLAP)
    )
    why = (
        "the copy is the limit" if step_ms < 1.5 * copy_ms else "kernels and copies hardly overlap"
    )
    return Prediction(step_ms, low_ms, now_ms, why, may_be_slower=True)


def _with_begins(found: Prediction, run: Manifest) -> Prediction:
    """Add to a step its share of what a prefetch to the device takes as an epoch begins."""
    if run.epochs == 1 or not run.steps_per_epoch:
        return found
    each_ms = _BEGIN_MS / run.steps_per_epoch
    why = found.why if each_ms < _BEGINS_FROM * found.step_ms else "it takes long as epochs begin"
    bounds = found.step_ms + each_ms, found.low_ms + each_ms, found.high_ms + each_ms
    return Prediction(*bounds, why, found.may_be_slower)


# -- the work of a batch ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Supply:
    """The work of a pipeline, milliseconds a batch."""

    #: In serial stages, and in maps, which workers share.
    serial_ms: float
    parallel_ms: float
    #: Of a map's output per batch, 1 where it makes whole batches; a map works ahead by elements.
    elements: float
    #: About a change that is computed from it, as a share.
    doubt: float

    def step_ms(self, knobs: Mapping[str, str], work_ms: float, cores: int) -> float:
        """Return the step time with `work_ms` of copy, compute and host."""
        calls = _parallel_calls(knobs, cores)
        data_ms = self.serial_ms + self.parallel_ms
        if calls:
            # The maps of one batch overlap with the serial stages of another.
            shared_ms = self.parallel_ms * PARALLEL_LOSS / min(calls, cores)
            data_ms = max(shared_ms, self.serial_ms)
        if depth(knobs.get(PREFETCH, "off")):
            return max(data_ms, work_ms)
        # Parallel maps prepare a part of the next batch ahead.
        ahead = min(calls / self.elements, 1.0)
        return data_ms + work_ms - min(ahead * data_ms, work_ms)


def _parallel_calls(knobs: Mapping[str, str], cores: int) -> int:
    """Return the number of parallel calls of a map; 0 where it is serial. tf.data uses one thread
    per core."""
    workers = knobs.get(WORKERS, "off")
    if workers == "off":
        return 0
    return int(workers) if workers.isdigit() else max(cores, 1)


def _supply(evidence: Evidence, split: Breakdown, now: Mapping[str, str]) -> _Supply | None:
    """Return the work of a batch; None where nothing shows it."""
    work = _work(evidence, split, now)
    if work is None:
        return None
    table, (work_ms, doubt) = evidence.stages, work
    elements, in_maps = float(evidence.run.batch_size or _BATCH), _IN_MAPS
    if table is not None:
        maps = [one for one in table.stages if one.kind.startswith(_MAPS) and one.busy_ms > 0]
        costliest = max(maps, key=lambda one: one.busy_ms, default=table.stages[0])
        after = table.stages[table.stages.index(costliest) :]
        # A map that is joined with its batch works ahead by batches.
        is_by_element = any("Batch" in one.kind and not one.is_map_and_batch for one in after)
        elements = elements if is_by_element else 1.0
        if table.all_ms > 0:
            shown = min(table.all_ms / work_ms, 1.0) if work_ms > 0 else 1.0
            share = sum(stage.busy_ms for stage in maps) / table.all_ms
            in_maps = share * shown + _HIDDEN_IN_MAPS * (1 - shown)
    return _Supply(work_ms * (1 - in_maps), work_ms * in_maps, elements, doubt)


def _work(
    evidence: Evidence, split: Breakdown, now: Mapping[str, str]
) -> tuple[float, float] | None:
    """Return the total work of a batch, as without parallel calls, and the doubt about it."""
    calls = _parallel_calls(now, evidence.cores)
    if not calls and not depth(now.get(PREFETCH, "off")):
        return split.typical_ms(split.wait), _MEASURED
    if calls <= 1 and _starves(evidence, split):
        return split.typical_ms(split.step), _MEASURED
    known = _from_history(evidence)
    if known is not None:
        return known, _MEASURED
    in_all = evidence.stages.all_ms if evidence.stages else math.nan
    if in_all > 0:
        return (in_all * _BUSY_BESIDE_EACH_OTHER, _GUESSED) if calls else (in_all, _BY_STAGES)
    return None


def _starves(evidence: Evidence, split: Breakdown) -> bool:
    """Return whether steps wait for batch preparation; behind a full prefetch buffer they do
    not."""
    table = evidence.stages
    if split.wait_share < MODERATELY_FROM or split.wait.mean < FETCH_MS:
        return False
    held = [
        stage.buffered / stage.buffer_size
        for stage in (table.stages if table else ())
        if stage.is_buffer and stage.buffer_size > 0 and stage.buffered >= 0
    ]
    return not held or held[-1] < _FULL


def _from_history(evidence: Evidence) -> float | None:
    """Return the work from a stretch without workers but with the current cache."""
    for knobs, split in reversed(evidence.history):
        alike = knobs.get(CACHE) == evidence.knobs.get(CACHE)
        if not alike or knobs.get(WORKERS, "off") != "off" or split.steps < LEAST:
            continue
        prefetch = knobs.get(PREFETCH, "off")
        if prefetch == "off":
            return split.typical_ms(split.wait)
        if split.wait_share >= MODERATELY_FROM and prefetch != "default":
            return split.typical_ms(split.step)
    return None


def _as_it_runs(evidence: Evidence) -> dict[str, str]:
    """Return the knobs; under `default` only the stages show prefetch and parallel calls."""
    stages = evidence.stages.stages if evidence.stages else ()
    knobs = dict(evidence.knobs)
    works = {
        PREFETCH: any(one.is_buffer for one in stages),
        WORKERS: any(one.is_parallel for one in stages),
    }
    for knob, is_on in works.items():
        if knobs.get(knob) == "default":
            knobs[knob] = "auto" if is_on or not stages else "off"
    # TensorFlow joins a map that it may not make parallel with its batch: one call at a time, and
    # ahead.
    joined = [one for one in stages if one.is_map_and_batch]
    is_joined = bool(joined) and all(one.workers == 1 for one in stages)
    if evidence.knobs.get(WORKERS) == "default" and (evidence.run.random_maps or is_joined):
        knobs[WORKERS] = "1" if joined or not stages else "off"
    return knobs


def _cached(supply: _Supply, evidence: Evidence) -> _Supply:
    """Return the supply with a full cache: the stages up to the one after which it lies do no
    work."""
    table, after = evidence.stages, evidence.run.cache_after
    names = [stage.name for stage in table.stages] if table else []
    left, doubt = _CACHED, _UNSEEN
    if table is not None and table.all_ms > 0 and names.count(after) == 1:
        above = table.stages[names.index(after) + 1 :]
        left = sum(stage.busy_ms for stage in above if stage.busy_ms > 0) / table.all_ms
        doubt = max(supply.doubt, _BY_STAGES)
    return replace(
        supply,
        serial_ms=supply.serial_ms * left,
        parallel_ms=supply.parallel_ms * left,
        doubt=doubt,
    )


# -- cores -----------------------------------------------------------------------------------------


def _on_shared_cores(
    evidence: Evidence, split: Breakdown, found: Prediction, settings: Mapping[str, str]
) -> Prediction:
    """Correct a prediction for the cores: more overlap may need more of them than there are, as
    work is conserved."""
    turned_on = {knob for knob in (PREFETCH, WORKERS) if settings.get(knob, "off") != "off"}
    now_ms, accelerated = split.typical_ms(split.step), evidence.run.accelerated
    if not turned_on:
        return found
    if found.step_ms >= now_ms:
        most_ms = now_ms * (_CROWDED if turned_on == {WORKERS} else 1.0)
        wider = replace(
            found, low_ms=min(found.low_ms, now_ms), high_ms=max(found.high_ms, most_ms)
        )
        return found if accelerated else wider
    used, free = evidence.cores_used, evidence.cores_free
    if math.isnan(used) or math.isnan(free):
        return found if accelerated else replace(found, high_ms=max(found.high_ms, now_ms))
    others = max(evidence.cores - used - free, 0.0)
    fair = max(_YIELDED * (used + others), used)
    likely_ms, worst_ms = (
        min(used * now_ms / max(most + free, 1e-3), now_ms) for most in (fair, used)
    )
    return Prediction(
        step_ms=max(found.step_ms, likely_ms),
        low_ms=found.low_ms,
        high_ms=max(found.high_ms, worst_ms),
        why="compute and data share the cores" if worst_ms > found.step_ms else found.why,
    )

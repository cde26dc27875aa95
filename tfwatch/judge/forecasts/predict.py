"""The predicted step after a switch to an unmeasured setting, from the cost of a batch and its
overlap."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core.knobs import (
    CACHE,
    DEVICE_PREFETCH,
    MULTIPROCESSING,
    PREFETCH,
    PY_DATASET_KNOBS,
    WORKERS,
)
from tfwatch.judge.effects.comparison import LEAST
from tfwatch.judge.forecasts import batch_supply
from tfwatch.judge.forecasts.batch_supply import (
    ALONE,
    BESIDE_EACH_OTHER,
    Range,
    queued,
    shared_cores,
)
from tfwatch.judge.stages import FETCH_MS
from tfwatch.judge.steps.steady_steps import MODERATELY_FROM

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from tfwatch.judge.forecasts.batch_supply import Supply
    from tfwatch.judge.forecasts.evidence import Evidence
    from tfwatch.judge.steps.steady_steps import Breakdown, Stat

#: The share that a training gets of the cores in use by other programs, as threads of one priority
#: share them.
_YIELDED = 0.5
#: Shorter waits behind a prefetch may be those of fetching alone, where the stages show less work.
_SHORT_MS = 2.0
#: A prefetch buffer that is fuller than this share is not the limit.
_FULL = 0.5
#: The most that more workers lengthen a step on a CPU with no free core: parallel decoding beside
#: compute.
_CROWDED = 1.4
#: Stages that show TensorFlow's choice for a knob left at its default.
_WORKS_AHEAD = {PREFETCH: ("Prefetch",), WORKERS: ("Parallel", "MapAndBatch")}
#: The share of waits, host and launching that a copy ahead hides: with it 26 of 33 forecasts on
#: three H100s are within 10 %. It is -0.3 to 1.0, and differs between runs of one model: whether a
#: copy or launching comes first is a race.
_OVERLAP = 0.25
_UNSEEN = {
    CACHE: "the time of a batch without a cache has not been measured in this run",
}
_PY_DATASET = "the part of a PyDataset's __getitem__ that holds the GIL is unknown"


@dataclass(frozen=True, slots=True)
class Prediction:
    """A predicted step, milliseconds: its median and mean, and the bounds of the median."""

    step_ms: float
    mean_ms: float
    low_ms: float
    high_ms: float
    why: str


def predict(
    evidence: Evidence,
    split: Breakdown,
    knob: str,
    value: str,
    together_with: Mapping[str, str],
) -> Prediction | str:
    """Predict the step after a switch of `knob` to `value`; a sentence where that is not possible.

    The difference of the formulas before and after the switch is added to the measured step.
    together_with: see `forecast`.
    """
    then = {**evidence.knobs, knob: value, **together_with}
    if knob in PY_DATASET_KNOBS and MULTIPROCESSING in evidence.knobs:
        return _PY_DATASET
    if knob == DEVICE_PREFETCH:
        return _copied_ahead(split) if value != "off" else "the copy has not been timed in this run"
    new = {
        name: "auto" if turned == "default" else turned
        for name, turned in ((knob, value), *together_with.items())
    }
    model = _model(evidence, split, knob, value)
    if isinstance(model, str):
        return model
    work_ms = _typical(split.compute) + _typical(split.host)
    changes = [
        _step_ms(after, {**runs, **new}, work_ms, evidence.cores)
        - _step_ms(before, runs, work_ms, evidence.cores)
        for before, after, runs in zip(model.before, model.after, model.runs, strict=True)
    ]
    steps = [max(split.step.median + change, min(work_ms, split.step.median)) for change in changes]
    means = [max(split.step.mean + change, work_ms) for change in changes]
    prediction = Prediction(steps[1], means[1], min(steps), max(steps), "")
    if knob == PREFETCH and not together_with:
        queue = _through_a_queue(evidence, value)
        if queue is not None:
            likely = float(np.median(queue))
            prediction = Prediction(likely, float(queue.mean()), likely, likely, "")
    return _on_shared_cores(evidence, split, prediction, then)


@dataclass(frozen=True, slots=True)
class _Model:
    """The pipeline before and after a switch, and the knobs before it, by each assumption."""

    before: Sequence[Supply]
    after: Sequence[Supply]
    runs: Sequence[Mapping[str, str]]


def _model(evidence: Evidence, split: Breakdown, knob: str, value: str) -> _Model | str:
    guesses = _guesses(evidence, split)
    turned = _turned(evidence, guesses, knob, value)
    if turned is None:
        return _UNSEEN.get(knob, "this knob has no model")
    return _Model(guesses, turned, _as_it_runs(evidence))


def _copied_ahead(split: Breakdown) -> Prediction | str:
    """Predict the step behind a prefetch to the device.

    TensorFlow's copy waits for the kernels that are launched before it, and launching waits for a
    copy from pageable memory. So a copy overlaps with waits, host and launching, and hardly with
    kernels that compute for long. Where they are as long as the copy, the race between the two
    decides on a fifth of the step.
    """
    if split.copy is None:
        return "the copy of batches is not timed"
    copy, host_side = (
        split.copy.median,
        split.dispatch.median + split.host.median + split.wait.median,
    )
    now_ms, least_ms = split.step.median, max(copy, split.step.median - copy)
    steps_ms = [
        max(now_ms - min(share * host_side, copy), least_ms) for share in (1.0, _OVERLAP, 0.0)
    ]
    saved = now_ms - steps_ms[1]
    why = (
        "the copy is the limit" if steps_ms[1] < 1.5 * copy else "kernels and copies hardly overlap"
    )
    return Prediction(steps_ms[1], split.step.mean - saved, steps_ms[0], steps_ms[2], why)


def _step_ms(made: Supply, knobs: Mapping[str, str], work_ms: float, cores: int) -> float:
    return made.step_ms(knobs.get(PREFETCH, "off"), knobs.get(WORKERS, "off"), work_ms, cores)


# -- the cost of a batch ------------------------------------------------------------------------


def _guesses(evidence: Evidence, split: Breakdown) -> tuple[Supply, ...]:
    return batch_supply.supplies(_work(evidence, split), evidence.stages, evidence.run.batch_size)


def _work(evidence: Evidence, split: Breakdown) -> Range:
    """Return the total work of a batch, as without parallel calls."""
    short, runs, _ = _as_it_runs(evidence)
    at_once = batch_supply.parallelism(runs.get(WORKERS, "off"), evidence.cores)
    starves = _starves(evidence, split)
    ahead = batch_supply.depth(runs.get(PREFETCH, "off")) > 0
    if not at_once and not ahead:
        return _exactly(_typical(split.wait))
    in_all = evidence.stages.all_ms if evidence.stages else math.nan
    if not at_once and starves and split.wait.mean < _SHORT_MS and in_all < split.step.mean / 2:
        return Range(in_all, in_all + (split.step.mean - in_all) / 4, split.step.mean)
    if not at_once and starves and short == runs:
        return _exactly(_typical(split.step))
    known = _from_history(evidence)
    if known is not None:
        return _exactly(known)
    if in_all > 0:
        return Range(*(in_all * part for part in (BESIDE_EACH_OTHER if at_once else ALONE)))
    return _unseen_work(split, max(min(at_once, evidence.cores), 1), ahead, starves)


def _starves(evidence: Evidence, split: Breakdown) -> bool:
    """Return whether steps wait for batch preparation; behind a full prefetch buffer they do
    not."""
    held = [
        stage.buffered / stage.buffer_size
        for stage in (evidence.stages.stages if evidence.stages else ())
        if stage.is_buffer and stage.buffer_size > 0 and stage.buffered >= 0
    ]
    if split.wait_share < MODERATELY_FROM or split.wait.mean < FETCH_MS:
        return False
    return not held or held[-1] < _FULL


def _unseen_work(split: Breakdown, at_once: int, ahead: bool, starves: bool) -> Range:
    """Return the work hidden by a prefetch or a parallel map: at most as much as fits into the
    step."""
    work_ms = split.work_mean_ms
    if ahead and starves:
        return Range(
            split.wait.mean, split.step.mean * (1 + at_once) / 2, split.step.mean * at_once
        )
    if ahead:
        return Range(0.0, work_ms * at_once / 2, work_ms * at_once)
    return Range(split.wait.mean, split.wait.mean * (1 + at_once) / 2, split.step.mean * at_once)


def _from_history(evidence: Evidence) -> float | None:
    """Return the work from a stretch without workers but with the current cache."""
    now = evidence.knobs
    for interval in reversed(evidence.history):
        if (
            interval.knobs.get(CACHE) != now.get(CACHE)
            or interval.knobs.get(WORKERS, "off") != "off"
            or interval.split is None
            or interval.split.steps < LEAST
        ):
            continue
        if interval.knobs.get(PREFETCH, "off") == "off":
            return _typical(interval.split.wait)
        if (
            interval.split.wait_share >= MODERATELY_FROM
            and interval.knobs.get(PREFETCH) != "default"
        ):
            return _typical(interval.split.step)
    return None


def _as_it_runs(evidence: Evidence) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Return the knobs by the three assumptions.

    Under `default` only the stages show prefetch and parallel calls.
    """
    kinds = [stage.kind for stage in evidence.stages.stages] if evidence.stages else None
    settings: tuple[dict[str, str], ...] = ({}, {}, {})
    for knob, value in evidence.knobs.items():
        guesses, is_shown = (value, value, value), value == "default"
        if is_shown and kinds is None:
            guesses = ("off", "auto", "auto")
        elif is_shown and kinds is not None:
            works = any(kind.startswith(_WORKS_AHEAD.get(knob, ())) for kind in kinds)
            guesses = ("auto", "auto", "auto") if works else ("off", "off", "off")
        for knobs, guess in zip(settings, guesses, strict=True):
            knobs[knob] = "auto" if guess == "default" else guess
    return settings[0], settings[1], settings[2]


def _turned(
    evidence: Evidence, guesses: tuple[Supply, ...], knob: str, new: str
) -> tuple[Supply, ...] | None:
    if knob == CACHE:
        return (
            batch_supply.cached(guesses, evidence.stages, evidence.run.cache_after)
            if new == "on"
            else None
        )
    return guesses


def _typical(part: Stat) -> float:
    """Return the median, which a busy second of the machine does not move; in bursts the mean."""
    return part.median if part.mean < 2 * part.median else part.mean


def _exactly(ms: float) -> Range:
    return Range(ms, ms, ms)


# -- bursts -------------------------------------------------------------------------------------


def _through_a_queue(evidence: Evidence, value: str) -> NDArray[np.float64] | None:
    """Return the steps behind a prefetch of this depth, from the measured series; None where it
    lacks them."""
    rows, depth = evidence.rows, batch_supply.depth(value)
    short, runs, _ = _as_it_runs(evidence)
    if not depth or short != runs or runs.get(WORKERS, "off") != "off" or not len(rows):
        return None
    now = batch_supply.depth(runs.get(PREFETCH, "off"))
    work = rows["compute_ms"].astype(np.float64) + rows["host_ms"]
    waits = rows["wait_ms"].astype(np.float64)
    if not now:
        return queued(waits.tolist(), work.tolist(), depth)
    hidden = _before_the_buffer(waits, work, now)
    return None if hidden is None else queued(hidden.tolist(), work.tolist(), depth)


def _before_the_buffer(
    waits: NDArray[np.float64], work: NDArray[np.float64], depth: int
) -> NDArray[np.float64] | None:
    """Return the times of batches that came in bursts behind a buffer of `depth`; None where they
    did not.

    A wait behind a full buffer is the part of a burst that `depth` steps did not overlap.
    """
    late = waits > max(float(np.median(waits)) * 4, 0.1 * float(np.median(work)))
    if not late.any() or late.mean() > 0.5 or waits[late].sum() < 0.5 * waits.sum():
        return None
    took = np.where(late, waits + depth * float(np.median(work)), 0.0)
    # Between bursts the buffer fills again: the other batches fit into the steps.
    return took


# -- cores --------------------------------------------------------------------------------------


def _on_shared_cores(
    evidence: Evidence, split: Breakdown, prediction: Prediction, then: Mapping[str, str]
) -> Prediction:
    """Correct a prediction for the cores: more overlap may need more of them than there are, as
    work is conserved."""
    turned = [
        knob
        for knob in (PREFETCH, WORKERS)
        if then.get(knob, "off") != evidence.knobs.get(knob, "off")
    ]
    if not turned:
        return prediction
    now_ms, more = split.step.median, then[turned[0]] != "off"
    if not more or prediction.step_ms >= now_ms:
        if evidence.run.accelerated:
            return prediction
        most_ms = now_ms * _CROWDED if more and turned == [WORKERS] else now_ms
        return replace(
            prediction,
            low_ms=min(prediction.low_ms, now_ms),
            high_ms=max(prediction.high_ms, most_ms),
        )
    used, free = evidence.cores_used, evidence.cores_free
    if math.isnan(used) or math.isnan(free):
        return (
            prediction
            if evidence.run.accelerated
            else replace(prediction, high_ms=max(prediction.high_ms, now_ms))
        )
    others = max(evidence.cores - used - free, 0.0)
    likely = min(shared_cores(used * now_ms, used + free + _YIELDED * others), now_ms)
    worst = min(shared_cores(used * now_ms, used + free), now_ms)
    return Prediction(
        step_ms=max(prediction.step_ms, likely),
        mean_ms=max(prediction.mean_ms, likely),
        low_ms=prediction.low_ms,
        high_ms=max(prediction.high_ms, worst),
        why="compute and data share the cores" if worst > prediction.step_ms else prediction.why,
    )

"""What to try next, by what a run loses most to: the same words on the screen and in a summary."""

from __future__ import annotations

import statistics
from bisect import bisect_left
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.analysis.findings import code_suggestions, data_wait, input_advice
from tfwatch.analysis.findings.situation import Advice
from tfwatch.analysis.steps.verdict import Bound
from tfwatch.analysis.tuning.switch_text import best, expected_gain_text
from tfwatch.core import units
from tfwatch.core.events import EpochEnded, Paused
from tfwatch.core.rows import Flag

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tfwatch.analysis.findings.data_wait import Cure
    from tfwatch.analysis.findings.situation import Situation
    from tfwatch.analysis.steps.breakdown import Breakdown
    from tfwatch.analysis.steps.time_breakdown import Entry
    from tfwatch.core.events import Event
    from tfwatch.core.rows import Rows

#: Above this share of an epoch, what lies between epochs is the finding: the line of HIGHLY.
BETWEEN_SHARE = 0.2
_LAUNCHING = Advice(
    "Nothing to gain from the pipeline: compile(steps_per_execution=8), jit_compile=True or larger batches",
    code_suggestions.FEWER_LAUNCHES,
)
_AS_GRAPH = Advice(
    "Run the step as a graph: tf.function, or fit without run_eagerly (here: without --eager)", code_suggestions.GRAPH
)
#: Measured on two cores: a batch eight times as large took a quarter of the fetch an image; eight steps a call left the
#: fetch as it was, and made a step of 0.8 ms one of 0.3.
_FETCHING = Advice(
    "larger batches are fetched less often; compile(steps_per_execution=8) shortens steps; the buffer is full: what is "
    "waited is the fetch itself",
    code_suggestions.SHARED_CALLS,
)
_VALIDATION = Advice(
    "validate less often or on less: validation_freq=2, validation_steps; or longer epochs",
    code_suggestions.VALIDATE_LESS,
)
_SHUFFLE = Advice(
    "longer epochs (.repeat() with steps_per_epoch), or a smaller shuffle buffer, which fills sooner",
    code_suggestions.ONE_ITERATOR,
)
#: A callback is what steps are bound by where it takes this share of what follows a step, so many times; what takes
#: this share of an epoch's end is named too.
_MOST = 0.5
_TIMES = 3
#: A callback's part of an epoch's end lies this near to Watch's own.
_NEAR_NS = 100_000_000


def next_step(bound: Bound, compute_share: str, *, accelerated: bool, op_by_op: bool = False) -> Advice:
    """For steps that neither starve nor wait for callbacks. `compute_share`: of compute in a step, in words."""
    if op_by_op:
        return _AS_GRAPH
    if bound is Bound.LAUNCH:
        return _LAUNCHING
    faster = "mixed precision or jit_compile cut" if accelerated else "a smaller model or a GPU cut"
    sentence = f"Nothing to gain from the pipeline: {faster} compute ({compute_share} of a step)"
    return Advice(sentence, code_suggestions.PRECISION if accelerated else "")


def called_less(part: Breakdown) -> Advice:
    """For steps that wait for callbacks: what follows a call is shared by its steps where calls are longer."""
    saved_ms = part.host.mean * (1 - 1 / code_suggestions.STEPS_PER_EXECUTION)
    longer = f"compile(steps_per_execution={code_suggestions.STEPS_PER_EXECUTION})"
    figure = f"about {units.milliseconds(part.step.mean - saved_ms)} a step"
    return Advice(f"{longer}: {figure}; or log and save less often, larger batches", code_suggestions.LONGER_CALLS)


def starving(now: Situation, part: Breakdown) -> Advice:
    """For a device that waits: the key that helps most where keys are obeyed, else the edit, each with its number."""
    if data_wait.only_fetched(now, part):
        return _FETCHING
    cure = data_wait.cure(now, part)
    if "prefetch" not in now.switchable or not (cure.turn or "workers" in now.switchable) or now.origin.has_no_pipeline:
        return _in_a_script(now, cure)
    edit = _with_switched(now, *cure.turn) if cure.turn else ""
    return Advice(cure.sentence if now.live else _without_keys(now, part, cure), edit)


def _in_a_script(now: Situation, cure: Cure) -> Advice:
    """Where no knob helps, or what helps here cannot be written there: a `PyDataset` has no prefetch."""
    found = input_advice.to_lessen(now)
    if not now.live:
        return Advice(f"{found.sentence}{_limit(now)}", found.edit)
    if "prefetch" not in now.switchable:
        return Advice(f"{found.sentence}; it cannot be switched live", found.edit)
    return Advice(cure.sentence if cure.turn else f"{found.sentence}; no key helps", found.edit)


def _limit(now: Situation) -> str:
    """`; map(decode) runs one at a time on one of 8 cores: 21.0 ms a batch`; empty where no stage is the limit."""
    place = now.stages.bottleneck if now.stages else None
    return f"; {place.sentence}" if place else ""


def _with_switched(now: Situation, knob: str, value: str) -> str:
    """The line of the switch that is advised, among those of the switches that were made here."""
    written = code_suggestions.pasted({**now.knobs, knob: value}, now.started, now.stages, now.fast_form)
    return written or code_suggestions.turned(knob, value, now.stages, now.fast_form)


def _without_keys(now: Situation, part: Breakdown, cure: Cure) -> str:
    """`num_parallel_calls=8: about 13.8 ms, 1.7 x (...); map(decode) runs one at a time on one of 8 cores: ...`.

    What to do stands first: where a line is short, its end is cut.
    """
    limit = _limit(now)
    told = best(now.forecasts.values())
    if told is not None:
        return f"{code_suggestions.phrase(told.knob, told.value, now.fast_form)}: {expected_gain_text(told)}{limit}"
    if dear := data_wait.over_limit(now):
        return f"{dear}: make batches cheaper, or allow more{limit}"
    prefetch = now.knobs.get("prefetch", "default")
    work = units.milliseconds(part.work_mean_ms)
    if prefetch == "off" and cure.turn and cure.turn[0] == "prefetch":
        return f"prefetch makes batches during the {work} of work in a step{limit}"
    if prefetch == "default":
        return f"{input_advice.GENERAL.sentence}{limit}"
    return f"prefetch cannot hide it: {input_advice.CHEAPER}{limit}"


def between_parts(spent: Entry) -> dict[str, float]:
    """Seconds between epochs by what they went to, the longest first; what is less than a tenth is left out."""
    parts = {"validation": spent.validation_s, "first batch": spent.first_batch_s, "epoch's end": spent.epoch_end_s}
    told = sorted((part for part in parts if parts[part] >= 0.1 * spent.between_s), key=lambda part: -parts[part])
    return {part: parts[part] for part in told}


def between_next(now: Situation, spent: Entry) -> Advice:
    """For epochs that lose most between them."""
    part = next(iter(between_parts(spent)))
    if part == "epoch's end":
        return _at_the_end(now, spent)
    if part == "validation":
        return _VALIDATION
    return _SHUFFLE if now.fills else input_advice.to_go_on(now)


def _at_the_end(now: Situation, spent: Entry) -> Advice:
    held = now.held_end
    if held is None or held.took_ms < _MOST * spent.epoch_end_s * 1e3:
        longer = input_advice.to_go_on(now)
        return Advice(f"{longer.sentence}, or less in on_epoch_end", longer.edit)
    if held.cause == "checkpoint":
        return Advice(f"save less often ({held.detail}), or longer epochs", code_suggestions.SAVE_LESS)
    return Advice(f"do less in {held.detail}.on_epoch_end, or longer epochs")


def held_end(events: Iterable[Event]) -> Paused | None:
    """The callback that was seen to take most of the epochs' ends, with its milliseconds of one; None: none was seen.

    Only callbacks of 15 ms or more are told of.
    """
    events = list(events)
    ends = [event.at_ns for event in events if isinstance(event, EpochEnded)]
    took: dict[tuple[str, str], float] = {}
    for event in events:
        if isinstance(event, Paused) and event.cause in ("callback", "checkpoint") and _is_near(event, ends):
            took[event.cause, event.detail] = took.get((event.cause, event.detail), 0.0) + event.took_ms
    if not took:
        return None
    cause, name = max(took, key=lambda one: took[one])
    return Paused(ends[-1], cause, took[cause, name] / len(ends), name)


def _is_near(pause: Paused, ends: list[int]) -> bool:
    """Whether an epoch ended during a pause, or just before or after it; `ends` in their order."""
    at = bisect_left(ends, pause.at_ns - round(pause.took_ms * 1e6) - _NEAR_NS)
    return at < len(ends) and ends[at] <= pause.at_ns + _NEAR_NS


def fills_shuffle(rows: Rows) -> bool:
    """Whether a shuffle buffer was seen to be filled before an epoch's first batch."""
    both = np.uint16(Flag.SHUFFLE_FILL | Flag.EPOCH_START)
    return bool(((rows["flags"] & both) == both).any())


def slow_callback(pauses: Iterable[Paused], host_ms: float) -> str:
    """The class of the callback that takes most of the `host_ms` of a step; empty where none is known to.

    Only callbacks of 15 ms or more are told of.
    """
    took: dict[str, list[float]] = {}
    for pause in pauses:
        if pause.cause in ("callback", "checkpoint"):
            took.setdefault(pause.detail, []).append(pause.took_ms)
    usual = {name: statistics.median(times) for name, times in took.items() if len(times) >= _TIMES}
    best = max(usual, key=lambda name: usual[name], default="")
    return best if best and usual[best] >= _MOST * host_ms else ""

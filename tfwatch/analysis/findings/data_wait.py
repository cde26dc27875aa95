"""What is said about a device that waits: how much, why, and what would help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.analysis.findings.bottleneck import FETCH_MS
from tfwatch.analysis.tuning.switch_text import best, expected_gain_text, has_expected_gain, has_usable_gain
from tfwatch.core import units
from tfwatch.core.knobs import KEYS, epochs_until, knob_name

if TYPE_CHECKING:
    from tfwatch.analysis.findings.situation import Situation
    from tfwatch.analysis.steps.breakdown import Breakdown, Stat
    from tfwatch.analysis.tuning.forecast import Forecast
    from tfwatch.core.events import StallLocated

_PREFETCH, _WORKERS, _FAST_FORM = ("prefetch", "auto"), ("workers", "auto"), ("fast_form", "on")


def press(told: Forecast, now: str, form: str = "") -> str:
    """`p prefetch on`, `+ depth 2 -> 4`, `w workers auto`: a key and what it asks for; the knob stands at `now`."""
    if told.knob == "prefetch" and "off" not in (now, told.value):
        deeper = not (now.isdigit() and told.value.isdigit()) or int(told.value) > int(now)
        return f"{'+' if deeper else '-'} depth {now} -> {told.value}"
    value = "on" if told.knob == "prefetch" and told.value != "off" else told.value
    return f"{KEYS.get(told.knob, '')} {knob_name(told.knob, form)} {value}".strip()


def share(part: Breakdown | None) -> float:
    """Data wait over step time; 0 where nothing was measured."""
    return part.wait_share if part else 0.0


def waits(now: Situation, part: Breakdown) -> str:
    """`the GPU waits 9.6 of 23.4 ms a step`."""
    return f"{now.device} waits {of_a_step(part.wait, part.step)}"


def of_a_step(part: Stat, step: Stat) -> str:
    """`9.6 of 23.4 ms a step`: means, for their ratio is the share told beside them, and that of medians is not."""
    return f"{' of '.join(units.in_one_unit(part.mean, step.mean))} a step"


def only_fetched(now: Situation, part: Breakdown) -> bool:
    """Whether batches are ready, and what is waited is what fetching one takes: not where a few steps wait for many."""
    alike = part.wait.mean < FETCH_MS or part.wait.median >= part.wait.mean / 2
    return alike and now.stages is not None and now.stages.is_ahead(part.work_mean_ms)


def starves(now: Situation, part: Breakdown) -> str:
    """`a batch takes 22.3 ms, a step's work 13.8` where a prefetch hides it in no step; else how long it waits."""
    ahead = now.knobs.get("prefetch", "default") not in ("off", "default")
    if not ahead or part.wait.median < part.wait.mean / 2 or only_fetched(now, part):
        return waits(now, part)
    work = units.number(part.work_mean_ms)
    return f"a batch takes {units.milliseconds(part.step.mean)}, a step's work {work}"


@dataclass(frozen=True, slots=True)
class Cure:
    """What to try next against a starving device, and the knob and its value that say so; None where no knob helps."""

    sentence: str
    turn: tuple[str, str] | None = None


def cure(now: Situation, part: Breakdown) -> Cure:
    """What to try next where keys are obeyed; a figure is promised where there is a forecast."""
    told = best(now.forecasts.values())
    if told is not None:
        return Cure(_foretold(now, told), (told.knob, told.value))
    if any(one.is_known for one in now.forecasts.values()):
        return Cure(_nothing_helps(now))
    return _unforetold(now, part)


def _unforetold(now: Situation, part: Breakdown) -> Cure:
    work = units.milliseconds(part.work_median_ms)
    prefetches = now.knobs.get("prefetch", "off") != "off"
    if "fast_form" in now.switchable and now.knobs.get("fast_form") == "off":
        cheaper = f"t turns the fast pipeline on ({now.fast_form})"
        if prefetches:
            return Cure(f"prefetch is on and cannot hide it all: {cheaper}", _FAST_FORM)
        if part.wait.median > part.work_median_ms:
            return Cure(f"{cheaper}; prefetch can hide {work} at most", _FAST_FORM)
    if not prefetches:
        return Cure(f"p turns prefetch on: batches are made during the {work} of work in a step", _PREFETCH)
    if "workers" in now.switchable and now.knobs.get("workers", "off") == "off":
        return Cure("prefetch is on and cannot hide it all: w makes batches on several cores", _WORKERS)
    if now.knobs.get("latency_ms", "off") != "off":
        return Cure("l turns the simulated latency off: it is the limit; prefetch and workers are on")
    return Cure(
        "+ a deeper buffer evens out bursts; prefetch is on and cannot hide it: reading or decoding is the limit"
    )


def _foretold(now: Situation, told: Forecast) -> str:
    stands = now.knobs.get(told.knob, "off")
    advice = f"{press(told, stands, now.fast_form)}: {expected_gain_text(told)}"
    if told.knob == "cache":
        advice = f"{advice}; {_cache_costs(now, told)}"
    hidden = told.knob != "prefetch" and now.knobs.get("prefetch", "off") != "off"
    return f"prefetch is on and cannot hide it. {advice}" if hidden else advice


def _cache_costs(now: Situation, told: Forecast) -> str:
    """`from epoch 3, needs 4.1 of 6.2 GB free`."""
    begins = f"from epoch {now.epoch + 1 + epochs_until('cache', 'on')}"
    if told.needs_bytes is None or now.memory is None:
        return begins
    return f"{begins}, needs {units.memory(told.needs_bytes)} of {units.memory(now.memory.available)} free"


def _nothing_helps(now: Situation) -> str:
    """Every key is foretold, and none promises anything."""
    faster = next((one for key, one in now.forecasts.items() if key == ("latency_ms", "off") and has_usable_gain(one)), None)
    if faster is not None:
        stands = now.knobs.get("latency_ms", "off")
        return f"the simulated latency is the limit. {press(faster, stands)}: {expected_gain_text(faster)}"
    if dear := over_limit(now):
        return f"{dear}; no other key helps"
    place = now.stages.bottleneck if now.stages else None
    return f"no key helps: {place.sentence if place else 'making batches is the limit'}"


def over_limit(now: Situation) -> str:
    """`prefetch 4 needs 1.5 MB, more than the memory limit`; empty where that forbids nothing that would help."""
    dear = next((one for one in now.forecasts.values() if one.beyond_limit and has_expected_gain(one)), None)
    return (
        f"{knob_name(dear.knob)} {dear.value} needs {units.memory(dear.needs_bytes)}, more than the memory limit"
        if dear
        else ""
    )


def stall_sentence(now: Situation) -> str:
    """Where a stall stands."""
    filling = shuffle_words(now)
    if filling:
        return f"Step {units.count(now.step)} waits: {filling}."
    if now.located:
        return f"Step {units.count(now.step)} waits {_where(now, now.located)}."
    if now.epoch_begins:
        return f"Step {units.count(now.step)} waits for the first batch of epoch {now.epoch + 1}."
    return f"Step {units.count(now.step)} waits for its batch: the input pipeline has handed out none."


def _where(now: Situation, located: StallLocated) -> str:
    """`in from_generator(rows), at feed.py:41 in rows: nothing from it for 20.3 s`: a short line loses its end."""
    if not located.stage:
        return "for its batch" + (f": the {located.thread} stands at {located.place}" if located.place else "")
    # Where a stage of tf.data's is known, the training only stands in the fetch.
    place = f", at {located.place}" if located.place and located.thread == "generator" else ""
    return f"in {located.stage}{place}: nothing from it for {units.seconds(now.now_s - located.since_ns / 1e9)}"


def stall_advice(now: Situation) -> str:
    """What can be done while it lasts."""
    if not now.live:
        return "Read only: switches are made where it trains."
    if now.asked:
        knob, new = next(reversed(list(now.asked.items())))
        return f"Asked: {knob_name(knob)} {new}; it waits for the batch in flight. q is safe."
    return "No key helps while a fetch blocks. The training process answers; q is safe."


def shuffle_words(now: Situation) -> str:
    """`filling the shuffle buffer, 4 298 of 50 000`; empty where it does not fill."""
    if now.shuffle is None:
        return ""
    done, size = now.shuffle
    return f"filling the shuffle buffer, {units.count(done)} of {units.count(size)}"

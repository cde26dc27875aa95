"""The sentences about data wait: how long a step waits, why, and which switch helps."""

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


def key_text(forecast: Forecast, current: str, form: str = "") -> str:
    """Return a key and the setting that it requests: `p prefetch on`, `+ depth 2 → 4`, `w workers auto`."""
    knob, value = forecast.knob, forecast.value
    if knob == "prefetch" and "off" not in (current, value):
        deeper = not (current.isdigit() and value.isdigit()) or int(value) > int(current)
        return f"{'+' if deeper else '-'} depth {current} → {value}"
    value = "on" if knob == "prefetch" and value != "off" else value
    return f"{KEYS.get(knob, '')} {knob_name(knob, form)} {value}".strip()


def share(part: Breakdown | None) -> float:
    """Return data wait over step time; 0 where nothing was measured."""
    return part.wait_share if part else 0.0


def of_step(part: Stat, step: Stat) -> str:
    """Return `9.6 of 23.4 ms`, the means: their ratio is the share beside them, the ratio of medians is not."""
    return " of ".join(units.in_one_unit(part.mean, step.mean))


def is_fetch_bound(now: Situation, part: Breakdown) -> bool:
    """Return True if batches are ready and the data wait is the fetch itself, not a few long waits."""
    alike = part.wait.mean < FETCH_MS or part.wait.median >= part.wait.mean / 2
    return alike and now.stages is not None and now.stages.is_ahead(part.work_mean_ms)


def wait_sentence(now: Situation, part: Breakdown) -> str:
    """Return `each step waits 9.6 of 23.4 ms for data`; with prefetch on, the time of a batch instead."""
    prefetches = now.knobs.get("prefetch", "default") not in ("off", "default")
    if not prefetches or part.wait.median < part.wait.mean / 2 or is_fetch_bound(now, part):
        return f"each step waits {of_step(part.wait, part.step)} for data"
    batch, work = units.milliseconds(part.step.mean), units.milliseconds(part.work_mean_ms)
    return f"a batch takes {batch}, compute and host only {work}"


@dataclass(frozen=True, slots=True)
class SwitchAdvice:
    """The switch to try against data wait; `setting` is its knob and value, None where no switch helps."""

    sentence: str
    setting: tuple[str, str] | None = None


def advise_switch(now: Situation, part: Breakdown) -> SwitchAdvice:
    """Advise a switch on a live screen; the sentence holds a number where there is a forecast."""
    forecast = best(now.forecasts.values())
    if forecast is not None:
        return SwitchAdvice(_forecast_advice(now, forecast), (forecast.knob, forecast.value))
    if any(one.is_known for one in now.forecasts.values()):
        return SwitchAdvice(_no_switch_helps(now))
    return _advise_without_forecast(now, part)


def _advise_without_forecast(now: Situation, part: Breakdown) -> SwitchAdvice:
    work = units.milliseconds(part.work_median_ms)
    prefetches = now.knobs.get("prefetch", "off") != "off"
    if "fast_form" in now.switchable and now.knobs.get("fast_form") == "off":
        cheaper = f"t turns the fast pipeline on ({now.fast_form})"
        if prefetches:
            return SwitchAdvice(f"prefetch is on and cannot hide all of the wait: {cheaper}", _FAST_FORM)
        if part.wait.median > part.work_median_ms:
            return SwitchAdvice(f"{cheaper}; prefetch can hide {work} at most", _FAST_FORM)
    if not prefetches:
        return SwitchAdvice(
            f"p turns prefetch on: it prepares batches during the {work} of compute and host", _PREFETCH
        )
    if "workers" in now.switchable and now.knobs.get("workers", "off") == "off":
        return SwitchAdvice(
            "prefetch is on and cannot hide all of the wait: w prepares batches on several cores", _WORKERS
        )
    if now.knobs.get("latency_ms", "off") != "off":
        return SwitchAdvice("l turns the simulated latency off: it is the limit; prefetch and workers are on")
    return SwitchAdvice(
        "+ a deeper buffer evens out bursts; prefetch is on and cannot hide the wait: reading or decoding is the limit"
    )


def _forecast_advice(now: Situation, forecast: Forecast) -> str:
    current = now.knobs.get(forecast.knob, "off")
    advice = f"{key_text(forecast, current, now.fast_form)}: {expected_gain_text(forecast)}"
    if forecast.knob == "cache":
        advice = f"{advice}; {_cache_costs(now, forecast)}"
    prefetches = forecast.knob != "prefetch" and now.knobs.get("prefetch", "off") != "off"
    return f"prefetch is on and cannot hide the wait. {advice}" if prefetches else advice


def _cache_costs(now: Situation, forecast: Forecast) -> str:
    """Return `from epoch 3, needs 4.1 of 6.2 GB free`."""
    begins = f"from epoch {now.epoch + 1 + epochs_until('cache', 'on')}"
    if forecast.needs_bytes is None or now.memory is None:
        return begins
    return f"{begins}, needs {units.memory(forecast.needs_bytes)} of {units.memory(now.memory.available)} free"


def _no_switch_helps(now: Situation) -> str:
    """Return the reason why no switch helps, where every switch has a forecast and none an expected gain."""
    faster = next(
        (one for key, one in now.forecasts.items() if key == ("latency_ms", "off") and has_usable_gain(one)), None
    )
    if faster is not None:
        current = now.knobs.get("latency_ms", "off")
        return f"the simulated latency is the limit. {key_text(faster, current)}: {expected_gain_text(faster)}"
    if over_limit := memory_limit_text(now):
        return f"{over_limit}; no other key helps"
    place = now.stages.bottleneck if now.stages else None
    return f"no key helps: {place.sentence if place else 'preparing batches is the limit'}"


def memory_limit_text(now: Situation) -> str:
    """Return `prefetch 4 needs 1.5 MB, more than the memory limit`; empty where the limit excludes no useful switch."""
    useful = (one for one in now.forecasts.values() if one.is_over_memory_limit and has_expected_gain(one))
    needs = (f"{knob_name(one.knob)} {one.value} needs {units.memory(one.needs_bytes)}" for one in useful)
    return next((f"{words}, more than the memory limit" for words in needs), "")


def stall_sentence(now: Situation) -> str:
    """Return the place of a stall."""
    filling = shuffle_fill_text(now)
    if filling:
        return f"Step {units.count(now.step)} waits: {filling}."
    if now.located:
        return f"Step {units.count(now.step)} waits {_where(now, now.located)}."
    if now.epoch_begins:
        return f"Step {units.count(now.step)} waits for the first batch of epoch {now.epoch + 1}."
    return f"Step {units.count(now.step)} waits for its batch: the input pipeline has delivered none."


def _where(now: Situation, located: StallLocated) -> str:
    """Return `in from_generator(rows), at feed.py:41 in rows: no output for 20.3 s`; a narrow row cuts the end."""
    if not located.stage:
        return "for its batch" + (f": the {located.thread} is at {located.place}" if located.place else "")
    # Where the stage is known, the training thread is only in the fetch.
    place = f", at {located.place}" if located.place and located.thread == "generator" else ""
    return f"in {located.stage}{place}: no output for {units.seconds(now.now_s - located.since_ns / 1e9)}"


def stall_advice(now: Situation) -> str:
    """Return the advice during a stall."""
    if not now.live:
        return "Read only: switch on the screen of the training itself."
    if now.asked:
        knob, new = next(reversed(list(now.asked.items())))
        return f"Requested: {knob_name(knob)} {new}; it waits for the current batch. q is safe."
    return "No key helps while a fetch blocks; the training process responds, q is safe."


def shuffle_fill_text(now: Situation) -> str:
    """Return `filling the shuffle buffer, 4 298 of 50 000`; empty where it does not fill."""
    if now.shuffle is None:
        return ""
    done, size = now.shuffle
    return f"filling the shuffle buffer, {units.count(done)} of {units.count(size)}"

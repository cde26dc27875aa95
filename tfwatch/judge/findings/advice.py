"""The advice for the largest loss of a run, and the sentences about data wait, on the screen and in
a summary."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.knobs import (
    CACHE,
    KNOBS,
    MULTIPROCESSING,
    ON,
    PREFETCH,
    WORKERS,
    epochs_until,
    knob_name,
)
from tfwatch.judge.effects.knob_state import deeper
from tfwatch.judge.effects.wording import expected_gain_text
from tfwatch.judge.findings import code_suggestions, input_advice
from tfwatch.judge.findings.finding import Advice
from tfwatch.judge.findings.situation import SourceKind
from tfwatch.judge.forecasts.forecast import best
from tfwatch.judge.stages import FETCH_MS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfwatch.core.events import StallLocated
    from tfwatch.judge.findings.situation import Situation
    from tfwatch.judge.forecasts.forecast import Forecast
    from tfwatch.judge.steps.steady_steps import Breakdown, Stat

#: Measured on two cores: a batch eight times as large took a quarter of the fetch time per example;
#: eight steps per execution left the fetch unchanged and shortened a step from 0.8 to 0.3 ms.
_FETCHING = Advice(
    "larger batches need fewer fetches; compile(steps_per_execution=8) shortens steps; the buffer"
    " is full, so the data wait is the fetch itself",
    code_suggestions.SHARED_CALLS,
)
_FETCHING_IN_LOOP = Advice(
    "larger batches need fewer fetches; the buffer is full, so the data wait is the fetch itself",
)
_PREFETCH, _WORKERS = (PREFETCH, "auto"), (WORKERS, "auto")


def advise_starving(now: Situation, part: Breakdown) -> Advice:
    """Advise on a starving device: the key that helps most on a live screen, else the edit, each
    with its number."""
    if is_fetch_bound(now, part):
        return advise_gain(now) or _advise_fetch(now)
    return _advise_wait(now, part)


def _advise_fetch(now: Situation) -> Advice:
    if now.has_own_loop:
        return beside_switches(now, _FETCHING_IN_LOOP)
    is_arrays = now.origin.kind is SourceKind.ARRAYS
    advice = replace(_FETCHING, edit=code_suggestions.CALLS_ON_ARRAYS) if is_arrays else _FETCHING
    return beside_switches(now, advice)


def _advise_wait(now: Situation, part: Breakdown) -> Advice:
    switch = advise_switch(now, part)
    lines = _advise_lines(now, part, switch)
    if now.live:
        return _py_dataset_advice(now, lines) or Advice(_key_text(now, switch, lines), lines.edit)
    # The advice comes first: a narrow row cuts the end.
    return Advice(f"{lines.sentence}{_limit(now)}", lines.edit)


def _key_text(now: Situation, switch: SwitchAdvice, lines: Advice) -> str:
    """Return the advice on a live screen: the key, or why there is none."""
    switchable = now.manifest.switchable
    if switch.setting and switch.setting[0] in switchable:
        return switch.sentence
    if PREFETCH not in switchable:
        return f"{lines.sentence}; this pipeline cannot be switched live"
    if now.origin.has_no_pipeline or WORKERS not in switchable:
        return f"{lines.sentence}; no key helps"
    return switch.sentence


def _advise_lines(now: Situation, part: Breakdown, switch: SwitchAdvice) -> Advice:
    """Advise the lines of the script to change, e.g. `num_parallel_calls=8: about 13.8 ms, 1.7 x
    (...)`."""
    forecast = best(now.setting.forecasts.values())
    edit = edit_with_switch(now, *switch.setting) if switch.setting else ""
    cheaper = _advise_cheaper_batches(now)
    is_fixed = now.origin.has_no_pipeline or PREFETCH not in now.manifest.switchable
    if is_fixed or comes_before_forecast(now, forecast):
        return cheaper
    if forecast is not None:
        return Advice(_forecast_phrase(now, forecast), edit)
    if over_limit := memory_limit_text(now):
        return Advice(f"{over_limit}: make batches cheaper, or raise the limit", edit)
    if switch.setting == _PREFETCH and now.setting.knobs.get(PREFETCH) == "off":
        work = units.milliseconds(part.work_mean_ms)
        return Advice(f"prefetch prepares batches during the {work} of compute and host", edit)
    return Advice(cheaper.sentence, edit or cheaper.edit)


def advise_gain(now: Situation) -> Advice | None:
    """Advise the switch that its row shows as the largest gain; None where no switch is forecast to
    gain.

    It comes before any advice that calls the input pipeline not the limit: data and compute may
    share the cores.
    """
    forecast = best(now.setting.forecasts.values())
    if forecast is None:
        return None
    sentence = _forecast_advice(now, forecast) if now.live else _forecast_phrase(now, forecast)
    return Advice(sentence, edit_with_switch(now, forecast.knob, forecast.value))


def _py_dataset_advice(now: Situation, advice: Advice) -> Advice | None:
    """Return the keys that give a `PyDataset` workers, or make them processes; None where it has
    both, or no keys."""
    processes = (
        MULTIPROCESSING in now.manifest.switchable
        and now.setting.knobs.get(MULTIPROCESSING) == "off"
    )
    if MULTIPROCESSING not in now.setting.knobs or WORKERS not in now.manifest.switchable:
        return None
    if now.setting.knobs.get(WORKERS) == "off":
        keys = "w and m" if processes and input_advice.computes(now) else "w"
        return Advice(f"{keys}, from the next epoch: {advice.sentence}", advice.edit)
    return (
        Advice(f"m makes the workers processes from the next epoch; {advice.sentence}", advice.edit)
        if processes
        else None
    )


def _limit(now: Situation) -> str:
    """Return `; map(decode) runs serially on one of 8 cores: 21.0 ms/batch`; empty where no stage
    is the limit."""
    place = now.setting.stages.bottleneck if now.setting.stages else None
    return f"; {place.sentence}" if place else ""


def edit_with_switch(now: Situation, knob: str, value: str) -> str:
    """Return the line of the advised switch, among those of the switches already made."""
    if (knob, value) in now.better:
        return ""
    knobs = {**proved_knobs(now), knob: value}
    return lines_of(now, knobs) or code_suggestions.switch_line(
        knob, value, now.setting.stages, now.manifest.code
    )


def proved_knobs(now: Situation) -> dict[str, str]:
    """Return the fastest measured settings; a switch that is not proved faster counts as not made,
    and so does the setting that a block of an A/B test has."""
    start, proved = now.manifest.knobs, {(knob, value) for (knob, _), value in now.better.items()}
    tested = now.experiment.began if now.experiment else None
    knobs = {}
    for knob, value in now.setting.knobs.items():
        settings = tested.values if tested and tested.knob == knob else (value,)
        best = (code_suggestions.best_measured(knob, one, now.better) for one in settings)
        known = start.get(knob, value)
        knobs[knob] = next((one for one in best if (knob, one) in proved), known)
    return knobs


def lines_of(now: Situation, knobs: Mapping[str, str]) -> str:
    """Return the lines of Python for these knobs where they differ from those of the start."""
    return code_suggestions.pasted_lines(
        knobs, now.manifest.knobs, now.setting.stages, now.better, code=now.manifest.code
    )


def _advise_cheaper_batches(now: Situation) -> Advice:
    advice = input_advice.advise_data_wait(now)
    # The lines for a `PyDataset` set all that its switches do.
    return advice if MULTIPROCESSING in now.setting.knobs else beside_switches(now, advice)


def beside_switches(now: Situation, advice: Advice) -> Advice:
    """Return advice that is no switch, with the lines of the switches already made before its
    own."""
    lines = (*lines_of(now, proved_knobs(now)).split("\n"), *advice.edit.split("\n"))
    return Advice(advice.sentence, "\n".join(dict.fromkeys(filter(None, lines))))


def comes_before_forecast(now: Situation, forecast: Forecast | None) -> bool:
    """Return True where the cause is known, and no switch is sure to gain: a stage that runs
    serially, of which no switch was forecast, or any other one."""
    place = now.setting.stages.bottleneck if now.setting.stages else None
    if place is None or forecast is None or forecast.knob == WORKERS:
        return False
    return place.reason == "serial" or not forecast.is_sure


def _forecast_phrase(now: Situation, forecast: Forecast) -> str:
    """Return `num_parallel_calls=8: 23.4 to about 13.8 ms, 1.7 x (...)`."""
    phrase = code_suggestions.switch_phrase(forecast.knob, forecast.value)
    return f"{phrase}: {expected_gain_text(forecast)}"


# -- data wait -----------------------------------------------------------------------------------


def key_text(forecast: Forecast, current: str) -> str:
    """Return a key and the setting that it requests: `p prefetch on`, `+ depth 2 → 4`, `w workers
    auto`.

    From off, `p` requests the last depth that was on, and `+` the least one.
    """
    knob, value = forecast.knob, forecast.value
    is_least = current == "off" and value == deeper("off")
    if knob == PREFETCH and (is_least or "off" not in (current, value)):
        is_deeper = not (current.isdigit() and value.isdigit()) or int(value) > int(current)
        return f"{'+' if is_deeper else '-'} depth {current} → {value}"
    value = "on" if knob == PREFETCH and value != "off" else value
    return f"{KNOBS[knob].key} {knob_name(knob)} {value}".strip()


def of_step(part: Stat, step: Stat) -> str:
    """Return `9.6 of 23.4 ms`, the means: their ratio is the share beside them, the ratio of
    medians is not."""
    return " of ".join(units.in_one_unit(part.mean, step.mean))


def is_fetch_bound(now: Situation, part: Breakdown) -> bool:
    """Return True if batches are ready and the data wait is the fetch itself, not a few long
    waits."""
    alike = part.wait.mean < FETCH_MS or part.wait.median >= part.wait.mean / 2
    return (
        alike and now.setting.stages is not None and now.setting.stages.is_ahead(part.work_mean_ms)
    )


def wait_sentence(now: Situation, part: Breakdown) -> str:
    """Return `each step waits 9.6 of 23.4 ms for data`; with prefetch on, the time of a batch
    instead."""
    prefetches = now.setting.knobs.get(PREFETCH, "default") not in ("off", "default")
    if not prefetches or part.wait.median < part.wait.mean / 2 or is_fetch_bound(now, part):
        return f"each step waits {of_step(part.wait, part.step)} for data"
    batch, work = units.milliseconds(part.step.mean), units.milliseconds(part.work_mean_ms)
    return f"a batch takes {batch}, compute and host only {work}"


@dataclass(frozen=True, slots=True)
class SwitchAdvice:
    """The switch to try against data wait; `setting` is its knob and value, None where no switch
    helps."""

    sentence: str
    setting: tuple[str, str] | None = None


def advise_switch(now: Situation, part: Breakdown) -> SwitchAdvice:
    """Advise a switch on a live screen; the sentence holds a number where there is a forecast."""
    forecast = best(now.setting.forecasts.values())
    if forecast is not None:
        prefetches = forecast.knob != PREFETCH and now.setting.knobs.get(PREFETCH, "off") != "off"
        begin = "prefetch is on and cannot hide the wait. " if prefetches else ""
        return SwitchAdvice(
            f"{begin}{_forecast_advice(now, forecast)}", (forecast.knob, forecast.value)
        )
    if any(one.is_known for one in now.setting.forecasts.values()):
        return SwitchAdvice(_no_switch_helps(now))
    return _advise_without_forecast(now, part)


def _advise_without_forecast(now: Situation, part: Breakdown) -> SwitchAdvice:
    work = units.milliseconds(part.work_median_ms)
    prefetches = now.setting.knobs.get(PREFETCH, "off") != "off"
    if not prefetches:
        return SwitchAdvice(
            f"p turns prefetch on: it prepares batches during the {work} of compute and host",
            _PREFETCH,
        )
    if WORKERS in now.manifest.switchable and now.setting.knobs.get(WORKERS, "off") == "off":
        return SwitchAdvice(
            "prefetch is on and cannot hide all of the wait: w prepares batches on several cores",
            _WORKERS,
        )
    return SwitchAdvice(
        "+ a deeper buffer evens out bursts; prefetch is on and cannot hide the wait: reading or"
        " decoding is the limit"
    )


def _forecast_advice(now: Situation, forecast: Forecast) -> str:
    current = now.setting.knobs.get(forecast.knob, "off")
    part = now.setting.judgement.breakdown
    gain = expected_gain_text(forecast, part.step.mean if part else math.nan)
    advice = f"{key_text(forecast, current)}: {gain}"
    if forecast.knob == CACHE:
        advice = f"{advice}; {_cache_costs(now, forecast)}"
    return advice


def _cache_costs(now: Situation, forecast: Forecast) -> str:
    """Return `from epoch 3, needs 4.1 of 6.2 GB free`."""
    begins = f"from epoch {now.epoch + 1 + epochs_until(CACHE, ON)}"
    if forecast.needs_bytes is None or now.memory is None:
        return begins
    return (
        f"{begins}, needs {units.memory(forecast.needs_bytes)} of"
        f" {units.memory(now.memory.available)} free"
    )


def _no_switch_helps(now: Situation) -> str:
    """Return the reason why no switch helps, where every switch has a forecast and none an expected
    gain."""
    if over_limit := memory_limit_text(now):
        return f"{over_limit}; no other key helps"
    place = now.setting.stages.bottleneck if now.setting.stages else None
    why = place.sentence if place else "preparing batches is the limit"
    return f"no key helps: {why}"


def memory_limit_text(now: Situation) -> str:
    """Return `prefetch 4 needs 1.5 MB, more than the memory limit`; empty where the limit excludes
    no useful switch."""
    useful = (
        one for one in now.setting.forecasts.values() if one.is_over_memory_limit and one.has_gain
    )
    needs = (
        f"{knob_name(one.knob)} {one.value} needs {units.memory(one.needs_bytes)}" for one in useful
    )
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
    return (
        f"Step {units.count(now.step)} waits for its batch: the input pipeline has delivered none."
    )


def _where(now: Situation, located: StallLocated) -> str:
    """Return `in from_generator(rows), at feed.py:41 in rows: no output for 20.3 s`; a narrow row
    cuts the end."""
    if not located.stage:
        return "for its batch" + (
            f": the {located.thread} is at {located.place}" if located.place else ""
        )
    # Where the stage is known, the training thread is only in the fetch.
    place = f", at {located.place}" if located.place and located.thread == "generator" else ""
    return (
        f"in {located.stage}{place}: no output for"
        f" {units.seconds(now.now_s - located.since_ns / 1e9)}"
    )


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

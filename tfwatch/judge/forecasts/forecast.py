"""Forecasts of the step time after a switch, with an interval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.core.knobs import (
    AUTO,
    CACHE,
    DEFAULT,
    OFF,
    ON,
    PREFETCH,
    WORKERS,
    no_room,
)
from tfwatch.judge.effects import switching_state
from tfwatch.judge.effects.comparison import LEAST, find_better_settings
from tfwatch.judge.forecasts.predict import Prediction, predict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tfwatch.judge.forecasts.evidence import Evidence
    from tfwatch.judge.steps.steady_steps import Breakdown

#: The error of a forecast from complete evidence, as a share of the step: on a separate device, and
#: where compute and data share the cores (`python -m tests.bench.forecast`).
_OFF, _OFF_SHARED = 0.06, 0.10
#: The error of the hand-over, which counts for short steps; the most that is cut off an interval's
#: low end.
_OFF_MS, _MOST_OFF = 0.3, 0.5
#: The standard deviations of a normal distribution that hold 90 %.
NINE_OF_TEN = 1.64
#: A forecast change below this share of a step reads as no gain.
_WORTH = 0.05
_CHEAPEST_FIRST = (PREFETCH, WORKERS, CACHE)


@dataclass(frozen=True, slots=True)
class Forecast:
    """The forecast of the typical step after a switch of `knob` to `value`, milliseconds: of the
    median, and where batches come in bursts, of the mean."""

    knob: str
    value: str
    step_ms: float
    #: The 90 % prediction interval. step_ms, low_ms and high_ms are NaN without a forecast.
    low_ms: float
    high_ms: float
    #: The limit of the step, or the reason for no forecast.
    why: str
    #: The typical step of the current setting.
    now_ms: float = math.nan
    #: The run has measured that setting before, and its steps are the forecast.
    measured: bool = False
    #: The run has proved that it is faster, or slower, than the current setting.
    proved: bool = False
    #: A copy ahead from ordinary memory may cost more than it hides: copy and launching race (1.3 x
    #: as long on one H200).
    may_be_slower: bool = False

    @property
    def is_known(self) -> bool:
        """True where there is a number."""
        return not math.isnan(self.step_ms)

    @property
    def ratio(self) -> float:
        """The current step over this one: above 1 is a gain. NaN without a forecast."""
        return self.now_ms / self.step_ms if self.step_ms > 0 else math.nan

    @property
    def differs(self) -> bool:
        """True where the step is expected to change by 5 % or more."""
        return self.is_known and abs(self.ratio - 1) >= _WORTH

    @property
    def has_gain(self) -> bool:
        """True where a gain is expected, at any cost of memory."""
        return self.is_known and self.ratio >= 1 + _WORTH

    @property
    def is_sure(self) -> bool:
        """True where the run has proved it, or the interval does not hold the present step."""
        return self.is_known and (self.proved or not self.low_ms < self.now_ms < self.high_ms)


def best(forecasts: Iterable[Forecast]) -> Forecast | None:
    """Return the switch with the largest usable gain; None where there is none.

    Among nearly equal gains, the cheapest knob wins.
    """
    worthwhile = [one for one in forecasts if one.has_gain and not one.may_be_slower]
    most = max((one.ratio for one in worthwhile), default=0.0)
    near = [one for one in worthwhile if one.ratio >= most * (1 - _WORTH)]
    order = {knob: n for n, knob in enumerate(_CHEAPEST_FIRST)}
    return min(near, key=lambda one: order.get(one.knob, len(order)), default=None)


def forecasts(evidence: Evidence) -> tuple[Forecast, ...]:
    """Return the forecast of every switch that the keys offer, in their order, and of parallel
    calls of maps that draw random numbers."""
    random = [WORKERS] if evidence.run.random_maps else []
    return tuple(
        forecast(evidence, {knob: value})
        for knob in dict.fromkeys((*evidence.run.switchable, *random))
        for value in choices(evidence, knob)
    )


def choices(evidence: Evidence, knob: str) -> tuple[str, ...]:
    """Return the settings that the keys of a knob ask for next."""
    state = switching_state.knob_states(evidence.run.knobs, evidence.switches).get(knob)
    return switching_state.choices(state) if state else ()


def forecast(evidence: Evidence, settings: Mapping[str, str]) -> Forecast:
    """Return the forecast of a switch to these settings, by the name of the first one: as measured,
    where the run has had them."""
    (knob, value), *_ = settings.items()
    split, why_not = evidence.breakdown, _why_not(evidence, knob, value)
    if why_not or split is None:
        return Forecast(knob, value, math.nan, math.nan, math.nan, why_not)
    measured_ms = _measured_ms(evidence, split, settings)
    if measured_ms is None:
        found = predict(evidence, split, settings)
    else:
        found = Prediction(measured_ms, measured_ms, measured_ms, "measured in this run")
    if isinstance(found, str):
        return Forecast(knob, value, math.nan, math.nan, math.nan, f"no forecast: {found}")
    usual = _OFF if evidence.run.accelerated else _OFF_SHARED
    off = math.hypot(usual, NINE_OF_TEN * evidence.step_variation)
    is_measured = measured_ms is not None
    return Forecast(
        knob=knob,
        value=value,
        step_ms=found.step_ms,
        low_ms=max(found.low_ms * (1 - min(off, _MOST_OFF)) - _OFF_MS, found.low_ms * _MOST_OFF),
        high_ms=found.high_ms * (1 + off) + _OFF_MS,
        why=found.why or _why(evidence, split, found.step_ms),
        now_ms=split.typical_ms(split.step),
        measured=is_measured,
        proved=is_measured and _is_proved(evidence, split, settings, found.step_ms),
        may_be_slower=found.may_be_slower,
    )


def _why_not(evidence: Evidence, knob: str, value: str) -> str:
    """Return the reason for no forecast, e.g. that the training would refuse a cache; empty where
    one can be made."""
    if evidence.no_forecast_reason:
        return f"no forecast: {evidence.no_forecast_reason}"
    steps = evidence.breakdown.steps if evidence.breakdown else 0
    if steps < LEAST:
        return f"no forecast yet: {steps} of {LEAST} steps"
    is_cache = (knob, value) == (CACHE, ON)
    full = no_room(evidence.run.cache_bytes, evidence.memory_free) if is_cache else ""
    return f"no forecast: a cache {full}" if full else ""


def _measured_ms(evidence: Evidence, split: Breakdown, settings: Mapping[str, str]) -> float | None:
    """Return the typical step of settings that this run has measured, or has now.

    A script's pipeline stays as written where prefetch is off or default (see `Watch.set`).
    """
    wanted, as_written = {**evidence.knobs, **settings}, (OFF, DEFAULT)
    is_own = settings.keys() == {PREFETCH} and WORKERS not in evidence.run.switchable
    stays = wanted.get(PREFETCH) in as_written and evidence.knobs.get(PREFETCH) in as_written
    is_same = wanted == evidence.knobs or (is_own and stays)
    if is_same or (settings == {WORKERS: AUTO} and _maps_in_parallel(evidence)):
        return split.typical_ms(split.step)
    return evidence.measured_ms(wanted)


def _maps_in_parallel(evidence: Evidence) -> bool:
    """Return whether the maps run in parallel as the script has them."""
    stages = evidence.stages.stages if evidence.stages else ()
    maps = [one for one in stages if "Map" in one.kind and "FlatMap" not in one.kind]
    is_own = evidence.knobs.get(WORKERS) == DEFAULT
    return is_own and bool(maps) and all(one.workers > 1 for one in maps)


def _is_proved(
    evidence: Evidence, split: Breakdown, settings: Mapping[str, str], step_ms: float
) -> bool:
    """Return whether the run has proved, one against the other, what the means of two settings
    say."""
    if len(settings) > 1:
        return False
    ((knob, value),) = settings.items()
    current = evidence.knobs.get(knob, "")
    tests = [evidence.test] if evidence.test else []
    better = find_better_settings(evidence.comparisons, tests)
    faster = value if step_ms < split.typical_ms(split.step) else current
    return better.get((knob, current if faster == value else value)) == faster


def _why(evidence: Evidence, split: Breakdown, step_ms: float) -> str:
    """Return the limit of the step after the switch."""
    if step_ms <= split.work_median_ms * (1 + _OFF_SHARED):
        return "the rest is compute"
    slow = evidence.stages.limiting_stage if evidence.stages else None
    return f"{slow.name if slow else 'preparing batches'} is the limit"

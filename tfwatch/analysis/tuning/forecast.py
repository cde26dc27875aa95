"""The step time after a switch, before it is made, and how near earlier forecasts came.

The step time after a switch, before it is made: a number with a range, from what this run has measured.

What forecasts of a run's switches said just before they were asked for, against what came.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from types import MappingProxyType
from typing import TYPE_CHECKING

from tfwatch.analysis.steps.breakdown import BURSTS
from tfwatch.analysis.tuning import batch_supply, estimator, knob_state
from tfwatch.analysis.tuning.comparison import LEAST
from tfwatch.analysis.tuning.evidence import build_evidence
from tfwatch.analysis.tuning.predict import Prediction, predict
from tfwatch.core.refusals import no_room

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tfwatch.analysis.steps.breakdown import Breakdown
    from tfwatch.analysis.tuning.comparison import Comparison
    from tfwatch.analysis.tuning.evidence import Evidence, EvidenceTables
    from tfwatch.core.refusals import NoRoom

#: What a forecast is off by where all is known, of the step: on a device of its own, and where compute and data share
#: the cores (`python -m tests.bench.forecast`).
_OFF, _OFF_SHARED = 0.06, 0.10
#: And of what handing a batch over takes: that counts where steps are short. Of a range's low end at most this is cut.
_OFF_MS, _MOST_OFF = 0.3, 0.5
#: Other programs come and go: what they may change of a step where they use all cores.
_OTHERS = 0.25
#: Of a normal distribution so many standard deviations hold nine of ten.
NINE_OF_TEN = 1.64
_NO_OTHER: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Forecast:
    """The median step after `knob` is turned to `value`, milliseconds; the truth lies in low..high in 9 of 10.

    step_ms, low_ms, high_ms are NaN where nothing can be said; `why` says then why not, else what bounds the step.
    mean_ms: the mean step, which differs from the median where batches come in bursts.
    floor_ms: see `compute_floor_ms`: no setting of the pipeline goes below.
    now_ms, now_mean_ms: the median and the mean of the present setting.
    measured: this run has stood at that setting before, and its steps are the forecast.
    needs_bytes: the memory that the switch takes; None where it takes none worth telling or nobody knows.
    beyond_limit: it is more than the user allows.
    """

    knob: str
    value: str
    step_ms: float
    low_ms: float
    high_ms: float
    compute_floor_ms: float
    why: str
    needs_bytes: float | None = None
    mean_ms: float = math.nan
    now_ms: float = math.nan
    now_mean_ms: float = math.nan
    measured: bool = False
    is_over_memory_limit: bool = False

    @property
    def is_known(self) -> bool:
        """Whether there is a number."""
        return not math.isnan(self.step_ms)

    @property
    def in_bursts(self) -> bool:
        """Whether batches come in bursts, now or then: only means show them."""
        return max(self.mean_ms, self.now_mean_ms) > BURSTS * max(self.step_ms, self.now_ms)

    @property
    def typical_ms(self) -> float:
        """The median step, as what came is told; where batches come in bursts the mean."""
        return self.mean_ms if self.in_bursts else self.step_ms

    @property
    def ratio(self) -> float:
        """The step now over `typical_ms`, as that is told: above 1 is a gain. NaN where nothing can be said."""
        now_ms = self.now_mean_ms if self.in_bursts else self.now_ms
        return now_ms / self.typical_ms if self.typical_ms > 0 else math.nan


def forecasts(evidence: Evidence) -> tuple[Forecast, ...]:
    """One for every switch that is open to the user, in the order of the keys, by which `foretelling.best` chooses."""
    return tuple(forecast(evidence, knob, value) for knob in evidence.switchable for value in choices(evidence, knob))


def choices(evidence: Evidence, knob: str) -> tuple[str, ...]:
    """The values that the keys of a knob ask for next; none for a knob that changes no step's time."""
    now = evidence.knobs.get(knob)
    if now is None or not estimator.affects_step_time(knob):
        return ()
    made = evidence.switches or evidence.comparisons
    last_on = next((turn.old for turn in reversed(made) if turn.knob == knob and turn.old != "off"), None)
    return knob_state.choices(knob_state.KnobState(knob, now, last_on or knob_state.first_on(knob)))


def forecast(evidence: Evidence, knob: str, value: str, together_with: Mapping[str, str] = _NO_OTHER) -> Forecast:
    """The step after one switch. Its number is NaN where nothing can be said, and `why` says why not.

    beside: what prefetch or workers are turned to at the same time.
    """
    split, why_not = evidence.breakdown, no_forecast_reason(evidence)
    if why_not or split is None:
        return Forecast(knob, value, math.nan, math.nan, math.nan, compute_floor_ms(evidence), why_not)
    wanted = estimator.step_time_knobs({**evidence.knobs, knob: value, **together_with})
    measured_before = estimator.find_measured(evidence.history, wanted, evidence.knobs)
    is_measured = True
    if wanted == estimator.step_time_knobs(evidence.knobs) or _is_as_written(evidence, knob, value):
        found: Prediction | str = _as_seen(split, split, split)
    elif measured_before:
        found = _as_seen(split, *measured_before)
    else:
        found, is_measured = predict(evidence, split, knob, value, compute_floor_ms(evidence), together_with), False
    if full := _no_room(evidence, knob, value):
        found = f"a cache {full.words}"
    if isinstance(found, str):
        return Forecast(knob, value, math.nan, math.nan, math.nan, compute_floor_ms(evidence), f"no forecast: {found}")
    return _make_forecast(evidence, split, knob, value, together_with, found, is_measured)


def _is_as_written(evidence: Evidence, knob: str, value: str) -> bool:
    """Whether a script's own pipeline is left as it is: there, off and default are the same (see `Watch.set`)."""
    as_written = ("off", "default")
    own = knob == "prefetch" and "workers" not in evidence.switchable
    return own and value in as_written and evidence.knobs.get(knob) in as_written


def _no_room(evidence: Evidence, knob: str, value: str) -> NoRoom | None:
    """Why the training would not take the switch."""
    return no_room(evidence.cache_bytes, evidence.memory_free) if (knob, value) == ("cache", "on") else None


def no_forecast_reason(evidence: Evidence) -> str:
    """Why nothing can be forecast now; empty where something can."""
    if evidence.no_forecast_reason:
        return f"no forecast while {evidence.no_forecast_reason}"
    steps = evidence.breakdown.steps if evidence.breakdown else 0
    return f"{steps} of {LEAST} steps, no forecast yet" if steps < LEAST else ""


def compute_floor_ms(evidence: Evidence) -> float:
    """The device's own time and the host's: the least that compute and host took in any setting of this run, medians.

    Batches made on the same cores, or under Python's lock, make both longer. NaN where nothing was measured.
    """
    splits = [evidence.breakdown, *(interval.split for interval in evidence.history)]
    known = [split.work_median_ms for split in splits if split and split.steps >= LEAST]
    return min(known, default=math.nan)


def _as_seen(now: Breakdown, then: Breakdown, together_with: Breakdown | None) -> Prediction:
    """A stretch of this run; where one of the present setting lies beside it, in proportion to how that has changed."""
    times = now.step.median / together_with.step.median if together_with else 1.0
    step_ms, mean_ms = then.step.median * times, then.step.mean * times
    return Prediction(step_ms, mean_ms, step_ms, step_ms, "measured in this run")


def _make_forecast(
    evidence: Evidence,
    split: Breakdown,
    knob: str,
    value: str,
    together_with: Mapping[str, str],
    found: Prediction,
    is_measured: bool,
) -> Forecast:
    usual = _OFF if evidence.accelerated else _OFF_SHARED
    needs, limit = _needs_bytes(evidence, {knob: value, **together_with}), evidence.memory_limit
    off = math.hypot(usual, NINE_OF_TEN * evidence.step_variation, _OTHERS * _taken_by_others(evidence))
    return Forecast(
        knob=knob,
        value=value,
        step_ms=found.step_ms,
        low_ms=max(found.low_ms * (1 - min(off, _MOST_OFF)) - _OFF_MS, found.low_ms * _MOST_OFF),
        high_ms=found.high_ms * (1 + off) + _OFF_MS,
        compute_floor_ms=compute_floor_ms(evidence),
        why=found.why or _why(evidence, split, found.step_ms),
        needs_bytes=needs,
        is_over_memory_limit=needs is not None and limit is not None and needs > limit,
        mean_ms=found.mean_ms,
        now_ms=split.step.median,
        now_mean_ms=split.step.mean,
        measured=is_measured,
    )


def _why(evidence: Evidence, split: Breakdown, step_ms: float) -> str:
    """What bounds the step then."""
    if step_ms <= split.work_median_ms * (1 + _OFF_SHARED):
        return "the rest is compute"
    table = evidence.stages
    place = table.bottleneck if table else None
    return f"{table.stages[place.stage].name} is the limit" if table and place else "making batches is the limit"


def _needs_bytes(evidence: Evidence, turned: Mapping[str, str]) -> float | None:
    if turned.get("cache") == "on":
        return evidence.cache_bytes
    if not turned.keys() & {"prefetch", "workers"} or evidence.batch_bytes is None:
        return None
    then, now = {**evidence.knobs, **turned}, evidence.knobs
    more = batch_supply.needed_bytes(then, evidence.batch_bytes) - batch_supply.needed_bytes(now, evidence.batch_bytes)
    return max(more, 0.0)


def _taken_by_others(evidence: Evidence) -> float:
    """The share of the cores that other programs use, 0 to 1; 0 where that is not known."""
    others = evidence.cores - evidence.cores_used - evidence.cores_free
    return 0.0 if math.isnan(others) else min(max(others / evidence.cores, 0.0), 1.0)


@dataclass(frozen=True, slots=True)
class CheckedForecast:
    """A switch whose forecast can be held against what came: `measured_ms` is the median of the settled steps after it."""

    switch: Comparison
    forecast: Forecast
    measured_ms: float

    @property
    def off(self) -> float:
        """By how much the forecast was too high, as a share of what came; below 0 it was too low."""
        return self.forecast.step_ms / self.measured_ms - 1

    @property
    def inside(self) -> bool:
        """Whether what came lies in the forecast's range."""
        return self.forecast.low_ms <= self.measured_ms <= self.forecast.high_ms


@dataclass(frozen=True, slots=True)
class Record:
    """Every switch of a run that was foretold and has settled, oldest first."""

    checked: tuple[CheckedForecast, ...] = ()

    @property
    def median_error(self) -> float:
        """The median distance of the forecasts from what came, as a share of it; NaN where there were none."""
        return median(abs(one.off) for one in self.checked) if self.checked else math.nan

    @property
    def inside(self) -> int:
        """How many lay in their range."""
        return sum(one.inside for one in self.checked)


def record(tables: EvidenceTables, comparisons: Sequence[Comparison]) -> Record:
    """The forecast of each settled switch from what was known before it was asked for."""
    found = (check_forecast(tables, comparisons, n) for n in range(len(comparisons)))
    return Record(tuple(one for one in found if one is not None))


def check_forecast(tables: EvidenceTables, comparisons: Sequence[Comparison], n: int) -> CheckedForecast | None:
    """The n-th switch, foretold from what was known before it was asked for.

    None where it has not settled, where several knobs were turned at once, and where nothing could be said.
    """
    switch = comparisons[n]
    if switch.step is None or not switch.settled or switch.together_with or switch.after is None:
        return None
    forecast_made = forecast(evidence_before(tables, comparisons, n), switch.knob, switch.new)
    return CheckedForecast(switch, forecast_made, switch.after.step.median) if forecast_made.is_known else None


def evidence_before(tables: EvidenceTables, comparisons: Sequence[Comparison], n: int) -> Evidence:
    """What was known just before the n-th switch was asked for."""
    switch = comparisons[n]
    return build_evidence(tables, comparisons[:n], switch.asked_step, switch.asked_at_ns)

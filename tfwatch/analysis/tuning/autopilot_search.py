"""Feeding the device, one switch after another: which comes next, whether it helped, and when there is no more to gain.

Pure: the settings, what was measured and what is forecast go in; the next move or a reason to stop comes out. Values of
knobs are in words, as events have them.

One estimate decides (`likely`): of every setting, from all stretches measured under it and from its forecast. Next
comes the switch that gains most on average, back to a setting that was measured before among them; it is kept where its
estimate is the better of the two by what the batches that it holds are worth.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from tfwatch.analysis.steps.verdict import HIGHLY_FROM
from tfwatch.analysis.tuning.autopilot_moves import (
    BUDGET,
    LEAST,
    Limits,
    Move,
    SearchState,
    Stop,
    find_core_sharing_moves,
    find_data_wait_moves,
    find_return_moves,
    fits,
    judging_steps,
)
from tfwatch.analysis.tuning.batch_supply import needed_bytes
from tfwatch.analysis.tuning.estimator import Estimator, ForecastDatum, MeasuredDatum, Measurement, measure
from tfwatch.analysis.tuning.forecast import NINE_OF_TEN
from tfwatch.core import units

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfwatch.analysis.tuning.autopilot_moves import MakeForecast
    from tfwatch.core.rows import Rows

#: Less data wait than this share of a step is no starving: without any, a step is 4 % shorter at most. The verdict's
#: own 5 % would leave a step at 1.053 of the best. To go on at 2 % took 1.5 to 2 times the steps, won nothing in most
#: cases and 2 % of a step at most (`python -m tests.bench.walks`).
NOT_STARVING_BELOW = 0.04
#: A step this near the device's own time has reached it.
NEAR_COMPUTE_FLOOR = 0.02
#: Work this much longer than the device's own time shares its cores with those who make batches.
_CROWDED = 0.02
#: What a doubling of the batches that are held at once has to save of a step, and what a cache has to.
_PRICE, _CACHE_PRICE = 0.003, 0.015
#: A switch that gains less than this share of a step on average is not worth its steps.
_LEAST_GAIN = 0.001
#: A stretch tells no more than a machine that wanders allows; and a difference is beyond noise by so many deviations.
_EXACT, _SURE = 0.01, 2.0
#: What was measured as slower by more than this is not kept, whatever was forecast; it may be tried again.
_SLOWER = 0.05
#: Without a forecast a switch that feeds is taken to win so much of what a step waits.
_HALF = 0.5


class AutopilotSearch:
    """One walk, from the settings at its start.

    Attributes:
        knobs: what it stands at; first: what was measured as it began.
        reason: what the newest verdict rests on, in words; empty where it is beyond noise.
    """

    def __init__(self, knobs: Mapping[str, str], first: Measurement) -> None:
        self.knobs = dict(knobs)
        self.first = first
        self.reason = ""
        self._start = dict(knobs)
        self._measured = [MeasuredDatum(dict(knobs), first)]
        self._forecast_data: list[ForecastDatum] = []
        self._refused: list[dict[str, str]] = []
        self._compute_floor_ms = first.work_ms

    @property
    def now(self) -> Measurement:
        """What was measured last under what it stands at."""
        return self._newest.measured

    def state(self, make_forecast: MakeForecast) -> SearchState:
        """Where it stands."""
        visited = [*(one.knobs for one in self._measured), *self._refused]
        return SearchState(self._start, self.knobs, self.now, visited, make_forecast, self._compute_floor_ms)

    def next(self, make_forecast: MakeForecast, limits: Limits) -> Move | Stop:
        """What comes next. foretell: the forecast of knobs turned to values from where it stands."""
        state, now = self.state(make_forecast), self.now
        if now.step_ms <= (1 + NEAR_COMPUTE_FLOOR) * self._compute_floor_ms < math.inf:
            above = f"less than {units.percent(NEAR_COMPUTE_FLOOR)} above the device's own {units.milliseconds(self._compute_floor_ms)}"
            return Stop("compute_floor", f"a step takes {units.milliseconds(now.step_ms)}, {above}")
        starves = now.wait_share >= NOT_STARVING_BELOW
        crowded = now.work_ms > (1 + _CROWDED) * self._compute_floor_ms
        if not starves and limits.accelerated and not crowded:
            return Stop("not_starving", _wait_text(now))
        feed = [move for move in find_data_wait_moves(state, limits) if starves or move.knob in _LIGHTER]
        fitting = [move for move in feed if fits(state, limits, move)]
        eased = [move for move in find_core_sharing_moves(state, limits) if crowded and fits(state, limits, move)]
        moves = self._rank(state, fitting, eased)
        best = next((move for move in moves if judging_steps(state, move, limits) >= LEAST), None)
        if best:
            return best
        if any(move.knob != "cache" for move in moves):
            left = f"the {max(limits.steps, 0)} steps left of its {BUDGET} are too few to judge another switch by"
            return Stop("budget", f"{left}; {_wait_text(now)}")
        return _nothing_left(now, starves, bool(feed) and not fitting, "cache" in [move.knob for move in fitting])

    def judge(self, move: Move, rows: Rows, *, last: bool) -> bool | None:
        """Take the steps in that came after a move settled; says whether it is kept, None where more have to tell."""
        after, before = measure(rows), self._newest
        if after is None or after.steps < LEAST:
            return self._too_few(move) if last else None
        came = MeasuredDatum(move.settings_after(self.knobs), after)
        measured_error = math.hypot(came.deviation, before.deviation)
        slower = came.log - before.log > _SURE * measured_error
        if not last and not slower and after.error_ms > _EXACT * after.step_ms:
            return None
        forecast_data = self._forecast_data
        if came.knobs not in [one.knobs for one in self._measured]:
            forecast_data = [*forecast_data, replace(self._forecast_datum(move), came=came.log - before.log, measured_error=measured_error)]
        self._compute_floor_ms = min(self._compute_floor_ms, after.work_ms)
        self._measured, self._forecast_data = [*self._measured, came], forecast_data
        price = _price(came.knobs) - _price(self.knobs)
        kept = came.log - before.log <= _SLOWER and Estimator(self._measured, forecast_data).expected_saving(self.knobs, came.knobs) > price
        has_gain = move.forecast is not None and self._expected_log(move) < 0
        self.reason = _reason(before, came, has_gain=has_gain, kept=kept)
        if kept:
            self.knobs = dict(came.knobs)
        return kept

    def exclude(self, move: Move) -> None:
        """A setting could not be had, or not be borne: it is never asked for again."""
        self._refused.append(move.settings_after(self.knobs))

    def _too_few(self, move: Move) -> bool:
        self.exclude(move)
        self.reason = "too few steps to judge it by"
        return False

    @property
    def _newest(self) -> MeasuredDatum:
        return next(one for one in reversed(self._measured) if one.knobs == self.knobs)

    def _rank(self, state: SearchState, feed: list[Move], eased: list[Move]) -> list[Move]:
        """The moves that are worth their steps, the best first."""
        opened = [*feed, *eased]
        known = Estimator(self._measured, [*self._forecast_data, *map(self._forecast_datum, opened)])
        back = find_return_moves(state, [one.knobs for one in self._measured if one.knobs not in self._refused])
        # No setting of the buffers brings a step below the device's own time.
        most = math.log(state.now.step_ms / state.compute_floor_ms) if state.compute_floor_ms > 0 else math.inf
        worth = {}
        for move in [*opened, *back]:
            settings_after = move.settings_after(self.knobs)
            gains = known.worth(self.knobs, settings_after, _price(settings_after) - _price(self.knobs))
            worth[move.changes] = gains if move.knob in _LIGHTER else min(gains, most)
        ranked = sorted([*opened, *back], key=lambda move: -worth[move.changes])
        # To one that starves highly all that feeds and is new comes first, also what was foretold to give nothing.
        new = [move for move in ranked if move in feed] if state.now.wait_share >= HIGHLY_FROM else []
        return [*new, *(move for move in ranked if worth[move.changes] >= _LEAST_GAIN)]

    def _forecast_datum(self, move: Move) -> ForecastDatum:
        forecast_data, wide = move.forecast, 0.0
        if forecast_data is not None and 0 < forecast_data.low_ms < forecast_data.high_ms:
            wide = math.log(forecast_data.high_ms / forecast_data.low_ms) / (2 * NINE_OF_TEN)
        return ForecastDatum(dict(self.knobs), move.settings_after(self.knobs), self._expected_log(move), wide)

    def _expected_log(self, move: Move) -> float:
        """The logarithm of the step after a move, less that before it, by its forecast."""
        forecast_data, now = move.forecast, self.now
        if forecast_data is not None and forecast_data.is_known:
            return math.log((forecast_data.step_ms if math.isnan(forecast_data.mean_ms) else forecast_data.mean_ms) / now.step_ms)
        return math.log(1 - _HALF * now.wait_share)


#: What takes work off the cores, so that a CPU that trains gains even where it does not wait.
_LIGHTER = ("fast_form", "cache")


def _price(knobs: Mapping[str, str]) -> float:
    """The share of a step that a setting has to save to be worth what it holds."""
    held = math.log2(1 + needed_bytes(knobs, 1.0))
    return _PRICE * held + (_CACHE_PRICE if knobs.get("cache") == "on" else 0.0)


def _reason(before: MeasuredDatum, came: MeasuredDatum, *, has_gain: bool, kept: bool) -> str:
    """What a verdict rests on where what was measured does not say it beyond noise."""
    gained = before.log - came.log
    sure = _SURE * math.hypot(before.deviation, came.deviation)
    if gained > sure:
        return "" if kept else "it gains less than what it holds is worth"
    if gained < -sure:
        return "slower"
    if not kept:
        return "no gain beyond noise"
    return "not beyond noise" + (", as forecast" if has_gain and gained > 0 else ", likely no slower")


def _nothing_left(now: Measurement, starves: bool, refused: bool, caches: bool) -> Stop:
    later = "; a cache would gain once an epoch has filled it: c" if caches else ""
    if not starves:
        return Stop("not_starving", _wait_text(now) + later)
    limit = (
        "the switches that are left need more memory than its limit"
        if refused
        else "no other switch is likely to make it less"
    )
    return Stop("nothing_left", f"{_wait_text(now)}; {limit}{later}")


def _wait_text(now: Measurement) -> str:
    waits = units.number(now.step_ms - now.work_ms)
    return f"it waits {waits} of {units.milliseconds(now.step_ms)} a step"

"""The search of the autopilot: the next switch, the judgement of the last one, and the reason to
stop.

Pure functions of settings, measurements and forecasts. `estimator` estimates every setting from all
its measurements and its forecast. The next move is the switch with the largest expected gain; a
return to a measured setting competes with the others. A move is kept where its estimate is better
by more than the price of the batches that it holds.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.knobs import CACHE
from tfwatch.judge.autopilot.autopilot_moves import (
    BUDGET,
    LEAST,
    Move,
    SearchLimits,
    SearchState,
    Stop,
    find_copy_moves,
    find_core_sharing_moves,
    find_data_wait_moves,
    find_return_moves,
    fits,
    judging_steps,
)
from tfwatch.judge.autopilot.estimator import (
    Estimator,
    ForecastDatum,
    MeasuredDatum,
    Measurement,
    measure,
)
from tfwatch.judge.forecasts.batch_supply import needed_bytes
from tfwatch.judge.forecasts.forecast import NINE_OF_TEN
from tfwatch.judge.steps.verdict import HIGHLY_FROM

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfwatch.core.rows import Rows
    from tfwatch.judge.autopilot.autopilot_moves import MakeForecast

#: A step with a smaller share of data wait does not starve: without any it is 4 % shorter at most.
#: The verdict's own 5 % would leave a step at 1.053 of the best. A limit of 2 % took 1.5 to 2 times
#: the steps, and gained nothing in most cases and 2 % of a step at most (`python -m
#: tests.bench.walks`).
NOT_STARVING_BELOW = 0.04
#: A step within this share of the compute floor has reached it.
NEAR_COMPUTE_FLOOR = 0.02
#: Compute and host above the floor by this share compete with the workers for the cores.
_CROWDED = 0.02
#: The share of a step that twice the batches in memory have to save, and that a cache has to.
_PRICE, _CACHE_PRICE = 0.003, 0.015
#: A switch with a smaller expected gain, as a share of a step, does not pay for its steps.
_LEAST_GAIN = 0.001
#: The standard error at which a measurement is exact enough, as a share; the deviations that are
#: beyond noise.
_EXACT, _SURE = 0.01, 2.0
#: A setting measured slower by more than this share is not kept, whatever its forecast; a later
#: move may return to it.
_SLOWER = 0.05
#: Without a forecast, a switch is expected to save this share of the data wait.
_HALF = 0.5


class AutopilotSearch:
    """One search, from the settings at its start.

    Attributes:
        knobs: the current settings. first: the measurement of the first ones.
        reason: the ground of the newest verdict, in words; empty where the difference is beyond
        noise.
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
        """The newest measurement of the current settings."""
        return self._newest.measured

    @property
    def changed(self) -> frozenset[str]:
        """The knobs that differ from their settings at the start."""
        return frozenset(
            knob for knob, value in self.knobs.items() if value != self._start.get(knob)
        )

    def state(self, make_forecast: MakeForecast) -> SearchState:
        visited = [*(one.knobs for one in self._measured), *self._refused]
        return SearchState(
            self._start, self.knobs, self.now, visited, make_forecast, self._compute_floor_ms
        )

    def next(self, make_forecast: MakeForecast, limits: SearchLimits) -> Move | Stop:
        """Return the next move, or the reason to stop. make_forecast: of a switch from the current
        settings."""
        state, now = self.state(make_forecast), self.now
        copying = [
            m for m in find_copy_moves(state, limits) if judging_steps(state, m, limits) >= LEAST
        ]
        if copying:
            return copying[0]
        if now.step_ms <= (1 + NEAR_COMPUTE_FLOOR) * self._compute_floor_ms < math.inf:
            floor = f"the {units.milliseconds(self._compute_floor_ms)} of compute and host"
            above = f"less than {units.percent(NEAR_COMPUTE_FLOOR)} above {floor}"
            return Stop("compute_floor", f"a step takes {units.milliseconds(now.step_ms)}, {above}")
        starves = now.wait_share >= NOT_STARVING_BELOW
        crowded = now.work_ms > (1 + _CROWDED) * self._compute_floor_ms
        if not starves and limits.accelerated and not crowded:
            return Stop("not_starving", _wait_text(now))
        feed = [
            # A cache saves CPU work: a CPU that trains gains from it even without data wait.
            move
            for move in find_data_wait_moves(state, limits)
            if starves or move.knob == CACHE
        ]
        fitting = [move for move in feed if fits(state, limits, move)]
        eased = [
            move
            for move in find_core_sharing_moves(state, limits)
            if crowded and fits(state, limits, move)
        ]
        moves = self._rank(state, fitting, eased)
        best = next((move for move in moves if judging_steps(state, move, limits) >= LEAST), None)
        if best:
            return best
        if any(move.knob != CACHE for move in moves):
            left = (
                f"{max(limits.steps, 0)} of {BUDGET} steps are left, not enough to judge another"
                " switch"
            )
            return Stop("budget", f"{left}; {_wait_text(now)}")
        return _nothing_left(
            now, starves, bool(feed) and not fitting, CACHE in [move.knob for move in fitting]
        )

    def judge(self, move: Move, rows: Rows, *, last: bool) -> bool | None:
        """Judge a move by its settled steps. Returns whether it is kept; None where it needs more
        steps."""
        after, before = measure(rows), self._newest
        if after is None or after.steps < LEAST:
            return self._too_few(move) if last else None
        new = MeasuredDatum(move.settings_after(self.knobs), after)
        change, error = new.log - before.log, math.hypot(new.deviation, before.deviation)
        slower = change > _SURE * error
        if not last and not slower and after.error_ms > _EXACT * after.step_ms:
            return None
        if new.knobs not in [one.knobs for one in self._measured]:
            checked = replace(
                self._forecast_datum(move), measured_log_ratio=change, measured_error=error
            )
            self._forecast_data = [*self._forecast_data, checked]
        self._compute_floor_ms = min(self._compute_floor_ms, after.work_ms)
        self._measured = [*self._measured, new]
        price = _price(new.knobs) - _price(self.knobs)
        saving = Estimator(self._measured, self._forecast_data).expected_saving(
            self.knobs, new.knobs
        )
        kept = change <= _SLOWER and saving > price
        has_gain = move.forecast is not None and self._expected_log(move) < 0
        self.reason = _reason(before, new, has_gain=has_gain, kept=kept)
        if kept:
            self.knobs = dict(new.knobs)
        return kept

    def exclude(self, move: Move) -> None:
        """Exclude the setting of a move that was refused, or that took too much memory."""
        self._refused.append(move.settings_after(self.knobs))

    def _too_few(self, move: Move) -> bool:
        self.exclude(move)
        self.reason = "not enough steps to judge it"
        return False

    @property
    def _newest(self) -> MeasuredDatum:
        return next(one for one in reversed(self._measured) if one.knobs == self.knobs)

    def _rank(self, state: SearchState, feed: list[Move], eased: list[Move]) -> list[Move]:
        """Return the moves that pay for their steps, the best first."""
        candidates = [*feed, *eased]
        estimator = Estimator(
            self._measured, [*self._forecast_data, *map(self._forecast_datum, candidates)]
        )
        back = find_return_moves(
            state, [one.knobs for one in self._measured if one.knobs not in self._refused]
        )
        # No buffer shortens a step below its compute and host time.
        most = (
            math.log(state.now.step_ms / state.compute_floor_ms)
            if state.compute_floor_ms > 0
            else math.inf
        )
        gains = {}
        for move in [*candidates, *back]:
            settings = move.settings_after(self.knobs)
            gain = estimator.expected_gain(
                self.knobs, settings, _price(settings) - _price(self.knobs)
            )
            gains[move.changes] = gain if move.knob == CACHE else min(gain, most)
        ranked = sorted([*candidates, *back], key=lambda move: -gains[move.changes])
        # A highly starving step first tries every new switch against data wait, also those forecast
        # to gain nothing.
        new = (
            [move for move in ranked if move in feed] if state.now.wait_share >= HIGHLY_FROM else []
        )
        return [*new, *(move for move in ranked if gains[move.changes] >= _LEAST_GAIN)]

    def _forecast_datum(self, move: Move) -> ForecastDatum:
        forecast, spread = move.forecast, 0.0
        if forecast is not None and 0 < forecast.low_ms < forecast.high_ms:
            spread = math.log(forecast.high_ms / forecast.low_ms) / (2 * NINE_OF_TEN)
        return ForecastDatum(
            dict(self.knobs), move.settings_after(self.knobs), self._expected_log(move), spread
        )

    def _expected_log(self, move: Move) -> float:
        """Return the logarithm of the step after a move over that before it, by its forecast."""
        forecast, now = move.forecast, self.now
        if forecast is not None and forecast.is_known:
            return math.log(
                (forecast.step_ms if math.isnan(forecast.mean_ms) else forecast.mean_ms)
                / now.step_ms
            )
        return math.log(1 - _HALF * now.wait_share)


def _price(knobs: Mapping[str, str]) -> float:
    """Return the share of a step that a setting has to save for the batches that it holds."""
    held = math.log2(1 + needed_bytes(knobs, 1.0))
    return _PRICE * held + (_CACHE_PRICE if knobs.get(CACHE) == "on" else 0.0)


def _reason(before: MeasuredDatum, after: MeasuredDatum, *, has_gain: bool, kept: bool) -> str:
    """Return the ground of a verdict; empty where the measured difference is beyond noise."""
    gained = before.log - after.log
    sure = _SURE * math.hypot(before.deviation, after.deviation)
    if gained > sure:
        return "" if kept else "the gain is too small for its memory"
    if gained < -sure:
        return "slower"
    if not kept:
        return "no gain beyond noise"
    return "within noise" + (
        ", faster as forecast" if has_gain and gained > 0 else ", probably no slower"
    )


def _nothing_left(now: Measurement, starves: bool, refused: bool, caches: bool) -> Stop:
    cache = "; a cache (key c) would gain from the epoch after it is filled" if caches else ""
    if not starves:
        return Stop("not_starving", _wait_text(now) + cache)
    limit = (
        "the other switches need more memory than the limit"
        if refused
        else "no other switch is likely to help"
    )
    return Stop("nothing_left", f"{_wait_text(now)}; {limit}{cache}")


def _wait_text(now: Measurement) -> str:
    waits = units.number(now.step_ms - now.work_ms)
    return f"each step waits {waits} of {units.milliseconds(now.step_ms)} for data"

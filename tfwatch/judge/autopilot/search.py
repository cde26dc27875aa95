"""The search of the autopilot: the next switch, the judgement of the last one, and the reason to
stop.

Pure functions of settings, measurements and forecasts. The next move is the switch with the largest
forecast gain, and none is made that is surely slower by its forecast. It is kept where the step is
proved shorter by 2 %, by the whole 95 % interval; every other move is undone. One that looks faster
and is not proved is measured once more.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.knobs import CACHE, KnobChange
from tfwatch.judge.autopilot.measurement import Measurement, measure
from tfwatch.judge.autopilot.moves import (
    BUDGET,
    LEAST,
    Move,
    SearchLimits,
    SearchState,
    Stop,
    find_copy_moves,
    find_crowding_moves,
    find_data_wait_moves,
    fits,
    judging_steps,
)
from tfwatch.judge.effects.experiment import Estimate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tfwatch.core.rows import Rows
    from tfwatch.judge.autopilot.moves import MakeForecast

#: A step with a smaller share of data wait does not starve: without any it is 4 % shorter at most.
NOT_STARVING_BELOW = 0.04
#: The share of a step that a move has to save: with the low end of its interval to be kept, and by
#: its forecast to be tried where no data wait is to be saved.
LEAST_GAIN = 0.02
#: Compute and host longer than the shortest so far by this share: batches share the cores.
_CROWDED = 0.02
#: A setting measured again varies by this standard deviation beside the error of its steps. On
#: simulated machines with 1, 3 and 8 % between visits 0, 2 and 4 of 100 kept moves save less than
#: 2 % (`python -m tests.bench.walks`).
_VARIATION = 0.01
#: An interval of 95 % ends at so many standard errors.
_SURE = 1.96
#: How often a setting is measured at most.
_MOST_VISITS = 2
#: Without a forecast, a switch is expected to save this share of the data wait.
_HALF = 0.5


class AutopilotSearch:
    """One search, from the settings at its start.

    Attributes:
        knobs: the current settings. start: the first ones. first: their measurement.
        reason: why the newest move was not kept, in words; empty where it was.
    """

    def __init__(self, knobs: Mapping[str, str], first: Measurement) -> None:
        self.knobs = dict(knobs)
        self.start = dict(knobs)
        self.first = first
        self.reason = ""
        self._visits = [(dict(knobs), first)]
        self._refused: list[dict[str, str]] = []
        self._least_work_ms = first.work_ms

    @property
    def now(self) -> Measurement:
        """The newest measurement of the current settings."""
        return self._measured(self.knobs)[-1]

    @property
    def changed(self) -> frozenset[str]:
        """The knobs that differ from their settings at the start."""
        return frozenset(
            knob for knob, value in self.knobs.items() if value != self.start.get(knob)
        )

    def state(self, make_forecast: MakeForecast) -> SearchState:
        """Return the state that moves are found from."""
        visited = [*(knobs for knobs, _ in self._visits), *self._refused]
        return SearchState(self.start, self.knobs, self.now, visited, make_forecast)

    def next(self, make_forecast: MakeForecast, limits: SearchLimits) -> Move | Stop:
        """Return the next move, or the reason to stop. make_forecast: of a switch from the current
        settings."""
        state = self.state(make_forecast)
        copying = find_copy_moves(state, limits)
        if not (copying or self._starves or (self._is_crowded and not limits.accelerated)):
            share = units.percent(self.now.wait_share)
            return Stop("not_starving", f"data wait is only {share} of a step")
        moves = copying or self._ranked(state, limits)
        best = next((move for move in moves if judging_steps(state, move, limits) >= LEAST), None)
        return best or self._stop(moves, limits)

    def judge(self, move: Move, rows: Rows, *, last: bool) -> bool | None:
        """Judge a move by its settled steps. Returns whether it is kept; None where it needs more
        steps."""
        after, there = measure(rows), move.settings_after(self.knobs)
        if after is None or after.steps < LEAST:
            return self._too_few(move) if last else None
        known = self._ratio(there, after)
        kept, is_open = known.low > 1 + LEAST_GAIN, known.high > 1 + LEAST_GAIN
        if is_open and not kept and not last:
            return None
        self._visits.append((there, after))
        self._least_work_ms = min(self._least_work_ms, after.work_ms)
        self.reason = "" if kept else _why_not(known)
        if not kept and self._is_worth_another_look(there):
            self.reason += " yet"
        if kept:
            self.knobs = there
        return kept

    def exclude(self, move: Move) -> None:
        """Exclude the setting of a move that was refused, or that took too much memory."""
        self._refused.append(move.settings_after(self.knobs))

    @property
    def _starves(self) -> bool:
        return self.now.wait_share >= NOT_STARVING_BELOW

    @property
    def _is_crowded(self) -> bool:
        """True where compute and host were shorter under another setting."""
        return self.now.work_ms > (1 + _CROWDED) * self._least_work_ms

    def _too_few(self, move: Move) -> bool:
        self.exclude(move)
        self.reason = "not enough steps to judge it"
        return False

    def _measured(self, knobs: Mapping[str, str]) -> list[Measurement]:
        return [measured for visited, measured in self._visits if visited == knobs]

    def _ratio(self, there: Mapping[str, str], *newest: Measurement) -> Estimate:
        """Return the present step over that of another setting. newest: one that is not judged
        yet."""
        here, here_error = _mean_log(self._measured(self.knobs))
        other, other_error = _mean_log([*self._measured(there), *newest])
        gain, half = here - other, _SURE * math.hypot(here_error, other_error)
        return Estimate(math.exp(gain), math.exp(gain - half), math.exp(gain + half))

    def _ranked(self, state: SearchState, limits: SearchLimits) -> list[Move]:
        """Return the moves that are worth their steps, the largest expected gain first."""
        # A cache saves CPU work: a CPU that trains gains from it even without data wait.
        feed = [
            move
            for move in find_data_wait_moves(state, limits)
            if self._starves or move.knob == CACHE
        ]
        gains = [
            (self._expected_gain(move), move)
            for move in (*feed, *find_crowding_moves(state, limits))
            if fits(state, limits, move) and not self._is_slower(move)
        ]
        wanted = [
            (gain, move)
            for gain, move in gains
            if gain >= LEAST_GAIN or (self._starves and move in feed)
        ]
        ranked = sorted([*wanted, *self._again()], key=lambda one: -one[0])
        return [move for _, move in ranked]

    def _again(self) -> list[tuple[float, Move]]:
        """Return the moves that looked faster and were not proved, with their gain so far."""
        found = []
        for knobs, _ in self._visits:
            if knobs != self.knobs and self._is_worth_another_look(knobs):
                known = self._ratio(knobs)
                changes = (KnobChange(k, self.knobs[k], v) for k, v in knobs.items())
                again = Move(tuple(one for one in changes if one.old != one.new))
                found.append((1 - 1 / known.ratio, again))
        return found

    def _is_worth_another_look(self, knobs: Mapping[str, str]) -> bool:
        """Return whether a setting looks faster, and was measured once."""
        was_measured_often = len(self._measured(knobs)) >= _MOST_VISITS
        is_left = knobs in self._refused or was_measured_often
        return not is_left and self._ratio(knobs).ratio > 1 + LEAST_GAIN

    def _is_slower(self, move: Move) -> bool:
        """Return whether all of a move's prediction interval is slower than the present step, and
        than that of a move which is being undone while the forecast is made."""
        known = move.forecast
        if known is None or not known.is_known:
            return False
        return known.low_ms > self.now.step_ms and not known.low_ms <= known.now_ms

    def _expected_gain(self, move: Move) -> float:
        """Return the share of a step that a move saves by its forecast; below 0 where it is
        slower."""
        forecast, now = move.forecast, self.now
        if forecast is None or not forecast.is_known:
            return _HALF * now.wait_share
        step_ms = forecast.step_ms if math.isnan(forecast.mean_ms) else forecast.mean_ms
        return 1 - step_ms / now.step_ms

    def _stop(self, moves: Sequence[Move], limits: SearchLimits) -> Stop:
        if any(move.knob != CACHE for move in moves):
            left = f"{max(limits.steps, 0)} of {BUDGET} steps are left"
            return Stop("budget", f"{left}, not enough to judge another switch")
        cache = "; a cache (key c) would gain from the epoch after it is filled" if moves else ""
        return Stop("nothing_left", f"no other switch is left to try{cache}")


def _mean_log(measured: Sequence[Measurement]) -> tuple[float, float]:
    """Return the mean logarithm of a setting's step, each visit by its exactness, and its standard
    error."""
    weights = [1 / ((one.error_ms / one.step_ms) ** 2 + _VARIATION**2) for one in measured]
    logs = [math.log(one.step_ms) for one in measured]
    mean = sum(log * weight for log, weight in zip(logs, weights, strict=True)) / sum(weights)
    return mean, math.sqrt(1 / sum(weights))


def _why_not(known: Estimate) -> str:
    if known.high < 1:
        return "slower"
    if known.high <= 1 + LEAST_GAIN:
        return f"no gain of {units.percent(LEAST_GAIN)}"
    return f"a gain of {units.percent(LEAST_GAIN)} is not proved"

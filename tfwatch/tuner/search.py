"""The choice of the autopilot: the next setting to try, the judgement of the last one, and the
reason to stop.

Pure functions of settings, steps and forecasts. The next move is the switch with the largest
forecast gain, and none is made that is slower by its forecast. A move is judged as a switch by key
is, against the steps of the setting before it: it is kept where the step is proved shorter, and
undone at the first look at which no gain worth having is left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from tfwatch.core import units
from tfwatch.core.knobs import (
    COPY_KNOBS,
    DEVICE_PREFETCH,
    KNOBS,
    OFF,
    PINNED,
    PREFETCH,
    WORKERS,
    KnobChange,
)
from tfwatch.core.rows import Flag, step_ms
from tfwatch.judge.effects.comparison import LEAST, effect_between
from tfwatch.judge.effects.interval import Estimate
from tfwatch.judge.forecasts.predict import needed_bytes
from tfwatch.judge.steps.steady_steps import breakdown, steady
from tfwatch.tuner.client import settling_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tfwatch.core.rows import Rows
    from tfwatch.judge.forecasts.forecast import Forecast
    from tfwatch.judge.steps.steady_steps import Breakdown

    MakeForecast: TypeAlias = Callable[[Mapping[str, str]], "Forecast | None"]

Cause: TypeAlias = Literal["not_starving", "nothing_left", "budget"]

#: Settled steps of the run that a whole search may take, and those of them in settings that are
#: slower than the first.
BUDGET, SLOW_BUDGET = 400, 40
#: The steps of the current setting that a move is compared with; the most steps that it is judged
#: by, and those from which on one without a gain so far is undone.
BASE, MOST, _HALF = 60, 120, 40
#: A step with a smaller share of data wait does not starve: without any it is 4 % shorter at most.
NOT_STARVING_BELOW = 0.04
#: Another way to copy batches is tried from this share of a step on, in which the device idles: of
#: copies from ordinary memory, and of those from pinned memory, which one ahead hides.
_COPY_FROM, _PINNED_FROM = 0.20, 0.05
#: The fewest epochs after a move whose begin is compared.
_LEAST_BEGINS = 3
#: The share of a step that a move has to save to be worth having.
LEAST_GAIN = 0.02
#: Without a forecast, a switch is expected to save this share of the data wait.
_EXPECTED = 0.5
#: The first prefetch depth, and the deepest: more only helps with bursts. Where compute and host
#: take less than this, a search begins with the deepest.
_FIRST_DEPTH, _MOST_DEPTH, _SHORT_MS = 4, 16, 3.0
#: The most workers: they overlap 100 ms of a slow disk with steps of 2 ms.
_MOST_WORKERS = 64
#: The first workers: this many times the number that overlaps all data work at full speedup, and at
#: most this many or the number of cores. Where batches can be copied ahead they are twice as many,
#: as far as there are cores, as that shortens the step too: eight held a step at 6.2 ms.
_SPARE, _MOST_FIRST = 1.25, 8
#: Workers double, and grow fourfold above this share of data wait, as a buffer does.
_HIGH_WAIT_SHARE = 0.75
#: On a CPU that also trains, this many workers a core were the best of the grid where few were no
#: better than none.
_CROWD = 4
_OFF = ("off", "default")


@dataclass(frozen=True, slots=True)
class Move:
    """Switches to make together."""

    changes: tuple[KnobChange, ...]
    #: None where there is none.
    forecast: Forecast | None = None

    @property
    def settings(self) -> dict[str, str]:
        """The new settings."""
        return {change.knob: change.new for change in self.changes}


@dataclass(frozen=True, slots=True)
class Stop:
    """The end of a search. reason: one sentence."""

    cause: Cause
    reason: str


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """The resources of a search."""

    #: For buffers, beyond those of the start.
    memory_bytes: float
    #: Of one batch; None where it is unknown, and then no buffer grows beyond the first.
    batch_bytes: float | None
    #: Of the run.
    cores: int
    #: The knobs that can be switched.
    switchable: frozenset[str]
    #: The steps run on a device beside the CPU.
    accelerated: bool
    #: The copy of a batch from pinned memory within the step's call; None where it is not so.
    copy_in_call_ms: float | None = None


class AutopilotSearch:
    """One search, from the settings at its start and at least 20 steady steps with them.

    Attributes:
        knobs: the current settings. start: the first ones. rows, now: the steps of the current
        settings, and their parts. first: the parts at the start.
        reason: why the newest move was not kept, in words; empty where it was.
    """

    def __init__(self, knobs: Mapping[str, str], rows: Rows, limits: SearchLimits) -> None:
        self.knobs = dict(knobs)
        self.start = dict(knobs)
        self.rows = rows
        self.first = self.now = _parts(rows)
        self.reason = ""
        self._limits = limits
        self._tried = [dict(knobs)]
        self._slow_steps = 0

    @property
    def changed(self) -> frozenset[str]:
        """The knobs that differ from their settings at the start."""
        return frozenset(knob for knob, value in self.knobs.items() if value != self.start[knob])

    def next(self, make_forecast: MakeForecast, steps_left: int) -> Move | Stop:
        """Return the next move, or the reason to stop. make_forecast: of a switch from the current
        settings."""
        if not (self._starves or self._is_copy_bound):
            return Stop("not_starving", self._why_over)
        moves = self._ranked(make_forecast)
        if not moves:
            return Stop("nothing_left", "no other switch is left to try")
        needed = settling_steps({**self.knobs, **moves[0].settings}) + LEAST
        if steps_left < 2 * needed:
            left = f"{max(steps_left, 0)} of {BUDGET} settled steps are left"
            return Stop("budget", f"{left}, not enough to judge another switch")
        if self._slow_steps and self._slow_steps + needed > SLOW_BUDGET:
            slow = f"it spent {self._slow_steps} steps in settings slower than the first"
            return Stop("budget", f"{slow}, which is enough")
        return moves[0]

    def judge(
        self, move: Move, rows: Rows, longer_begins_ms: float | None = 0.0, *, last: bool
    ) -> bool | None:
        """Judge a move by its settled steps. Returns whether it is kept; None where it needs more
        steps.

        longer_begins_ms: how much longer its epochs take to begin, for each of their steps; None
        where too few have begun, and more have to.
        """
        effect = effect_between(self.rows, rows, move.settings, self._limits.accelerated)
        if effect is None:
            return self._refuse(move, "not enough steps to judge it") if last else None
        after = _parts(rows)
        gain = _divided(effect.estimate, 1 + (longer_begins_ms or 0.0) / after.step.mean)
        kept = _is_kept(gain)
        is_open = longer_begins_ms is None if kept else _is_open(gain, len(rows))
        if is_open and not last:
            return None
        if not kept:
            if after.step.median > (1 + LEAST_GAIN) * self.first.step.median:
                self._slow_steps += len(rows) + settling_steps(move.settings)
            why = "its epochs take longer to begin" if _is_kept(effect.estimate) else _why_not(gain)
            return self._refuse(move, why)
        self.knobs |= move.settings
        self._tried.append(dict(self.knobs))
        self.reason = ""
        self.measure(rows)
        return True

    def measure(self, rows: Rows) -> None:
        """Take the steps of the current settings; the next move is compared with them."""
        self.rows, self.now = rows, _parts(rows)

    def exclude(self, move: Move) -> None:
        """Exclude the setting of a move that was refused."""
        self._tried.append({**self.knobs, **move.settings})

    def _refuse(self, move: Move, reason: str) -> bool:
        self.exclude(move)
        self.reason = reason
        return False

    # -- moves ------------------------------------------------------------------------------------

    @property
    def _starves(self) -> bool:
        return self.now.wait_share >= NOT_STARVING_BELOW

    @property
    def _why_over(self) -> str:
        """The reason to stop where steps hardly wait for data."""
        wait = f"data wait is only {units.percent(self.now.wait_share)} of a step"
        if not self._has_long_copy:
            return wait
        return f"{wait}, and no other way to copy its batch is left to try"

    @property
    def _is_copy_bound(self) -> bool:
        """True where batches can be copied to the device in another way, and their copy takes
        long."""
        return self._has_long_copy and bool(self._copies())

    @property
    def _has_long_copy(self) -> bool:
        copy_ms = self.now.copy.mean if self.now.copy else self._limits.copy_in_call_ms
        is_pinned = self.now.copy is None or self.knobs.get(PINNED, OFF) != OFF
        least = _PINNED_FROM if is_pinned else _COPY_FROM
        return copy_ms is not None and copy_ms >= least * self.now.step.mean

    def _copies(self) -> list[dict[str, str]]:
        """Return the settings that copy batches to the device in another way."""
        is_in_call = self._limits.copy_in_call_ms is not None
        knobs = (DEVICE_PREFETCH,) if is_in_call else COPY_KNOBS
        offered = [knob for knob in knobs if self.knobs.get(knob) == OFF]
        settings = ({knob: KNOBS[knob].first_on} for knob in offered)
        return [one for one in settings if self._is_new(one)]

    def _ranked(self, make_forecast: MakeForecast) -> list[Move]:
        """Return the moves that are not slower by their forecasts, the largest expected gain
        first."""
        candidates = self._copies() if self._is_copy_bound else []
        if self._starves:
            candidates = [*candidates, *self._candidates()]
        moves = []
        for settings in candidates:
            changes = (KnobChange(knob, self.knobs[knob], new) for knob, new in settings.items())
            moves.append(Move(tuple(changes), make_forecast(settings)))
        ranked = [(self._expected_gain(move), move) for move in moves]
        ranked.sort(key=lambda one: -one[0])
        return [move for gain, move in ranked if gain >= 0]

    def _candidates(self) -> list[dict[str, str]]:
        """Return the settings that may shorten data wait and fit the memory limit."""
        is_far = self.now.wait_share >= _HIGH_WAIT_SHARE
        first_depth = _MOST_DEPTH if self.now.work_mean_ms < _SHORT_MS else _FIRST_DEPTH
        depth = self._larger(PREFETCH, first_depth, 4, _MOST_DEPTH)
        workers = self._larger(WORKERS, self._first_workers, 4 if is_far else 2, _MOST_WORKERS)
        wanted = [workers, depth, *self._crowding()]
        if self._is_first(PREFETCH) and self._is_first(WORKERS) and self.now.wait_share > 0.5:
            wanted = [{**depth, **workers}, *wanted]
        fitting = [self._fitting(settings) for settings in wanted if settings]
        return [settings for settings in fitting if self._is_new(settings)]

    def _crowding(self) -> list[dict[str, str]]:
        """Return many workers, which may get more of the cores of a CPU that also trains."""
        if self._limits.accelerated or self._limits.batch_bytes is None:
            return []
        many = {WORKERS: str(min(_CROWD * max(self._limits.cores, 2), _MOST_WORKERS))}
        return [many] if self._is_first(PREFETCH) else [many, {**many, PREFETCH: "off"}]

    def _larger(self, knob: str, first: int, times: int, most: int) -> dict[str, str]:
        """Return the next larger setting of a knob; empty where there is none."""
        value = self.knobs.get(knob, "auto")
        if value in _OFF:
            return {knob: str(first)}
        return {knob: str(min(times * int(value), most))} if value.isdigit() else {}

    def _is_first(self, knob: str) -> bool:
        return self.knobs.get(knob) in _OFF

    def _is_new(self, settings: Mapping[str, str]) -> bool:
        """Return whether settings can be switched, and were not tried yet."""
        can_switch = bool(settings) and settings.keys() <= self._limits.switchable
        return can_switch and {**self.knobs, **settings} not in self._tried

    def _fitting(self, settings: dict[str, str]) -> dict[str, str]:
        """Return settings, halved until their buffers fit the memory limit; empty where none
        does."""
        while not self._fits(settings):
            if not all(value.isdigit() and int(value) > 1 for value in settings.values()):
                return {}
            settings = {knob: str(int(value) // 2) for knob, value in settings.items()}
        return settings

    def _fits(self, settings: Mapping[str, str]) -> bool:
        """Return whether buffers stay within the memory limit. Without a batch size, only first
        buffers do."""
        each = self._limits.batch_bytes
        if each is None:
            return all(self._is_first(knob) for knob in settings)
        more = needed_bytes({**self.knobs, **settings}, each) - needed_bytes(self.start, each)
        return more <= self._limits.memory_bytes

    @property
    def _first_workers(self) -> int:
        """The workers that overlap all data work if each gives its full speedup: a power of two, or
        the number of cores."""
        cores = self._limits.cores
        times = _SPARE * self.now.wait.mean / max(self.now.work_mean_ms, 1e-3)
        first = min(1 << math.ceil(math.log2(max(times, 2.0))), max(_MOST_FIRST, cores))
        is_copied = DEVICE_PREFETCH in self._limits.switchable
        return max(min(2 * first, cores), first) if is_copied else first

    def _expected_gain(self, move: Move) -> float:
        """Return the share of a step that a move saves by its forecast; below 0 where it is
        slower."""
        forecast = move.forecast
        if forecast is None or not forecast.is_known:
            return _EXPECTED * self.now.wait_share
        return 1 - 1 / forecast.ratio


def _parts(rows: Rows) -> Breakdown:
    split = breakdown(steady(rows))
    assert split is not None
    return split


def longer_begins_ms(before: Rows, after: Rows) -> float | None:
    """Return how much longer epochs take to begin after a switch, for each of their steps, in
    milliseconds; 0 where none begins before it, None where fewer than three do after it alone.

    Arrays in epochs of 25 steps had 0.08 s more in each with a prefetch to the device (H200): it
    gained 1.1 ms in the others.
    """
    was, now = map(_first_steps, (before, after))
    if not len(was) or len(now) < _LEAST_BEGINS:
        return None if len(was) else 0.0
    more_ms = float(np.median(step_ms(now)) - np.median(step_ms(was)))
    return max(more_ms, 0.0) / float(np.median(np.diff(now["step"].astype(np.int64))))


def _first_steps(rows: Rows) -> Rows:
    """Return the first steps of epochs, without those in which something else took time too."""
    firsts: Rows = rows[rows["flags"] == int(Flag.EPOCH_START)]
    return firsts


def _divided(gain: Estimate, by: float) -> Estimate:
    return Estimate(gain.ratio / by, gain.low / by, gain.high / by)


def _is_kept(gain: Estimate) -> bool:
    """Return whether a gain is proved, and worth having."""
    return gain.low > 1 and gain.ratio > 1 + LEAST_GAIN


def _is_open(gain: Estimate, steps: int) -> bool:
    """Return whether more steps may prove a gain worth having."""
    looks_faster = gain.ratio > 1 + LEAST_GAIN
    return gain.high > 1 + LEAST_GAIN and (looks_faster or steps < _HALF)


def _why_not(gain: Estimate) -> str:
    if gain.high < 1:
        return "slower"
    if gain.high <= 1 + LEAST_GAIN or gain.ratio <= 1 or gain.low > 1:
        return f"no gain of {units.percent(LEAST_GAIN)}"
    return "not proved faster"

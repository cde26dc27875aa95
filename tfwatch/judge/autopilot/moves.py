"""The moves of the autopilot: their limits, their cost in steps and memory, and the candidates from
a setting."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from tfwatch.core.knobs import (
    CACHE,
    DEVICE_PREFETCH,
    KNOBS,
    PREFETCH,
    WORKERS,
    KnobChange,
)
from tfwatch.judge.autopilot.measurement import buffered_steps, settling_steps
from tfwatch.judge.forecasts.batch_supply import needed_bytes
from tfwatch.judge.steps.steady_steps import COPY_FROM

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tfwatch.judge.autopilot.measurement import Measurement
    from tfwatch.judge.forecasts.forecast import Forecast

    MakeForecast: TypeAlias = Callable[[Mapping[str, str]], "Forecast | None"]

#: Steady steps that a move is judged by: at least, and at most.
LEAST, MOST = 20, 40
#: Steps of the run that a whole search may take.
BUDGET = 400
#: The first prefetch depth.
FIRST_DEPTH = 4

Cause: TypeAlias = Literal["not_starving", "nothing_left", "budget"]


@dataclass(frozen=True, slots=True)
class Move:
    """Switches to make together."""

    changes: tuple[KnobChange, ...]
    #: None where there is none.
    forecast: Forecast | None = None

    @property
    def knob(self) -> str:
        """The knob of the first switch."""
        return self.changes[0].knob

    @property
    def old(self) -> str:
        """The old setting of the first switch."""
        return self.changes[0].old

    @property
    def new(self) -> str:
        """The new setting of the first switch."""
        return self.changes[0].new

    @property
    def beside(self) -> tuple[KnobChange, ...]:
        """The switches after the first."""
        return self.changes[1:]

    def settings_after(self, knobs: Mapping[str, str]) -> dict[str, str]:
        return {**knobs, **{change.knob: change.new for change in self.changes}}


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
    #: The rest of the budget.
    steps: int = BUDGET
    #: Until the epoch after the next, the first that reads from a cache which fills from now on;
    #: None where unknown.
    epoch_steps: int | None = None
    #: The most steps between the request for a switch and its effect so far.
    switch_steps: int = 0

    def buffered_steps(self, knobs: Mapping[str, str]) -> int:
        """Return the steps until another setting is in effect: the buffered ones, or the most that
        a switch took."""
        return max(buffered_steps(knobs), self.switch_steps)


@dataclass(frozen=True)
class SearchState:
    """The state of a search: its first and current settings, and what these measure."""

    start: Mapping[str, str]
    knobs: Mapping[str, str]
    now: Measurement
    #: Settings that were measured or refused.
    visited: Sequence[Mapping[str, str]] = ()
    #: Returns the forecast of a switch from here.
    make_forecast: MakeForecast = lambda settings_after: None


def judging_steps(state: SearchState, move: Move, limits: SearchLimits) -> int:
    """Return the number of steps that a move may be judged by: the budget less the switches there
    and back."""
    knobs = state.knobs
    settings_after = move.settings_after(knobs)
    switching = (
        limits.buffered_steps(knobs)
        + settling_steps(settings_after)
        + limits.buffered_steps(settings_after)
    )
    first = (
        0 if move.knob != CACHE else max((limits.epoch_steps or BUDGET) - buffered_steps(knobs), 0)
    )
    return min(MOST, limits.steps - switching - first)


#: The most workers: they overlap 100 ms of a slow disk with steps of 2 ms.
_MOST_WORKERS = 64
#: Workers double and a buffer grows fourfold; above this share of data wait, workers grow fourfold
#: too.
_HIGH_WAIT_SHARE = 0.75
#: The first workers: this many times the number that overlaps all data work at full speedup, and at
#: most this many or the number of cores.
_SPARE, _MOST_FIRST = 1.25, 8
#: The deepest buffer: more only helps with bursts. Where compute and host take less than this, a
#: search begins there.
_MOST_DEPTH, _SHORT_MS = 16, 3.0
#: On a CPU that also trains, this many workers per core were the best of the grid where few were no
#: better than none.
_CROWD = 4
_OFF = ("off", "default")


def find_data_wait_moves(state: SearchState, limits: SearchLimits) -> list[Move]:
    """Return the moves that may shorten data wait, the most promising kinds first."""
    prefetch, workers = state.knobs.get(PREFETCH, "off"), state.knobs.get(WORKERS, "off")
    moves: list[Move | None] = []
    if (
        prefetch in _OFF
        and workers in _OFF
        and state.now.work_ms < state.now.step_ms - state.now.work_ms
    ):
        moves.append(_prefetch_and_workers(state, limits, _first_workers(state, limits)))
    calls = (
        _largest_fitting(state, limits, WORKERS, _first_workers(state, limits))
        if workers in _OFF
        else _next_larger(state, limits, WORKERS)
    )
    first = _largest_fitting(state, limits, PREFETCH, _first_depth(state))
    depth = first if prefetch in _OFF else _next_larger(state, limits, PREFETCH)
    changes = (WORKERS, calls), (PREFETCH, depth), (CACHE, "on")
    moves += [_move(state, (knob, value)) for knob, value in changes if value]
    return _new_moves(state, limits, moves)


def find_copy_moves(state: SearchState, limits: SearchLimits) -> list[Move]:
    """Return the move that copies batches to the device ahead, where the copy is the limit."""
    if (
        state.now.copy_ms < COPY_FROM * state.now.step_ms
        or state.knobs.get(DEVICE_PREFETCH) != "off"
    ):
        return []
    move = _move(state, (DEVICE_PREFETCH, KNOBS[DEVICE_PREFETCH].first_on))
    return _new_moves(state, limits, [move])


def find_crowding_moves(state: SearchState, limits: SearchLimits) -> list[Move]:
    """Return the moves to many workers, which may get more of the cores of a CPU that also
    trains."""
    if limits.accelerated or limits.batch_bytes is None:
        return []
    many = (WORKERS, str(min(_CROWD * max(limits.cores, 2), _MOST_WORKERS)))
    moves = [_move(state, many)]
    if state.knobs.get(PREFETCH, "off") not in _OFF:
        moves.append(_move(state, many, (PREFETCH, "off")))
    return _new_moves(state, limits, moves)


def fits(state: SearchState, limits: SearchLimits, move: Move) -> bool:
    """Return whether a move's buffers stay within the memory limit. Without a batch size, only
    first buffers do."""
    if move.knob == CACHE:
        needed = move.forecast.needs_bytes if move.forecast else None
        return needed is not None and needed <= limits.memory_bytes
    if limits.batch_bytes is None:
        return all(
            change.old in _OFF or _number(change.new) <= _number(change.old)
            for change in move.changes
        )
    after = needed_bytes(move.settings_after(state.knobs), limits.batch_bytes)
    return after - needed_bytes(state.start, limits.batch_bytes) <= limits.memory_bytes


def _first_workers(state: SearchState, limits: SearchLimits) -> int:
    """Return the workers that overlap all data work if each gives its full speedup: a power of
    two."""
    times = _SPARE * (state.now.step_ms - state.now.work_ms) / max(state.now.work_ms, 1e-3)
    return min(1 << math.ceil(math.log2(max(times, 2.0))), max(_MOST_FIRST, limits.cores))


def _first_depth(state: SearchState) -> int:
    return _MOST_DEPTH if state.now.work_ms < _SHORT_MS else FIRST_DEPTH


def _prefetch_and_workers(state: SearchState, limits: SearchLimits, calls: int) -> Move | None:
    """Return a move of prefetch and workers that fits the memory limit."""
    if not {PREFETCH, WORKERS} <= set(state.knobs):
        return None
    while calls >= 2:
        depth = _largest_fitting(state, limits, PREFETCH, _first_depth(state))
        move = _move(state, (PREFETCH, depth), (WORKERS, str(calls)))
        if move is None or fits(state, limits, move):
            return move
        calls //= 2
    return None


def _move(state: SearchState, *changes: tuple[str, str]) -> Move | None:
    """Return the move to these values; None where a knob is missing, or nothing changes."""
    if any(knob not in state.knobs for knob, _ in changes):
        return None
    now = state.knobs
    changed = tuple(KnobChange(knob, now[knob], new) for knob, new in changes if now[knob] != new)
    if not changed:
        return None
    return Move(changed, state.make_forecast({change.knob: change.new for change in changed}))


def _new_moves(state: SearchState, limits: SearchLimits, moves: list[Move | None]) -> list[Move]:
    """Return the moves of switchable knobs that lead to unvisited settings."""
    return [
        move
        for move in moves
        if move
        and all(change.knob in limits.switchable for change in move.changes)
        and move.settings_after(state.knobs) not in state.visited
    ]


def _largest_fitting(state: SearchState, limits: SearchLimits, knob: str, most: int) -> str:
    """Return the first value of a knob that is off: `most`, halved until it fits the memory
    limit."""
    fitting = most
    while fitting > 1 and not _value_fits(state, limits, knob, str(fitting)):
        fitting //= 2
    return str(fitting)


def _next_larger(state: SearchState, limits: SearchLimits, knob: str) -> str:
    """Return the next larger value that fits the memory limit; empty where there is none."""
    value = state.knobs[knob]
    most = _MOST_DEPTH if knob == PREFETCH else _MOST_WORKERS
    if not value.isdigit() or int(value) >= most:
        return ""
    wide, next_up = (str(min(times * int(value), most)) for times in (4, 2))
    far = knob == PREFETCH or state.now.wait_share >= _HIGH_WAIT_SHARE
    return wide if far and _value_fits(state, limits, knob, wide) else next_up


def _value_fits(state: SearchState, limits: SearchLimits, knob: str, value: str) -> bool:
    return fits(state, limits, Move((KnobChange(knob, state.knobs.get(knob, "off"), value),)))


def _number(value: str) -> int:
    return int(value) if value.isdigit() else 0

"""What a walk consists of: moves and reasons to stop, what they may use, and how many steps and bytes a move takes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from tfwatch.analysis.supply import depth
from tfwatch.core.rows import Flag

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tfwatch.analysis.forecast import Forecast
    from tfwatch.analysis.gain import Measured
    from tfwatch.core.knobs import KnobChange
    from tfwatch.core.rows import Rows

    Foretell: TypeAlias = Callable[[Mapping[str, str]], "Forecast | None"]

#: Steady steps of a judging stretch: so many at least, so many at most.
LEAST, MOST = 20, 40
#: Steps that a new pipeline needs to settle, and so many more for what its buffers hold.
_SETTLING, _MOST_TOGETHER = 4, 16
#: Steps of the run that the whole walk may take.
BUDGET = 400
#: A first buffer.
FIRST_DEPTH = 4
#: Flags after which a pipeline begins anew.
_BEGINS = np.uint16(Flag.EPOCH_START | Flag.SHUFFLE_FILL | Flag.SWITCH)

Cause: TypeAlias = Literal["fed", "floor", "tried", "budget"]


@dataclass(frozen=True, slots=True)
class Move:
    """Knobs to turn, at once; why, in one sentence.

    forecast: None where there is none.
    """

    turns: tuple[KnobChange, ...]
    why: str
    forecast: Forecast | None = None

    @property
    def knob(self) -> str:
        """The knob that is turned first."""
        return self.turns[0].knob

    @property
    def old(self) -> str:
        """What that one is turned from."""
        return self.turns[0].old

    @property
    def new(self) -> str:
        """What that one is turned to."""
        return self.turns[0].new

    @property
    def beside(self) -> tuple[KnobChange, ...]:
        """The other turns."""
        return self.turns[1:]

    def turned(self, knobs: Mapping[str, str]) -> dict[str, str]:
        """The settings after it."""
        return {**knobs, **{turn.knob: turn.new for turn in self.turns}}


@dataclass(frozen=True, slots=True)
class Stop:
    """Nothing more to do, and why, in one sentence."""

    cause: Cause
    reason: str


@dataclass(frozen=True, slots=True)
class Limits:
    """What a walk may use.

    memory_bytes: what buffers may take beyond those of the start. batch_bytes: of one batch; None where it is unknown,
    and then no buffer grows beyond the first. cores: that the run may use. open: the knobs that can be switched.
    accelerated: the steps run on a device beside the CPU. steps: that are left of the budget. epoch_steps: until the
    epoch after the next, which a cache that fills from now on serves; None where nobody knows. switch_steps: the most
    that a switch has taken so far, from where it was asked for to where it took effect.
    """

    memory_bytes: float
    batch_bytes: float | None
    cores: int
    open: frozenset[str]
    accelerated: bool
    steps: int = BUDGET
    epoch_steps: int | None = None
    switch_steps: int = 0

    def in_flight(self, knobs: Mapping[str, str]) -> int:
        """Steps until another setting is in effect: what the buffers still give, or what a switch took before."""
        return max(in_flight(knobs), self.switch_steps)


@dataclass(frozen=True)
class Place:
    """Where a walk stands: the settings at its start and now, and the steps measured under those of now.

    been: settings that were measured, and that could not be had. foretell: the forecast of knobs turned to values from
    here. floor_ms: the device's own time a step, as far as it is known.
    """

    start: Mapping[str, str]
    knobs: Mapping[str, str]
    now: Measured
    been: Sequence[Mapping[str, str]] = ()
    foretell: Foretell = lambda turned: None
    floor_ms: float = math.inf


def stretch(place: Place, move: Move, limits: Limits) -> int:
    """How many steps a move from here may be judged by: what is left without switching there and back."""
    knobs = place.knobs
    turned = move.turned(knobs)
    switching = limits.in_flight(knobs) + settling(turned) + limits.in_flight(turned)
    first = 0 if move.knob != "cache" else max((limits.epoch_steps or BUDGET) - in_flight(knobs), 0)
    return min(MOST, limits.steps - switching - first)


def settling(knobs: Mapping[str, str]) -> int:
    """Steps left out after a switch: what the new buffers make together at first comes together."""
    return _SETTLING + min(in_flight(knobs), _MOST_TOGETHER)


def in_flight(knobs: Mapping[str, str]) -> int:
    """Steps that a setting's buffers still give after another is asked for, and one to begin with."""
    return depth(knobs.get("prefetch", "off")) + depth(knobs.get("workers", "off")) + 1


def settled(rows: Rows, steps: int) -> Rows:
    """The rows without so many steps each time that a pipeline begins anew."""
    keep = np.ones(len(rows), dtype=np.bool_)
    for start in np.flatnonzero(rows["flags"] & _BEGINS):
        keep[start : start + steps] = False
    return rows[keep]

"""Causes of slow steps: events and rows joined by time, and the limits that heat and memory set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from tfwatch.core.events import Event, Paused

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

#: A pause explains a slow step where it covers this share of its extra time.
_COVERS = 0.5
#: The process got no CPU time: nothing that it did was slow.
STOPPED = "process stopped"
#: Heat lowers clocks for minutes: all steps get slower, not a single one.
THERMAL = "thermal limit"
#: The order of the search: a collection, which may run in a callback; then the callback; then
#: causes of the machine.
_RANK = {
    STOPPED: 0,
    "garbage collection": 1,
    "checkpoint": 2,
    "callback": 2,
    "swap": 3,
    "CPU contention": 4,
    THERMAL: 5,
}
_BETWEEN_STEPS = ("checkpoint", "callback")
#: Heat explains a single slow step only where the limit began with it: sensors read twice a second.
_ONSET_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class SlowStepCause:
    """A cause in words, e.g. `callback` and its class `CSVLogger`; `detail` may be empty."""

    name: str
    detail: str = ""


UNEXPLAINED = SlowStepCause("unexplained")


class Pauses:
    """The pauses among a run's events."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        known = [
            event
            for event in events
            if isinstance(event, Paused) and event.cause in _RANK and event.took_ms > 0
        ]
        pauses = [*(event for event in known if event.cause != THERMAL)]
        pauses += [limit for limit in find_limits(known) if limit.cause == THERMAL]
        self._events = sorted(pauses, key=lambda event: event.at_ns)
        self._end_ns: NDArray[np.float64] = np.array(
            [event.at_ns for event in self._events], dtype=np.float64
        )
        took_ns = np.array([event.took_ms * 1e6 for event in self._events], dtype=np.float64)
        self._begin_ns: NDArray[np.float64] = self._end_ns - took_ns
        self._longest_ns = float(took_ns.max(initial=0.0))

    def cause(self, start_ns: float, end_ns: float, extra_ms: float, part: str) -> SlowStepCause:
        """Find the cause for which the `part` (`wait`, `compute` or `host`) of a step took
        `extra_ms` longer."""
        first = int(np.searchsorted(self._end_ns, start_ns, side="right"))
        last = int(np.searchsorted(self._end_ns, end_ns + self._longest_ns, side="right"))
        overlap = np.minimum(self._end_ns[first:last], end_ns) - np.maximum(
            self._begin_ns[first:last], start_ns
        )
        covering = np.flatnonzero(overlap >= _COVERS * extra_ms * 1e6) + first
        fitting = [at for at in covering.tolist() if self._fits(at, start_ns, part)]
        if not fitting:
            return UNEXPLAINED
        best = min(fitting, key=lambda at: (_RANK[self._events[at].cause], -overlap[at - first]))
        return SlowStepCause(self._events[best].cause, self._events[best].detail)

    def covered(self, name: str, start_ns: float, end_ns: float) -> float:
        """Return the share of a stretch of time, 0 to 1, that pauses of this cause cover."""
        own = np.array([event.cause == name for event in self._events], dtype=np.bool_)
        overlap = np.minimum(self._end_ns[own], end_ns) - np.maximum(self._begin_ns[own], start_ns)
        return float(np.maximum(overlap, 0).sum()) / max(end_ns - start_ns, 1.0)

    def _fits(self, at: int, start_ns: float, part: str) -> bool:
        if self._events[at].cause == THERMAL:
            return bool(self._begin_ns[at] >= start_ns - _ONSET_NS)
        return part == "host" or self._events[at].cause not in _BETWEEN_STEPS


#: The causes of `Paused` that are limits: a letter and a word for each.
LIMITS = {"thermal limit": ("H", "heat"), "swap": ("M", "swap")}
#: Sensors report a lasting limit in pieces; pieces nearer than this are one stretch.
_NEAR_NS = 1_500_000_000


def find_limits(events: Iterable[object]) -> list[Paused]:
    """Return the limits among a run's events, one for each stretch; `detail` is that of the last
    piece."""
    limits: list[Paused] = []
    for event in events:
        if isinstance(event, Paused) and event.cause in LIMITS:
            join_piece(limits, event)
    return limits


class RunningLimits:
    """The limits of a run in progress; reads each event once."""

    def __init__(self) -> None:
        self._found: list[Paused] = []
        self._seen = 0

    def take(self, events: Sequence[object]) -> list[Paused]:
        """Return the limits; every call passes all events of the same run."""
        for event in events[self._seen :]:
            if isinstance(event, Paused) and event.cause in LIMITS:
                join_piece(self._found, event)
        self._seen = max(self._seen, len(events))
        return self._found


def join_piece(limits: list[Paused], piece: Paused) -> None:
    """Add a piece to the limits so far: to the stretch that it continues, or as a new one."""
    at = next((at for at in reversed(range(len(limits))) if limits[at].cause == piece.cause), None)
    if at is None or _begin_ns(piece) - limits[at].at_ns > _NEAR_NS:
        limits.append(piece)
    else:
        limits[at] = replace(piece, took_ms=(piece.at_ns - _begin_ns(limits[at])) / 1e6)


def _begin_ns(limit: Paused) -> int:
    return limit.at_ns - round(limit.took_ms * 1e6)


def limit_time_s(events: Iterable[object], cause: str) -> float:
    """Return the seconds of a run for which a limit of this cause held."""
    return sum(limit.took_ms for limit in find_limits(events) if limit.cause == cause) / 1e3

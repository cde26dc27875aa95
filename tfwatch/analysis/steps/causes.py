"""Causes that hold a step up: events and rows joined by time, and the limits of heat and memory.

What held a step up: events and rows joined by time.

Heat and memory as limits of the machine: stretches of a run in which it could not go as fast as it can.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core.events import Event, Paused

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

#: A pause explains a step where it covers this share of what the step took too long.
_COVERS = 0.5
#: The process got no CPU at all: nothing that it did was slow.
STOPPED = "process stopped"
#: Told by limits of the machine: it lowers clocks for minutes, so that steps get slower, and not one of them.
THERMAL = "thermal limit"
#: What is looked at first: a collection, which may happen in a callback; then the callback; then what held everybody.
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
#: Heat explains a step that stands out only where it began to limit then: sensors look twice a second.
_ONSET_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Cause:
    """Why in words, e.g. `callback` and its class `CSVLogger`; `detail` may be empty."""

    name: str
    detail: str = ""


UNEXPLAINED = Cause("unexplained")


class Pauses:
    """The pauses that a run's events tell of."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        known = [event for event in events if isinstance(event, Paused) and event.cause in _RANK and event.took_ms > 0]
        found = [*(event for event in known if event.cause != THERMAL)]
        found += [limit for limit in limits(known) if limit.cause == THERMAL]
        self._events = sorted(found, key=lambda event: event.at_ns)
        self._end_ns: NDArray[np.float64] = np.array([event.at_ns for event in self._events], dtype=np.float64)
        took_ns = np.array([event.took_ms * 1e6 for event in self._events], dtype=np.float64)
        self._begin_ns: NDArray[np.float64] = self._end_ns - took_ns
        self._longest_ns = float(took_ns.max(initial=0.0))

    def cause(self, start_ns: float, end_ns: float, extra_ms: float, part: str) -> Cause:
        """Why the `part` (`wait`, `compute` or `host`) of a step between two times took `extra_ms` too long."""
        first = int(np.searchsorted(self._end_ns, start_ns, side="right"))
        last = int(np.searchsorted(self._end_ns, end_ns + self._longest_ns, side="right"))
        overlap = np.minimum(self._end_ns[first:last], end_ns) - np.maximum(self._begin_ns[first:last], start_ns)
        covering = np.flatnonzero(overlap >= _COVERS * extra_ms * 1e6) + first
        fitting = [at for at in covering.tolist() if self._fits(at, start_ns, part)]
        if not fitting:
            return UNEXPLAINED
        best = min(fitting, key=lambda at: (_RANK[self._events[at].cause], -overlap[at - first]))
        return Cause(self._events[best].cause, self._events[best].detail)

    def covered(self, name: str, start_ns: float, end_ns: float) -> float:
        """The share of a stretch of time, 0 to 1, that pauses of this cause cover."""
        own = np.array([event.cause == name for event in self._events], dtype=np.bool_)
        overlap = np.minimum(self._end_ns[own], end_ns) - np.maximum(self._begin_ns[own], start_ns)
        return float(np.maximum(overlap, 0).sum()) / max(end_ns - start_ns, 1.0)

    def _fits(self, at: int, start_ns: float, part: str) -> bool:
        if self._events[at].cause == THERMAL:
            return bool(self._begin_ns[at] >= start_ns - _ONSET_NS)
        return part == "host" or self._events[at].cause not in _BETWEEN_STEPS


#: The causes of `Paused` that are limits: a letter and a word for each.
LIMITS = {"thermal limit": ("H", "heat"), "swap": ("M", "swap")}
#: What lasts is told in pieces; pieces nearer than this are one stretch.
_NEAR_NS = 1_500_000_000


def limits(events: Iterable[object]) -> list[Paused]:
    """The limits among a run's events, the pieces of one stretch as one; `detail` is that of the last piece."""
    found: list[Paused] = []
    for event in events:
        if isinstance(event, Paused) and event.cause in LIMITS:
            joined(found, event)
    return found


class RunningLimits:
    """The limits of a run that goes on: each event is looked at once."""

    def __init__(self) -> None:
        self._found: list[Paused] = []
        self._seen = 0

    def take(self, events: Sequence[object]) -> list[Paused]:
        """As `limits`; every call hands in all events of the same run."""
        for event in events[self._seen :]:
            if isinstance(event, Paused) and event.cause in LIMITS:
                joined(self._found, event)
        self._seen = max(self._seen, len(events))
        return self._found


def joined(found: list[Paused], piece: Paused) -> None:
    """Add a piece to what was found so far: to the stretch that it goes on with, or as a new one."""
    at = next((at for at in reversed(range(len(found))) if found[at].cause == piece.cause), None)
    if at is None or _begin_ns(piece) - found[at].at_ns > _NEAR_NS:
        found.append(piece)
    else:
        found[at] = replace(piece, took_ms=(piece.at_ns - _begin_ns(found[at])) / 1e6)


def _begin_ns(limit: Paused) -> int:
    return limit.at_ns - round(limit.took_ms * 1e6)


def limited_s(events: Iterable[object], cause: str) -> float:
    """Seconds of a run for which a limit held, by its cause."""
    return sum(limit.took_ms for limit in limits(events) if limit.cause == cause) / 1e3

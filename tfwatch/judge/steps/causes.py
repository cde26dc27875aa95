"""Causes of long waits: events and rows joined by time, and the limits that heat and memory set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from tfwatch.core.events import Event, Paused

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

#: A pause explains a long wait where it covers this share of it.
_COVERS = 0.5
#: The process got no CPU time: nothing that it did was slow.
STOPPED = "process stopped"
#: Heat lowers clocks for minutes: all steps get slower, not a single one.
THERMAL = "thermal limit"
UNEXPLAINED = "unexplained"
#: The order of the search. Callbacks and checkpoints run between two steps, and delay no wait.
_RANK = {STOPPED: 0, "garbage collection": 1, "swap": 2, "CPU contention": 3, THERMAL: 4}
#: Heat explains a single wait only where the limit began with it: sensors read twice a second.
_ONSET_NS = 1_000_000_000


class Pauses:
    """The pauses among a run's events that may lengthen a wait."""

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

    def cause(self, start_ns: float, end_ns: float) -> str:
        """Return the cause that covers at least half of a wait; `unexplained` without one."""
        first = int(np.searchsorted(self._end_ns, start_ns, side="right"))
        last = int(np.searchsorted(self._end_ns, end_ns + self._longest_ns, side="right"))
        overlap = np.minimum(self._end_ns[first:last], end_ns) - np.maximum(
            self._begin_ns[first:last], start_ns
        )
        covering = np.flatnonzero(overlap >= _COVERS * (end_ns - start_ns)) + first
        fitting = [at for at in covering.tolist() if self._is_onset(at, start_ns)]
        best = min(
            fitting,
            key=lambda at: (_RANK[self._events[at].cause], -overlap[at - first]),
            default=None,
        )
        return UNEXPLAINED if best is None else self._events[best].cause

    def _is_onset(self, at: int, start_ns: float) -> bool:
        is_heat = self._events[at].cause == THERMAL
        return not is_heat or bool(self._begin_ns[at] >= start_ns - _ONSET_NS)


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


NO_PAUSES = Pauses()

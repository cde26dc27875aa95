"""What held a step up: events and rows joined by time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.analysis.limits import limits
from tfwatch.core.events import Event, Paused

if TYPE_CHECKING:
    from collections.abc import Iterable

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

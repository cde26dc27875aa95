"""Heat and memory as limits of the machine: stretches of a run in which it could not go as fast as it can."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tfwatch.core.events import Paused

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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

"""Heat and memory as limits of the machine: stretches of a run in which it could not go as fast as it can."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tfwatch.core.events import Paused

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The causes of `Paused` that are limits: a letter and a word for each.
LIMITS = {"thermal limit": ("H", "heat"), "swap": ("M", "swap")}
#: What lasts is told in pieces; pieces nearer than this are one stretch.
_NEAR_NS = 1_500_000_000


def limits(events: Iterable[object]) -> list[Paused]:
    """The limits among a run's events, the pieces of one stretch as one; `detail` is that of the last piece."""
    found: list[Paused] = []
    newest: dict[str, int] = {}
    for event in events:
        if not isinstance(event, Paused) or event.cause not in LIMITS:
            continue
        begin_ns, at = event.at_ns - round(event.took_ms * 1e6), newest.get(event.cause)
        if at is not None and begin_ns - found[at].at_ns <= _NEAR_NS:
            since_ns = found[at].at_ns - round(found[at].took_ms * 1e6)
            found[at] = replace(event, took_ms=(event.at_ns - since_ns) / 1e6)
        else:
            newest[event.cause] = len(found)
            found.append(event)
    return found


def limited_s(events: Iterable[object], cause: str) -> float:
    """Seconds of a run for which a limit held, by its cause."""
    return sum(limit.took_ms for limit in limits(events) if limit.cause == cause) / 1e3

"""The time for which a GPU waits for its next kernel within a step."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: The event of a thread that calls a `tf.function`, with its name.
_CALL = "EagerLocalExecute: __inference_"


class Busy(NamedTuple):
    """A kernel or a copy on a GPU, in picoseconds. of_call: it belongs to a `tf.function`."""

    begin: int
    end: int
    of_call: bool


def call_begins(host: Iterable[Any]) -> list[int]:
    """Return the begin of each call of a `tf.function`, picoseconds. host: the planes of the
    threads."""
    begins = []
    for plane in host:
        calls = {key for key, one in plane.event_metadata.items() if one.name.startswith(_CALL)}
        for line in plane.lines:
            begins += [begin_ps(line, one) for one in line.events if one.metadata_id in calls]
    return sorted(begins)


def begin_ps(line: Any, event: Any) -> int:
    """Return the begin of an event on the profile's clock, which threads and GPUs share."""
    return int(line.timestamp_ns) * 1000 + int(event.offset_ps)


def gaps_ps(busy: Iterable[Busy], begins: Sequence[int]) -> int:
    """Return the time in which one GPU runs nothing between the first and the last kernel of each
    call, on any of its streams.

    A kernel belongs to the call that began last: Keras waits for a step before it calls the next
    one. The time between two calls is data wait and host, and no gap.
    """
    gaps = waiting = until = 0
    call = -1
    for one in sorted(busy):
        waiting += max(one.begin - until, 0)
        until = max(until, one.end)
        if one.of_call:
            own = bisect_right(begins, one.begin)
            gaps += waiting if own == call else 0
            call, waiting = own, 0
    return gaps

"""The time for which a GPU waits for its next kernel within a step."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TypeAlias

    #: A begin and an end, picoseconds.
    Span: TypeAlias = tuple[int, int]

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


def gaps_of(busy: Iterable[Busy], begins: Sequence[int]) -> list[Span]:
    """Return the times in which one GPU runs nothing between the first and the last kernel of each
    call, on any of its streams.

    A kernel belongs to the call that began last: Keras waits for a step before it calls the next
    one. The time between two calls is data wait and host, and no gap.
    """
    gaps: list[Span] = []
    waiting: list[Span] = []
    until, call = 0, -1
    for one in sorted(busy):
        if one.begin > until:
            waiting.append((until, one.begin))
        until = max(until, one.end)
        if one.of_call:
            own = bisect_right(begins, one.begin)
            gaps += waiting if own == call else []
            call, waiting = own, []
    return gaps


def length_ps(spans: Iterable[Span]) -> int:
    """Return the sum of their lengths."""
    return sum(end - begin for begin, end in spans)


def within(span: Span, gaps: Sequence[Span]) -> list[Span]:
    """Return the parts of a span that lie in gaps, which are in order."""
    found = []
    for begin, end in gaps[max(bisect_right(gaps, span) - 1, 0) :]:
        if begin >= span[1]:
            break
        if end > span[0]:
            found.append((max(begin, span[0]), min(end, span[1])))
    return found

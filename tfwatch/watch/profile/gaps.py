"""The time for which a GPU waits for its next kernel within a step."""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: The event of a thread that calls a `tf.function`, with its name.
_CALL = "EagerLocalExecute: __inference_"


#: The path of an operation in a loop of the graph, as far as the loop.
_LOOP = re.compile(r".*?/while(?:_\d+)?(?=/)")


class Busy(NamedTuple):
    """A kernel or a copy on a GPU, in picoseconds. path: of its operation, where a `tf.function`
    runs it."""

    begin: int
    end: int
    path: str


class Gap(NamedTuple):
    """A time in which a GPU runs nothing, in picoseconds. loop: the path of the loop in which it
    waits for the next kernel; empty outside of one."""

    begin: int
    end: int
    loop: str


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


def gaps_of(busy: Iterable[Busy], begins: Sequence[int]) -> list[Gap]:
    """Return the times in which one GPU runs nothing between the first and the last kernel of each
    call, on any of its streams.

    A kernel belongs to the call that began last: Keras waits for a step before it calls the next
    one. The time between two calls is data wait and host, and no gap.
    """
    gaps: list[Gap] = []
    waiting: list[Gap] = []
    until, call = 0, -1
    for one in sorted(busy):
        if one.begin > until:
            loop = _LOOP.match(one.path)
            waiting.append(Gap(until, one.begin, loop[0] if loop else ""))
        until = max(until, one.end)
        if one.path:
            own = bisect_right(begins, one.begin)
            gaps += waiting if own == call else []
            call, waiting = own, []
    return gaps


def within(begin: int, end: int, gaps: Sequence[Gap]) -> list[Gap]:
    """Return the parts of gaps that lie in a span; gaps are in order."""
    found = []
    for gap in islice(gaps, max(bisect_right(gaps, (begin,)) - 1, 0), None):
        if gap.begin >= end:
            break
        if gap.end > begin:
            found.append(Gap(max(begin, gap.begin), min(end, gap.end), gap.loop))
    return found

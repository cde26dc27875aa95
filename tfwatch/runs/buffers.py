"""Buffers of a reader: rows, the newest rows, lines of a log, and events."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

import numpy as np

from tfwatch.core.events import PipelineSwitched, SwitchAsked, SwitchFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tfwatch.core.events import Event
    from tfwatch.core.rows import Rows


class GrowingRows:
    """An array that doubles when it is full: the cost of adding a row does not depend on the number
    of rows."""

    def __init__(self, layout: np.dtype[np.void]) -> None:
        self._rows: Rows = np.empty(64, dtype=layout)
        self._count = 0

    @property
    def rows(self) -> Rows:
        """All rows, read-only; later additions do not change the view."""
        view = self._rows[: self._count]
        view.flags.writeable = False
        return view

    def extend(self, rows: np.ndarray[Any, np.dtype[np.void]]) -> None:
        """Add rows."""
        count = self._count + len(rows)
        if count > len(self._rows):
            bigger = np.empty(max(count, 2 * len(self._rows)), dtype=self._rows.dtype)
            bigger[: self._count] = self._rows[: self._count]
            self._rows = bigger
        self._rows[self._count : count] = rows
        self._count = count


def newest_rows(before: Rows, rows: Rows, count: int) -> Rows:
    """Return the last `count` rows of both, read-only, in an array of their own."""
    rows = rows[-count:]  # ten million steps are read in large blocks
    kept = before[len(before) + len(rows) - count :] if len(before) + len(rows) > count else before
    # As bytes: numpy copies rows of 36 bytes field by field, 70 instead of 3 us for 4 096.
    return np.frombuffer(kept.tobytes() + rows.tobytes(), dtype=rows.dtype)


#: A stage table covers this time: where a batch takes a second, a single reading contains one or
#: none.
WINDOW_NS = 10 * 10**9
#: The rows of `core.rows.STAGE` in memory: more than thirty seconds of a pipeline of thirty stages,
#: one reading a second.
MAX_STAGE_ROWS = 1024


def last_stage_rows(rows: Rows, now_ns: float) -> Rows:
    """Return the rows of `core.rows.STAGE` of the `WINDOW_NS` up to the last reading; none where
    that is older than twice as long."""
    at_ns = rows["at_ns"]
    end_ns = int(at_ns[-1]) if len(at_ns) else 0
    if end_ns < now_ns - 2 * WINDOW_NS:
        return rows[:0]
    return rows[(at_ns <= end_ns) & (at_ns + np.uint64(WINDOW_NS) > end_ns)]


#: Lines of a log's end, and of its beginning.
LOG_LINES = 2000
HEAD_LINES = 500
#: A longer line is cut.
LONGEST_LINE = 64 * 2**10


class LineSplitter:
    """Splits bytes that arrive in pieces into lines. rest: the incomplete line."""

    def __init__(self) -> None:
        self.rest = b""

    def split(self, data: bytes) -> list[bytes]:
        """Return the lines that end in `data`; an incomplete line waits for its end."""
        *whole, rest = (self.rest + data).split(b"\n")
        rest = visible_end(rest)
        if len(rest) > LONGEST_LINE:
            whole.append(rest)
            rest = b""
        self.rest = rest
        return whole


def visible_end(line: bytes) -> bytes:
    """Return the part of a line that is seen: a progress bar returns to the line's begin and
    overwrites itself."""
    return line[line.rstrip(b"\r\b").rfind(b"\r") + 1 :]


class LogLines:
    """The first and the last lines of a log.

    head: the first `HEAD_LINES` lines; total: the number of all lines, without the one that has not
    ended.
    """

    def __init__(self) -> None:
        self.head: tuple[str, ...] = ()
        self.total = 0
        self._tail: deque[str] = deque(maxlen=LOG_LINES)
        self._splitter = LineSplitter()

    @property
    def tail(self) -> tuple[str, ...]:
        """The last `LOG_LINES` lines, which may include lines of `head`."""
        return tuple(self._tail)

    @property
    def unfinished(self) -> str:
        """The present state of the line that has not ended, such as a progress bar; empty where
        there is none."""
        return _text(self._splitter.rest)

    def add(self, data: bytes) -> None:
        """Add the next bytes of the log."""
        whole = self._splitter.split(data)
        self.head += tuple(map(_text, whole[: HEAD_LINES - len(self.head)]))
        self.total += len(whole)
        self._tail.extend(map(_text, whole[-LOG_LINES:]))


def _text(line: bytes) -> str:
    return visible_end(line).decode(errors="replace").rstrip("\r\b")


_E = TypeVar("_E", bound="Event")


class EventLog:
    """The events of a run, with an index by kind and time."""

    def __init__(self) -> None:
        self.all: list[Event] = []
        self.kinds: dict[type[Event], KindIndex] = {}

    def add(self, event: Event) -> None:
        """Add the next event of the file."""
        kind = self.kinds.setdefault(type(event), KindIndex())
        latest_ns = max(kind.latest_ns[-1], event.at_ns) if kind.latest_ns else event.at_ns
        kind.late_ns = max(kind.late_ns, latest_ns - event.at_ns)
        kind.latest_ns.append(latest_ns)
        kind.places.append(len(self.all))
        self.all.append(event)

    def view(self) -> Events:
        """Return the events so far."""
        return Events(self, len(self.all))


class KindIndex:
    """The places of one kind's events in the log, and the latest time up to each; late_ns: the most
    by which one came after a later one."""

    def __init__(self) -> None:
        self.places = array("L")
        self.latest_ns: list[int] = []
        self.late_ns = 0


class Events(Sequence["Event"]):
    """A view of the first `count` events of a log, in the order of writing; later additions do not
    change it."""

    __slots__ = ("_count", "_log")

    def __init__(self, log: EventLog, count: int) -> None:
        self._log = log
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> Event: ...
    @overload
    def __getitem__(self, at: slice) -> list[Event]: ...
    def __getitem__(self, at: int | slice) -> Event | list[Event]:
        chosen = range(self._count)[at]
        return (
            self._log.all[chosen]
            if isinstance(chosen, int)
            else [self._log.all[place] for place in chosen]
        )

    def __iter__(self) -> Iterator[Event]:
        return islice(self._log.all, self._count)

    def of(self, *kinds: type[_E]) -> list[_E]:
        """Return all events of these kinds, in the order of writing."""
        indexes = [self._index(kind) for kind in kinds]
        places = sorted(place for kind, end in indexes for place in kind.places[:end])
        return self._at(places)

    def switches(self) -> list[SwitchAsked | PipelineSwitched | SwitchFailed]:
        """Return the requests for switches, and the outcome of each."""
        return self.of(SwitchAsked, PipelineSwitched, SwitchFailed)

    def newest(self, kind: type[_E]) -> _E | None:
        """Return the last event of a kind; None where there is none."""
        known, end = self._index(kind)
        return self._at(known.places[end - 1 : end])[0] if end else None

    def between(self, kind: type[_E], begin_ns: int, end_ns: int) -> list[_E]:
        """Return the events of a kind with `begin_ns <= at_ns < end_ns`."""
        known, end = self._index(kind)
        first = bisect_left(known.latest_ns, begin_ns, 0, end)
        last = bisect_left(known.latest_ns, end_ns + known.late_ns, 0, end)
        near: list[_E] = self._at(known.places[first:last])
        return [event for event in near if begin_ns <= event.at_ns < end_ns]

    def _index(self, kind: type[_E]) -> tuple[KindIndex, int]:
        """Return the index of a kind, and the number of its events in this view."""
        known = self._log.kinds.get(cast("type[Event]", kind)) or KindIndex()
        return known, bisect_left(known.places, self._count)

    def _at(self, places: Iterable[int]) -> list[_E]:
        return [cast("_E", self._log.all[place]) for place in places]

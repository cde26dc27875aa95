"""Buffers of a reader: rows that only grow, the rows of stages, the lines of a log, and the events by kind and time.

Rows that are only ever added to: all of them, or the newest.

The rows of `core.rows.STAGE` that a reader keeps: the newest, and those before each switch.

The lines of a log that grows: the first ones, where a start-up is told, and the last ones.

The events of a run that goes on: all of them, and those of a kind or of a stretch of time without a search.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

import numpy as np

from tfwatch.core.events import StagesFound, SwitchAsked
from tfwatch.core.rows import STAGE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tfwatch.core.events import Event
    from tfwatch.core.rows import Rows


class Growing:
    """An array that doubles when it is full, so that adding a row costs the same however many there are."""

    def __init__(self, layout: np.dtype[np.void]) -> None:
        self._kept: Rows = np.empty(64, dtype=layout)
        self._count = 0

    @property
    def rows(self) -> Rows:
        """All of them, read-only; later additions leave the view as it is."""
        return self._view(self._count)

    def followed_by(self, rows: Rows) -> Rows:
        """All of them and `rows`, which are not added: read-only, and good until the next call."""
        count = self._count + len(rows)
        self._make_room(count)
        self._kept[self._count : count] = rows
        return self._view(count)

    def extend(self, rows: np.ndarray[Any, np.dtype[np.void]]) -> None:
        """Add rows."""
        count = self._count + len(rows)
        self._make_room(count)
        self._kept[self._count : count] = rows
        self._count = count

    def _view(self, count: int) -> Rows:
        view = self._kept[:count]
        view.flags.writeable = False
        return view

    def _make_room(self, count: int) -> None:
        if count > len(self._kept):
            bigger = np.empty(max(count, 2 * len(self._kept)), dtype=self._kept.dtype)
            bigger[: self._count] = self._kept[: self._count]
            self._kept = bigger


class Newest:
    """The last `count` rows of those that came, in an array that holds twice as many, so that few are moved."""

    def __init__(self, layout: np.dtype[np.void], count: int) -> None:
        self._kept: Rows = np.empty(2 * count, dtype=layout)
        self._most = count
        self._end = 0

    @property
    def rows(self) -> Rows:
        """The newest, read-only; later additions leave the view as it is."""
        view = self._kept[max(self._end - self._most, 0) : self._end]
        view.flags.writeable = False
        return view

    def extend(self, rows: np.ndarray[Any, np.dtype[np.void]]) -> None:
        """Add rows."""
        rows = rows[-self._most :]
        if self._end + len(rows) > len(self._kept):
            before, self._kept = self.rows, np.empty_like(self._kept)  # views of the old array stay as they are
            before = before[max(len(before) + len(rows) - self._most, 0) :]
            self._kept[: len(before)], self._end = before, len(before)
        self._kept[self._end : self._end + len(rows)] = rows
        self._end += len(rows)


#: One table is made of the readings of so long: where a batch takes a second, a single reading holds one or none.
WINDOW_NS = 10 * 10**9
#: Rows that are kept: thirty seconds of a pipeline of thirty stages, one reading a second, and more.
_KEPT = 1024
#: Switches whose rows are kept, the newest: an experiment makes thousands.
_SWITCHES = 256


class StageRows:
    """Follows stages.bin and what events say of it.

    found: what the stages are called, by `StagesFound.pipeline`.
    before: the rows of the `WINDOW_NS` before each switch was asked for, by `SwitchAsked.step`.
    """

    def __init__(self) -> None:
        self.found: dict[int, StagesFound] = {}
        self.before: dict[int, Rows] = {}
        self._kept: Rows = np.empty(0, dtype=STAGE)
        self._asked: list[SwitchAsked] = []

    def note(self, event: Event) -> None:
        """Take an event; those of a moment have to come before its rows."""
        if isinstance(event, StagesFound):
            self.found[event.pipeline] = event
        elif isinstance(event, SwitchAsked):
            self._asked.append(event)
            self._keep(event, self._kept)

    def add(self, rows: Rows) -> None:
        """Take rows in the order of the file."""
        kept = np.concatenate([self._kept, rows[rows["at_ns"] > 0]])  # a dropped stretch reads as zeros
        for asked in self._asked:
            self._keep(asked, kept)
        newest_ns = int(kept["at_ns"][-1]) if len(kept) else 0
        self._asked = [asked for asked in self._asked if asked.at_ns >= newest_ns]
        self._kept = kept[-_KEPT:].copy()

    def newest(self, now_ns: float) -> Rows:
        """The rows of the last `WINDOW_NS` before the last reading; none where that is older than twice as long."""
        if not len(self._kept) or int(self._kept["at_ns"][-1]) < now_ns - 2 * WINDOW_NS:
            return self._kept[:0]
        return _window(self._kept, int(self._kept["at_ns"][-1]))

    def _keep(self, asked: SwitchAsked, kept: Rows) -> None:
        rows = _window(kept, asked.at_ns)
        if len(rows):
            self.before[asked.step] = rows.copy()
        if len(self.before) > _SWITCHES:
            del self.before[next(iter(self.before))]


def _window(rows: Rows, end_ns: int) -> Rows:
    at = rows["at_ns"]
    return rows[(at <= end_ns) & (at + np.uint64(WINDOW_NS) > end_ns)]


#: Lines kept of a log's end, and of its beginning.
LOG_LINES = 2000
HEAD_LINES = 500
#: A line is cut here: a progress bar that never ends its line would be kept whole.
_LONGEST_LINE = 64 * 2**10


class Lines:
    """Cuts bytes that come piece by piece into lines."""

    def __init__(self) -> None:
        self._rest = b""

    def cut(self, data: bytes) -> list[bytes]:
        """The lines that end in `data`; one that has no end yet waits for it."""
        *whole, rest = (self._rest + data).split(b"\n")
        if len(rest) > _LONGEST_LINE:
            whole.append(rest)
            rest = b""
        self._rest = rest
        return whole


class LogLines:
    """Takes a log's bytes in their order.

    head: its first `HEAD_LINES` lines; total: how many there were in all.
    """

    def __init__(self) -> None:
        self.head: tuple[str, ...] = ()
        self.total = 0
        self._tail: deque[str] = deque(maxlen=LOG_LINES)
        self._lines = Lines()

    @property
    def tail(self) -> tuple[str, ...]:
        """Its last `LOG_LINES` lines, which may be among the first."""
        return tuple(self._tail)

    def feed(self, data: bytes) -> None:
        """Take bytes."""
        whole = self._lines.cut(data)
        self.head += tuple(map(_text, whole[: HEAD_LINES - len(self.head)]))
        self.total += len(whole)
        self._tail.extend(map(_text, whole[-LOG_LINES:]))


def _text(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r")


_E = TypeVar("_E")


class EventLog:
    """Grows with `add`; `view` is what it holds now."""

    def __init__(self) -> None:
        self.all: list[Event] = []
        self.kinds: dict[type[Event], Kind] = {}

    def add(self, event: Event) -> None:
        """Take in the next event of the file."""
        kind = self.kinds.setdefault(type(event), Kind())
        kind.in_order = kind.in_order and (not kind.at_ns or kind.at_ns[-1] <= event.at_ns)
        kind.at_ns.append(event.at_ns)
        kind.places.append(len(self.all))
        self.all.append(event)

    def view(self) -> Events:
        """The events so far."""
        return Events(self, len(self.all))


class Kind:
    """Where the events of one kind stand in the log, and when they were."""

    def __init__(self) -> None:
        self.at_ns: list[int] = []
        self.places = array("L")
        self.in_order = True


class Events(Sequence["Event"]):
    """The first `count` events of a log, in the order of their writing; what the log takes in later is not seen."""

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
        seen = range(self._count)[at]
        return self._log.all[seen] if isinstance(seen, int) else [self._log.all[place] for place in seen]

    def __iter__(self) -> Iterator[Event]:
        return islice(self._log.all, self._count)

    def of(self, *kinds: type[_E]) -> list[_E]:
        """All events of these kinds, in the order of their writing."""
        found = [self._seen(kind) for kind in kinds]
        places = sorted(place for kind, end in found for place in kind.places[:end])
        return self._at(places)

    def newest(self, kind: type[_E]) -> _E | None:
        """The last one written of a kind; None where there is none."""
        known, end = self._seen(kind)
        return self._at(known.places[end - 1 : end])[0] if end else None

    def between(self, kind: type[_E], begin_ns: int, end_ns: int) -> list[_E]:
        """Those of a kind with `begin_ns <= at_ns < end_ns`."""
        known, end = self._seen(kind)
        if not known.in_order:
            return self._at(
                p for p, at in zip(known.places[:end], known.at_ns, strict=False) if begin_ns <= at < end_ns
            )
        return self._at(known.places[_before(known, begin_ns, end) : _before(known, end_ns, end)])

    def newest_in_each(self, kind: type[_E], edges_ns: Sequence[int]) -> list[_E]:
        """Those of a kind between the first edge and the last; of more than there are edges, the newest before each."""
        known, end = self._seen(kind)
        if not end or (known.in_order and known.at_ns[end - 1] < edges_ns[0]):
            return []
        first, last = (_before(known, edge, end) for edge in (edges_ns[0], edges_ns[-1]))
        if not known.in_order or last - first <= len(edges_ns):
            return self.between(kind, edges_ns[0], edges_ns[-1])
        bounds = [_before(known, edge, end) for edge in edges_ns]
        return self._at(known.places[after - 1] for before, after in pairwise(bounds) if after > before)

    def _seen(self, kind: type[_E]) -> tuple[Kind, int]:
        """A kind, and how many of its events are seen."""
        known = self._log.kinds.get(cast("type[Event]", kind)) or Kind()
        return known, bisect_left(known.places, self._count)

    def _at(self, places: Iterable[int]) -> list[_E]:
        return [cast("_E", self._log.all[place]) for place in places]


def _before(kind: Kind, at_ns: int, end: int) -> int:
    """How many of the first `end` events were before a moment."""
    return bisect_left(kind.at_ns, at_ns, 0, end)

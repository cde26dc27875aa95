"""The time breakdown: the wall clock time of a run, by what it was spent on.

`make_time_breakdown` computes it from a whole run, `RunningTimeBreakdown` from a run in progress.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from tfwatch.core.events import (
    EpochEnded,
    EpochStarted,
    Paused,
    Slept,
    ValidationEnded,
    WatchFailed,
)
from tfwatch.core.rows import EPOCH, Phase
from tfwatch.judge.steps.stalls import STOPPED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np

    from tfwatch.core.events import Event
    from tfwatch.core.rows import Rows

    _Begun: TypeAlias = list[tuple[int, np.void | None]]

_E = TypeVar("_E")
_COLUMNS = EPOCH.names or ()

#: The part that the time after the last complete step belongs to, by the phase of the training
#: thread.
_TAIL = {
    Phase.COMPILE: "compile_s",
    Phase.WAIT: "data_wait_s",
    Phase.COMPUTE: "compute_s",
    Phase.HOST: "host_s",
    Phase.VALIDATION: "validation_s",
    Phase.EPOCH_END: "epoch_end_s",
}

#: The parts that the time of a stop is taken from, by what the process did when it was stopped.
_BETWEEN = ("validation_s", "epoch_end_s", "between_fits_s", "first_batch_s")
_STOPPED_IN = {
    "in data wait": ("data_wait_s", "first_batch_s"),
    "in compute": ("compute_s", "compile_s", "copy_s"),
    "in host": ("host_s", "epoch_end_s"),
}


@dataclass(frozen=True, slots=True)
class TimeSpent:
    """Seconds of wall clock of one epoch by what they were spent on; the parts sum to `wall_s`."""

    #: Counted from 0; None for the time before the first epoch, and in a total.
    epoch: int | None = None
    steps: int = 0
    #: The steps that were traced or compiled.
    traces: int = 0
    #: The number of steps whose copy to the device is timed, which is `copy_s`; that of the others
    #: is compute.
    copies: int = 0
    #: Building the model, and the extra time of traced steps.
    compile_s: float = 0.0
    compute_s: float = 0.0
    data_wait_s: float = 0.0
    copy_s: float = 0.0
    host_s: float = 0.0
    #: The new iterator, and the extra data wait of its first batch, filling a shuffle buffer
    #: included.
    first_batch_s: float = 0.0
    validation_s: float = 0.0
    #: Callbacks at the epoch's end, checkpoints among them.
    epoch_end_s: float = 0.0
    #: From the end of a `fit` to the first epoch of the next one: the script's own code, the end
    #: and the begin of `fit`.
    between_fits_s: float = 0.0
    #: The machine slept.
    asleep_s: float = 0.0
    #: Time that no row and no event covers, and time for which the process was stopped.
    unaccounted_s: float = 0.0

    @property
    def worked_s(self) -> float:
        """The time of the steps, first batches and compiling left out."""
        return self.compute_s + self.copy_s + self.host_s + self.data_wait_s

    @property
    def iterator_s(self) -> float:
        """The time for which an epoch has its iterator, without its first batch."""
        return float(sum(getattr(self, part) for part in OF_ITERATOR))

    @property
    def active_s(self) -> float:
        """The time for which the machine was awake."""
        return self.wall_s - self.asleep_s

    @property
    def wall_s(self) -> float:
        """The sum of all parts."""
        return float(sum(getattr(self, name) for name in PARTS))


#: The parts of `TimeSpent`, in the order of display.
PARTS = tuple(field.name for field in fields(TimeSpent) if field.name.endswith("_s"))
_COUNTS = ("steps", "traces", "copies")
#: Those of the life of an epoch's iterator: `fit` deletes it as the next one begins.
OF_ITERATOR = (
    *("compile_s", "compute_s", "data_wait_s", "copy_s"),
    *("host_s", "validation_s", "epoch_end_s"),
)
#: The names of the parts in texts: those of a step first.
PART_NAMES = {
    "compute_s": "compute",
    "data_wait_s": "data wait",
    "copy_s": "copy to the GPU",
    "host_s": "host",
    "first_batch_s": "first batch of an epoch",
    "validation_s": "validation",
    "epoch_end_s": "end of an epoch",
    "between_fits_s": "between fits",
    "compile_s": "compile",
    "asleep_s": "asleep",
    "unaccounted_s": "unaccounted time",
}


@dataclass(frozen=True, slots=True)
class TimeBreakdown:
    """The time before the first epoch, the time of each epoch, and their sum.

    An epoch lasts until the next one starts, the last one until the run's end. begins_ns: the start
    of each epoch.
    """

    start: TimeSpent
    epochs: tuple[TimeSpent, ...]
    total: TimeSpent
    begins_ns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Span:
    """A stretch of the run, nanoseconds; `sums` are of its steps, `doing` is the phase at its
    end."""

    begin_ns: int
    end_ns: int
    events: tuple[Event, ...]
    sums: np.void | None = None
    doing: Phase | None = None
    followed: bool = True
    #: The next epoch is of another `fit`.
    ends_fit: bool = False

    def all(self, kind: type[_E]) -> list[_E]:
        return [event for event in self.events if isinstance(event, kind)]


def make_time_breakdown(
    epochs: Rows,
    events: Sequence[Event],
    length_s: float,
    doing: Phase | None = None,
    begin_ns: int = 0,
) -> TimeBreakdown:
    """Compute the time breakdown of a run of `length_s` seconds so far; `epochs` are rows of
    `core.rows.EPOCH`.

    doing: the phase of the training thread, the last one where the run was killed. begin_ns: the
    start of the epochs, if the time before them is not needed.
    """
    events = sorted(events, key=lambda event: event.at_ns)
    begun = [(begin_ns, None), *_begun(epochs, events)]
    spans = _spans(begun, events, round(length_s * 1e9), doing)
    first = TimeSpent(asleep_s=_asleep_s(spans[0]))
    # A followed run builds its model before the first epoch.
    part = "unaccounted_s" if spans[0].followed else _tail(spans[0])
    start = _more(first, part, (spans[0].end_ns - spans[0].begin_ns) / 1e9)
    entries = tuple(_without_stops(_epoch(span), span) for span in spans[1:])
    begins_ns = tuple(span.begin_ns for span in spans[1:])
    return TimeBreakdown(start, entries, _sum((start, *entries)), begins_ns)


def _spans(begun: _Begun, events: Sequence[Event], end_ns: int, doing: Phase | None) -> list[_Span]:
    begins, rows = [begin for begin, _ in begun], [row for _, row in begun]
    ends = [*begins[1:], max(end_ns, begins[-1])]
    at_ns = [event.at_ns for event in events]
    edges = [0, *(bisect_left(at_ns, begin) for begin in begins[1:]), len(events)]
    parts = [tuple(events[first:end]) for first, end in pairwise(edges)]
    spans = [_Span(*of) for of in zip(begins, ends, parts, rows, strict=True)]
    spans[-1] = replace(spans[-1], doing=doing, followed=False)
    fits = [next((event.fit for event in span.all(EpochStarted)), None) for span in spans]
    for at, (fit, following) in enumerate(pairwise(fits)):
        if fit is not None and following is not None and fit != following:
            spans[at] = replace(spans[at], ends_fit=True)
    return spans


def _begun(epochs: Rows, events: Sequence[Event]) -> _Begun:
    """Return the start of each epoch, and its sums; None for an epoch without a complete step."""
    starts = [event.at_ns for event in events if isinstance(event, EpochStarted)]
    begun: _Begun = []
    at, before_ns = 0, -1
    for row, first_ns, last_ns in zip(
        epochs, epochs["first_ns"].tolist(), epochs["last_ns"].tolist(), strict=True
    ):
        begin_ns = first_ns
        while at < len(starts) and starts[at] <= first_ns:
            begin_ns = starts[at] if starts[at] > before_ns else begin_ns
            at += 1
        begun.append((begin_ns, row))
        before_ns = last_ns
    return [*begun, *((start, None) for start in starts[at:] if start > before_ns)]


def _epoch(span: _Span) -> TimeSpent:
    if span.sums is None:
        return _without_steps(span)
    # Its columns one by one take three times as long.
    row = dict(zip(_COLUMNS, span.sums.item(), strict=True))
    steps, traced = row["steps"], row["traced"]
    ended = span.followed or any(event.at_ns >= row["last_ns"] for event in span.all(EpochEnded))
    first_ms = _over(row["first_wait_ms"], row["wait_ms"], steps)
    last_ms = _over(row["last_host_ms"], row["host_ms"], row["calls"] or steps) if ended else 0.0
    usual_ms = (row["compute_ms"] - row["traced_ms"]) / (steps - traced) if steps > traced else 0.0
    compile_ms = max(0.0, row["traced_ms"] - traced * usual_ms)
    inside_ms = (row["end_ns"] - row["first_ns"]) / 1e6
    parts_ms = row["wait_ms"] + row["copy_ms"] + row["compute_ms"] + row["host_ms"]
    parts = {
        "compile_s": compile_ms / 1e3,
        "compute_s": (row["compute_ms"] - compile_ms) / 1e3,
        "data_wait_s": (row["wait_ms"] - first_ms) / 1e3,
        "copy_s": row["copy_ms"] / 1e3,
        "host_s": (row["host_ms"] - last_ms) / 1e3,
        "first_batch_s": (row["first_ns"] - span.begin_ns) / 1e9 + first_ms / 1e3,
        "asleep_s": _asleep_s(span),
        "unaccounted_s": max(0.0, inside_ms - parts_ms) / 1e3,
    }
    after_s = max(0.0, (span.end_ns - row["end_ns"]) / 1e9)
    for part, seconds in _end(span, last_ms / 1e3, after_s, ended).items():
        parts[part] = parts.get(part, 0.0) + seconds
    # Rows hold 16 bits of an epoch's number, its start event holds all.
    started = (event.epoch for event in span.all(EpochStarted))
    number = next((one for one in started if one & 0xFFFF == row["epoch"]), row["epoch"])
    return TimeSpent(number, steps, traced, row["copies"], **parts)


def _end(span: _Span, last_s: float, after_s: float, ended: bool) -> dict[str, float]:
    """Return the parts of the time after an epoch's last step."""
    if span.all(WatchFailed):
        return {"epoch_end_s": last_s, "unaccounted_s": after_s}
    if not ended:
        return {_tail(span): after_s}
    left_s = last_s + after_s
    validation_s = min(sum(event.took_ms for event in span.all(ValidationEnded)) / 1e3, left_s)
    left_s -= validation_s
    ends_ns = [event.at_ns for event in span.all(EpochEnded)]
    after_fit_s = max(span.end_ns - ends_ns[-1], 0.0) / 1e9 if span.ends_fit and ends_ns else 0.0
    between_s = min(after_fit_s, left_s)
    return {
        "validation_s": validation_s,
        "epoch_end_s": left_s - between_s,
        "between_fits_s": between_s,
    }


def _without_steps(span: _Span) -> TimeSpent:
    """Return the time of an epoch that waits for its first step, or has none: where steps are only
    counted, their time is in no row."""
    number = next((event.epoch for event in span.all(EpochStarted)), None)
    part = "unaccounted_s" if span.followed or span.all(EpochEnded) else _tail(span)
    part = "first_batch_s" if part == "data_wait_s" else part
    entry = TimeSpent(epoch=number, asleep_s=_asleep_s(span))
    return _more(entry, part, (span.end_ns - span.begin_ns) / 1e9)


def _without_stops(entry: TimeSpent, span: _Span) -> TimeSpent:
    """Move the time for which the process was stopped to the unaccounted time."""
    for stop in span.all(Paused):
        left_s = stop.took_ms / 1e3 if stop.cause == STOPPED else 0.0
        for part in _STOPPED_IN.get(stop.detail, _BETWEEN):
            moved_s = min(left_s, getattr(entry, part))
            entry = _more(_more(entry, part, -moved_s), "unaccounted_s", moved_s)
            left_s -= moved_s
    return entry


def _tail(span: _Span) -> str:
    return _TAIL.get(span.doing, "unaccounted_s") if span.doing is not None else "unaccounted_s"


def _over(one_ms: float, sum_ms: float, count: int) -> float:
    others = (sum_ms - one_ms) / (count - 1) if count > 1 else 0.0
    return max(0.0, float(one_ms - others))


def _asleep_s(span: _Span) -> float:
    return sum(event.slept_ms for event in span.all(Slept)) / 1e3


def _more(entry: TimeSpent, part: str, seconds: float) -> TimeSpent:
    return replace(entry, **{part: getattr(entry, part) + seconds})


def _sum(entries: Iterable[TimeSpent]) -> TimeSpent:
    entries = list(entries)
    sums = {name: sum(getattr(entry, name) for entry in entries) for name in PARTS}
    counts = (sum(getattr(entry, name) for entry in entries) for name in _COUNTS)
    return TimeSpent(None, *counts, **sums)


#: Epochs that are computed again: the current one, and those that a late event may belong to.
_KEPT = 3


class RunningTimeBreakdown:
    """The total and the newest epochs of a run in progress, at a cost that does not grow
    with the run."""

    def __init__(self, begin_ns: int = 0) -> None:
        self._closed = TimeSpent()
        self._begin_ns = begin_ns
        self._rows = self._events = 0

    def take(
        self, epochs: Rows, events: Sequence[Event], length_s: float, doing: Phase | None
    ) -> tuple[TimeSpent, tuple[TimeSpent, ...]]:
        """Return the total and the newest epochs, three or more where there are so many; every call
        passes all epochs and events of the same run."""
        rows, newer = epochs[self._rows :], events[self._events :]
        time_breakdown = make_time_breakdown(rows, newer, length_s, doing, self._begin_ns)
        total = _sum((self._closed, time_breakdown.total))
        if len(time_breakdown.epochs) > 2 * _KEPT:
            self._close(time_breakdown, newer)
        return total, time_breakdown.epochs

    def _close(self, time_breakdown: TimeBreakdown, newer: Sequence[Event]) -> None:
        old = time_breakdown.epochs[:-_KEPT]
        self._closed = _sum((self._closed, time_breakdown.start, *old))
        self._begin_ns = time_breakdown.begins_ns[-_KEPT]
        self._rows += sum(entry.steps > 0 for entry in old)
        self._events += next(
            (at for at, event in enumerate(newer) if event.at_ns >= self._begin_ns), len(newer)
        )


def is_breakdown_event(event: Event) -> bool:
    """Return False for pauses, which are many: a time breakdown needs only the stops."""
    return not isinstance(event, Paused) or event.cause == STOPPED

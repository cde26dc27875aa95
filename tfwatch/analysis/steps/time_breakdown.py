"""The time breakdown: all of a run's wall clock, and what each second of it went to.

The ledger: all of a run's wall clock, and what each second of it went to.

The ledger of a run that goes on: what lies long back is summed up once.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from tfwatch.analysis.steps.causes import STOPPED
from tfwatch.core.events import (
    DatasetReady,
    EpochEnded,
    EpochStarted,
    ImportEnded,
    Paused,
    RunEnded,
    Slept,
    ValidationEnded,
    WatchFailed,
)
from tfwatch.core.rows import EPOCH, Phase

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np

    from tfwatch.core.events import Event
    from tfwatch.core.rows import Rows

    _Begun: TypeAlias = list[tuple[int, np.void | None]]

_E = TypeVar("_E")
_COLUMNS = EPOCH.names or ()

#: What a stretch after the last whole step counts as, by what the training thread does in it.
_TAIL = {
    Phase.IMPORT: "import_s",
    Phase.DATA_SET: "data_set_s",
    Phase.COMPILE: "compile_s",
    Phase.WAIT: "waiting_s",
    Phase.COMPUTE: "compute_s",
    Phase.HOST: "host_s",
    Phase.VALIDATION: "validation_s",
    Phase.EPOCH_END: "epoch_end_s",
}

#: Where the time of a stop is looked for, by what it says that the process did then.
_BETWEEN = ("validation_s", "epoch_end_s", "first_batch_s")
_STOPPED_IN = {
    "in data wait": ("waiting_s", "first_batch_s"),
    "in compute": ("compute_s", "compile_s"),
    "in host": ("host_s", "epoch_end_s"),
}


@dataclass(frozen=True, slots=True)
class Entry:
    """Seconds of wall clock of one epoch, by what they went to; the parts sum to `wall_s`.

    epoch: counted from 0; None for what comes before the first one, and in the total.
    compile_s: building the model, and what traced steps take over the usual step. asleep_s: the machine slept.
    first_batch_s: the new iterator, and what its first batch takes over the usual wait, a shuffle buffer's
        filling included. epoch_end_s: callbacks at the epoch's end, checkpoints among them.
    other_s: what no row and no event accounts for, and what the process was stopped for.
    """

    epoch: int | None = None
    steps: int = 0
    import_s: float = 0.0
    data_set_s: float = 0.0
    compile_s: float = 0.0
    compute_s: float = 0.0
    waiting_s: float = 0.0
    host_s: float = 0.0
    first_batch_s: float = 0.0
    validation_s: float = 0.0
    epoch_end_s: float = 0.0
    asleep_s: float = 0.0
    other_s: float = 0.0

    @property
    def between_s(self) -> float:
        """Between epochs: first batch, validation and the epoch's end."""
        return self.first_batch_s + self.validation_s + self.epoch_end_s

    @property
    def wall_s(self) -> float:
        """All of it."""
        return float(sum(getattr(self, name) for name in PARTS))

    @property
    def between_share(self) -> float:
        """Of the time that the machine was awake, 0 to 1."""
        awake_s = self.wall_s - self.asleep_s
        return self.between_s / awake_s if awake_s > 0 else 0.0


#: The parts of an entry, in the order in which they are told.
PARTS = tuple(field.name for field in fields(Entry) if field.name.endswith("_s"))


@dataclass(frozen=True, slots=True)
class Ledger:
    """What comes before the first epoch, each epoch, and their sum.

    An epoch lasts until the next one starts, the last one until the run's end. begins_ns: when each one starts.
    """

    start: Entry
    epochs: tuple[Entry, ...]
    total: Entry
    begins_ns: tuple[int, ...]

    @property
    def newest_whole(self) -> Entry | None:
        """The newest epoch that another one follows; None before there is one."""
        return self.epochs[-2] if len(self.epochs) > 1 else None


@dataclass(frozen=True, slots=True)
class _Span:
    """A stretch of the run, nanoseconds; `sums` are those of its steps, `doing` what lasts at its end."""

    begin_ns: int
    end_ns: int
    events: tuple[Event, ...]
    sums: np.void | None = None
    doing: Phase | None = None
    followed: bool = True

    def all(self, kind: type[_E]) -> list[_E]:
        return [event for event in self.events if isinstance(event, kind)]


def make_ledger(
    epochs: Rows, events: Sequence[Event], length_s: float, doing: Phase | None = None, begin_ns: int = 0
) -> Ledger:
    """The ledger of a run that lasts `length_s` seconds so far; `epochs` are rows of `core.rows.EPOCH`.

    doing: what the training thread does, or did last where the run was killed. begin_ns: where the epochs begin,
    if what came before is not asked for.
    """
    begun = [(begin_ns, None), *_begun(epochs, events := sorted(events, key=lambda event: event.at_ns))]
    spans = _spans(begun, events, round(length_s * 1e9), doing)
    start = _start(spans[0])
    entries = tuple(_without_stops(_epoch(span), span) for span in spans[1:])
    return Ledger(start, entries, total_of((start, *entries)), tuple(span.begin_ns for span in spans[1:]))


def keras_step_ms(epochs: Rows, events: Sequence[Event]) -> float | None:
    """What Keras' progress bar reads at the end of the last epoch that ended, milliseconds a step.

    It spreads all that lies between the first step's end and the epoch's end over the steps, validation and the
    callbacks at the epoch's end included: Keras' bar is the last of them. None where no epoch of two steps has ended,
    where it was none of Keras' or told no metrics, or where steps ran several in a call: from where the bar counts
    then is another matter in each version.
    """
    ended = next(
        (event for event in reversed(events) if isinstance(event, EpochEnded) and event.by_keras and event.metrics),
        None,
    )
    rows = epochs[epochs["epoch"] == ended.epoch & 0xFFFF] if ended else epochs[:0]
    if ended is None or not len(rows) or rows["steps"][-1] < 2 or 0 < rows["calls"][-1] < rows["steps"][-1]:
        return None
    over = (e.at_ns for e in events if isinstance(e, (EpochStarted, RunEnded)) and e.at_ns >= ended.at_ns)
    return (min(over, default=ended.at_ns) - int(rows["first_done_ns"][-1])) / 1e6 / (int(rows["steps"][-1]) - 1)


def _spans(begun: _Begun, events: Sequence[Event], end_ns: int, doing: Phase | None) -> list[_Span]:
    """What comes before the first epoch, and each epoch."""
    begins, rows = [begin for begin, _ in begun], [row for _, row in begun]
    ends = [*begins[1:], max(end_ns, begins[-1])]
    parts = _parted(events, ends)
    spans = [_Span(*of) for of in zip(begins, ends, parts, rows, strict=True)]
    spans[-1] = replace(spans[-1], doing=doing, followed=False)
    return spans


def _begun(epochs: Rows, events: Sequence[Event]) -> _Begun:
    """When each epoch began, and its sums; None for one that has no whole step yet."""
    starts = [event.at_ns for event in events if isinstance(event, EpochStarted)]
    found: _Begun = []
    at, before_ns = 0, -1
    for row, first_ns, last_ns in zip(epochs, epochs["first_ns"].tolist(), epochs["last_ns"].tolist(), strict=True):
        begin_ns = first_ns
        while at < len(starts) and starts[at] <= first_ns:
            begin_ns = starts[at] if starts[at] > before_ns else begin_ns
            at += 1
        found.append((begin_ns, row))
        before_ns = last_ns
    return [*found, *((start, None) for start in starts[at:] if start > before_ns)]


def _parted(events: Sequence[Event], ends: Sequence[int]) -> list[tuple[Event, ...]]:
    """The events of each span; those after the last one's end belong to it too."""
    parts: list[list[Event]] = [[] for _ in ends]
    at = 0
    for event in events:
        while at < len(ends) - 1 and event.at_ns >= ends[at]:
            at += 1
        parts[at].append(event)
    return [tuple(part) for part in parts]


def _start(span: _Span) -> Entry:
    """Import, data set and building the model: what follows the data set, where an epoch follows."""
    imports, sets = span.all(ImportEnded), span.all(DatasetReady)
    span_s = (span.end_ns - span.begin_ns) / 1e9
    import_s = min(sum(event.took_ms for event in imports) / 1e3, span_s)
    data_set_s = min(sum(event.took_ms for event in sets) / 1e3, span_s - import_s)
    rest_s = span_s - import_s - data_set_s
    told_ns = max([span.begin_ns, *(event.at_ns for event in imports), *(event.at_ns for event in sets)])
    tail_s = min(max(0.0, (span.end_ns - told_ns) / 1e9), rest_s)
    part = ("compile_s" if sets else "other_s") if span.followed else _tail(span)
    entry = Entry(import_s=import_s, data_set_s=data_set_s, other_s=rest_s - tail_s, asleep_s=_asleep_s(span))
    return _more(entry, part, tail_s)


def _epoch(span: _Span) -> Entry:
    if span.sums is None:
        return _without_steps(span)
    row = dict(zip(_COLUMNS, span.sums.item(), strict=True))  # its columns one by one take three times as long
    steps, traced = row["steps"], row["traced"]
    ended = span.followed or any(event.at_ns >= row["last_ns"] for event in span.all(EpochEnded))
    first_ms = _over(row["first_wait_ms"], row["wait_ms"], steps)
    last_ms = _over(row["last_host_ms"], row["host_ms"], row["calls"] or steps) if ended else 0.0
    usual_ms = (row["compute_ms"] - row["traced_ms"]) / (steps - traced) if steps > traced else 0.0
    compile_ms = max(0.0, row["traced_ms"] - traced * usual_ms)
    inside_ms = (row["end_ns"] - row["first_ns"]) / 1e6
    parts = {
        "compile_s": compile_ms / 1e3,
        "compute_s": (row["compute_ms"] - compile_ms) / 1e3,
        "waiting_s": (row["wait_ms"] - first_ms) / 1e3,
        "host_s": (row["host_ms"] - last_ms) / 1e3,
        "first_batch_s": (row["first_ns"] - span.begin_ns) / 1e9 + first_ms / 1e3,
        "asleep_s": _asleep_s(span),
        "other_s": max(0.0, inside_ms - (row["wait_ms"] + row["compute_ms"] + row["host_ms"])) / 1e3,
    }
    after_s = max(0.0, (span.end_ns - row["end_ns"]) / 1e9)
    for part, seconds in _end(span, last_ms / 1e3, after_s, ended).items():
        parts[part] = parts.get(part, 0.0) + seconds
    return Entry(_number(span, row["epoch"]), steps, **parts)


def _number(span: _Span, known: int) -> int:
    """An epoch's number, of which rows hold 16 bits: what its begin told has all."""
    told = (event.epoch for event in span.all(EpochStarted))
    return next((epoch for epoch in told if epoch & 0xFFFF == known), known)


def _end(span: _Span, last_s: float, after_s: float, ended: bool) -> dict[str, float]:
    """What follows the last step: the epoch's end, or what lasts."""
    if span.all(WatchFailed):
        return {"epoch_end_s": last_s, "other_s": after_s}
    if not ended:
        return {_tail(span): after_s}
    told_s = sum(event.took_ms for event in span.all(ValidationEnded)) / 1e3
    validation_s = min(told_s, last_s + after_s)
    return {"validation_s": validation_s, "epoch_end_s": last_s + after_s - validation_s}


def _without_steps(span: _Span) -> Entry:
    """An epoch that waits for its first step, or has none."""
    number = next((event.epoch for event in span.all(EpochStarted)), None)
    part = "other_s" if span.followed else _tail(span)
    part = "first_batch_s" if part == "waiting_s" else part
    return _more(Entry(epoch=number, asleep_s=_asleep_s(span)), part, (span.end_ns - span.begin_ns) / 1e9)


def _without_stops(entry: Entry, span: _Span) -> Entry:
    """While the process was stopped, it neither waited nor computed."""
    for stop in span.all(Paused):
        left_s = stop.took_ms / 1e3 if stop.cause == STOPPED else 0.0
        for part in _STOPPED_IN.get(stop.detail, _BETWEEN):
            moved_s = min(left_s, getattr(entry, part))
            entry, left_s = _more(_more(entry, part, -moved_s), "other_s", moved_s), left_s - moved_s
    return entry


def _tail(span: _Span) -> str:
    return _TAIL.get(span.doing, "other_s") if span.doing is not None else "other_s"


def _over(one_ms: float, sum_ms: float, count: int) -> float:
    """By how much one part is over the mean of the others."""
    others = (sum_ms - one_ms) / (count - 1) if count > 1 else 0.0
    return max(0.0, float(one_ms - others))


def _asleep_s(span: _Span) -> float:
    return sum(event.slept_ms for event in span.all(Slept)) / 1e3


def _more(entry: Entry, part: str, seconds: float) -> Entry:
    values = {name: getattr(entry, name) for name in PARTS}
    values[part] += seconds
    return Entry(entry.epoch, entry.steps, **values)


def total_of(entries: Iterable[Entry]) -> Entry:
    """The sums of all entries."""
    entries = list(entries)
    sums = {name: sum(getattr(entry, name) for entry in entries) for name in PARTS}
    return Entry(None, sum(entry.steps for entry in entries), **sums)


def mean_of(entries: Sequence[Entry]) -> Entry:
    """What one of these epochs went to, in the mean of those that have steps; an empty entry where there is none."""
    total, count = total_of(entries), max(sum(entry.steps > 0 for entry in entries), 1)
    return Entry(None, round(total.steps / count), **{name: getattr(total, name) / count for name in PARTS})


#: Epochs that are looked at again: the one that runs, and those that a late event may still belong to.
_KEPT = 3


class RunningLedger:
    """The total and the newest whole epoch, at the same cost however many epochs there were."""

    def __init__(self) -> None:
        self._closed = Entry()
        self._begin_ns = 0
        self._rows = self._events = 0

    def take(
        self, epochs: Rows, events: Sequence[Event], length_s: float, doing: Phase | None
    ) -> tuple[Entry, Entry | None]:
        """As `make_ledger`; every call hands in all epochs and events of the same run."""
        newer = events[self._events :]
        ledger = make_ledger(epochs[self._rows :], newer, length_s, doing, self._begin_ns)
        total = total_of((self._closed, ledger.total))
        if len(ledger.epochs) > 2 * _KEPT:
            self._close(ledger, newer)
        return total, ledger.newest_whole

    def _close(self, ledger: Ledger, newer: Sequence[Event]) -> None:
        old = ledger.epochs[:-_KEPT]
        self._closed = total_of((self._closed, ledger.start, *old))
        self._begin_ns = ledger.begins_ns[-_KEPT]
        self._rows += sum(entry.steps > 0 for entry in old)
        self._events += next((at for at, event in enumerate(newer) if event.at_ns >= self._begin_ns), len(newer))

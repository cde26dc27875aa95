"""The run's events and stalls as rows of a list, each put into words when it is drawn."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias, overload

from tfwatch.analysis.comparing import in_a_line, setting
from tfwatch.analysis.patterns import Pattern, shape
from tfwatch.analysis.stalls import Stall
from tfwatch.core import events as facts
from tfwatch.core import units
from tfwatch.widgets.happened import Happening
from tfwatch.widgets.timeline_picture import clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfwatch.analysis.switches import Comparison
    from tfwatch.runs.reader import Snapshot
    from tfwatch.screens.situation import RunView

_LETTERS = {"prefetch": "p", "workers": "w", "latency_ms": "l"}
#: A pause this long is worth a row.
_PAUSED_MS = 200.0
#: Mark, sentence, style.
_Row = tuple[str, str, str]
_Source: TypeAlias = facts.Event | Stall | Pattern
#: Seconds since the clock origin, what happened, and how long an epoch's validation took.
_Timed: TypeAlias = tuple[float, _Source, float | None]


class Happenings:
    """Everything worth a row, found as the run goes on."""

    def __init__(self) -> None:
        self._events: list[_Timed] = []
        self._taken = 0
        self._validated: facts.ValidationEnded | None = None

    def take(self, view: RunView) -> HappeningRows:
        """The rows of a view, oldest first; every call hands in the same run."""
        for event in view.snapshot.events[self._taken :]:
            self._add(event)
        self._taken = len(view.snapshot.events)
        rows = self._events.copy()
        for timed in _of_the_moment(view):
            insort(rows, timed, key=itemgetter(0))
        return HappeningRows(rows, view.snapshot, view.comparisons)

    def _add(self, event: facts.Event) -> None:
        took_ms = None
        if isinstance(event, facts.ValidationEnded):
            self._validated = event
        elif isinstance(event, facts.EpochEnded) and self._validated and self._validated.epoch == event.epoch:
            took_ms = self._validated.took_ms
        if isinstance(event, (facts.PipelineSwitched, facts.EpochEnded)) or _plain_fact(event):
            insort(self._events, (event.at_ns / 1e9, event, took_ms), key=itemgetter(0))


def _of_the_moment(view: RunView) -> Iterator[_Timed]:
    """What another moment may tell otherwise: the stalls and patterns so far, and what is asked and waits."""
    yield from ((stall.start_ns / 1e9, stall, None) for stall in view.stalls)
    yield from ((pattern.start_ns / 1e9, pattern, None) for pattern in view.patterns)
    waiting = {state.asked_s for state in view.knobs.values() if state.asked is not None}
    if waiting:
        asked = view.snapshot.events.of(facts.SwitchAsked)
        yield from ((event.at_ns / 1e9, event, None) for event in asked if event.at_ns / 1e9 in waiting)


class HappeningRows(Sequence[Happening]):
    """Rows in the order of their times."""

    def __init__(self, rows: list[_Timed], snapshot: Snapshot, comparisons: Sequence[Comparison]) -> None:
        self._rows = rows
        self._snapshot = snapshot
        self._switches = {(c.step, c.knob): c for c in comparisons}

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> Happening: ...
    @overload
    def __getitem__(self, at: slice) -> list[Happening]: ...
    def __getitem__(self, at: int | slice) -> Happening | list[Happening]:
        if isinstance(at, slice):
            return [self._worded(*timed) for timed in self._rows[at]]
        return self._worded(*self._rows[at])

    def _worded(self, at_s: float, what: _Source, validation_ms: float | None) -> Happening:
        return Happening(at_s, clock(self._snapshot, at_s), *self._row(what, validation_ms))

    def _row(self, what: _Source, validation_ms: float | None) -> _Row:
        if isinstance(what, facts.PipelineSwitched):
            return _switched(what, self._switches.get((what.step, what.knob)))
        if isinstance(what, facts.EpochEnded):
            return _epoch(what, validation_ms)
        if isinstance(what, Stall):
            return _stalled(what)
        if isinstance(what, Pattern):
            return "S", f"{shape(what)}, from step {units.count(what.step)} on", "$text-error"
        if isinstance(what, facts.SwitchAsked):
            return _LETTERS.get(what.knob, "."), f"{setting(what.knob, what.old)} > {what.new} asked", ""
        row = _plain_fact(what)
        assert row
        return row


def _stalled(stall: Stall) -> _Row:
    cause = "" if stall.cause == "unexplained" else f", {stall.cause}"
    text = f"no batch for {units.seconds(stall.lost_ms / 1e3)} at step {units.count(stall.step)}{cause}"
    return "S", text, "$text-error"


def _switched(event: facts.PipelineSwitched, comparison: Comparison | None) -> _Row:
    letter = _LETTERS.get(event.knob, ".")
    if comparison:
        return letter, in_a_line(comparison), "$text-accent"
    return letter, f"{setting(event.knob, event.old)} > {event.new} at step {units.count(event.step)}", "$text-accent"


def _epoch(event: facts.EpochEnded, validation_ms: float | None) -> _Row:
    """Its figures first: where the pane is narrow, the end is cut."""
    figures = [f"{name} {value:.3g}" for name, value in list(event.metrics.items())[:4]]
    if validation_ms is not None:
        figures.append(f"validation {units.seconds(validation_ms / 1e3)}")
    return "E", f"epoch {event.epoch + 1} to step {units.count(event.step)}: {', '.join(figures)}".rstrip(": "), ""


def _plain_fact(event: facts.Event) -> _Row | None:
    """A fact that needs nothing else to be told; None where it is no row of its own."""
    match event:
        case facts.ImportEnded():
            return ".", f"TensorFlow {event.tensorflow} imported in {units.seconds(event.took_ms / 1e3)}", ""
        case facts.DatasetReady():
            skipped = f", {event.skipped} skipped that cannot be read" if event.skipped else ""
            names = f": {', '.join(event.examples[:3])}" if event.examples else ""
            took = units.seconds(event.took_ms / 1e3)
            return ".", f"{units.count(event.images)} images ready in {took}{skipped}{names}", ""
        case facts.SwitchFailed():
            return _LETTERS.get(event.knob, "."), f"{event.knob} not switched: {event.reason}", "$text-warning"
        case facts.SensorMissing():
            return ".", f"{event.sensor} n/a: {event.reason}{f'; {event.fix}' if event.fix else ''}", ""
        case facts.Paused() if event.took_ms >= _PAUSED_MS and event.cause != "CPU contention":
            name = f"{event.cause} {event.detail}".strip()
            return ".", f"{name} held the training up for {units.seconds(event.took_ms / 1e3)}", ""
        case facts.Noted():
            return ".", event.text, ""
    return _trouble(event)


def _trouble(event: facts.Event) -> _Row | None:
    match event:
        case facts.Slept():
            return "Z", f"asleep for {units.seconds(event.slept_ms / 1e3)}, not counted", ""
        case facts.RecordingLost():
            text = f"not recorded from step {units.count(event.step)} on: {event.reason}"
            return "!", text, "$text-error"
        case facts.RecordingResumed():
            return "!", "recording again; what was kept in memory is on disk", ""
        case facts.WatchFailed():
            return "!", f"tfwatch failed and measures no more: {event.reason}", "$text-error"
        case facts.TrainingFailed():
            return "X", f"failed at step {units.count(event.step)}: {event.error}", "$text-error"
        case facts.RunEnded():
            detail = f": {event.detail}" if event.detail else ""
            return "X", f"{event.cause} after {units.count(event.steps)} steps{detail}", ""
    return None

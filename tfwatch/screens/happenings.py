"""The run's events, and what was found in its steps, as rows of a list; put into words when they are drawn."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias, overload

from tfwatch.analysis.compiles import Compiled
from tfwatch.analysis.limits import LIMITS, joined
from tfwatch.analysis.patterns import Pattern
from tfwatch.analysis.stalls import Stall
from tfwatch.analysis.warnings import Told, told
from tfwatch.core import events as facts
from tfwatch.core.events import by_hand, of_experiment
from tfwatch.screens import telling
from tfwatch.screens.telling import Source
from tfwatch.widgets.happened import Happening
from tfwatch.widgets.timeline_picture import clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfwatch.analysis.switches import Comparison
    from tfwatch.live.view import RunView
    from tfwatch.runs.reader import Snapshot

#: Seconds since the clock origin, what happened, and how long an epoch's validation took.
_Timed: TypeAlias = tuple[float, Source, float | None]
#: Events that are rows, but not by themselves.
_WITH_MORE = (facts.PipelineSwitched, facts.SwitchMissed, facts.EpochEnded, facts.Slept)


class Happenings:
    """Everything worth a row, found as the run goes on."""

    def __init__(self) -> None:
        self._events: list[_Timed] = []
        self._limits: list[facts.Paused] = []
        self._taken = 0
        self._trains = False
        self._validated: facts.ValidationEnded | None = None

    def take(self, view: RunView) -> HappeningRows:
        """The rows of a view, oldest first; every call hands in the same run."""
        for event in view.snapshot.events[self._taken :]:
            self._add(event)
        self._taken = len(view.snapshot.events)
        rows = self._events.copy()
        for timed in (*_of_the_moment(view), *((limit.at_ns / 1e9, limit, None) for limit in self._limits)):
            insort(rows, timed, key=itemgetter(0))
        return HappeningRows(rows, view.snapshot, view.comparisons)

    def _add(self, event: facts.Event) -> None:
        took_ms = None
        self._trains = self._trains or isinstance(event, facts.EpochStarted)
        if isinstance(event, facts.Paused) and not self._trains:
            return  # what held an import up held no training up
        if isinstance(event, facts.ValidationEnded):
            self._validated = event
        elif isinstance(event, facts.EpochEnded) and self._validated and self._validated.epoch == event.epoch:
            took_ms = self._validated.took_ms
        elif isinstance(event, facts.Paused) and event.cause in LIMITS:
            joined(self._limits, event)
        if (isinstance(event, _WITH_MORE) or telling.plain_fact(event)) and not of_experiment(event):
            insort(self._events, (event.at_ns / 1e9, event, took_ms), key=itemgetter(0))


def _of_the_moment(view: RunView) -> Iterator[_Timed]:
    """What another moment may tell otherwise: what was found in the steps so far, and what is asked and waits."""
    yield from ((stall.start_ns / 1e9, stall, None) for stall in view.stalls)
    yield from ((pattern.start_ns / 1e9, pattern, None) for pattern in view.patterns)
    yield from (((made.start_ns / 1e6 + made.took_ms) / 1e3, made, None) for made in view.compiles)
    yield from ((_moment(view.snapshot, one.wall_s), one, None) for one in told(view.said))
    waiting = {state.asked_s for state in view.knobs.values() if state.asked is not None}
    if waiting:
        asked = by_hand(view.snapshot.events.of(facts.SwitchAsked))
        yield from ((event.at_ns / 1e9, event, None) for event in asked if event.at_ns / 1e9 in waiting)


def _moment(snapshot: Snapshot, wall_s: float | None) -> float:
    """Seconds since the clock origin, which is taken where a line says no time."""
    at_s = 0.0 if wall_s is None else wall_s - snapshot.manifest.origin_wall_ns / 1e9
    return min(max(at_s, 0.0), snapshot.now_s)


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

    def _worded(self, at_s: float, what: Source, validation_ms: float | None) -> Happening:
        return Happening(at_s, clock(self._snapshot, at_s), *self._row(what, validation_ms))

    def _row(self, what: Source, validation_ms: float | None) -> telling.Row:
        match what:
            case facts.PipelineSwitched():
                return telling.switched(
                    what, self._switches.get((what.step, what.knob)), self._snapshot.manifest.fast_form
                )
            case facts.EpochEnded():
                return telling.epoch(what, validation_ms)
            case facts.SwitchMissed():
                return telling.missed(what, self._snapshot.manifest.fast_form)
            case facts.SwitchAsked():
                return telling.asked(what, self._snapshot.manifest.fast_form)
            case facts.Slept():
                return telling.slept(what, self._snapshot)
            case facts.Paused() if what.cause in LIMITS:
                return telling.limited(what)
            case Stall() | Pattern() | Compiled():
                return telling.found(what)
            case Told():
                return telling.said(what)
        row = telling.plain_fact(what)
        assert row
        return row

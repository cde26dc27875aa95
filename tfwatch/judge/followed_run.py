"""A run's rows as they come: stalls with their causes, compiles, and the machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core.clock import Slot, second_of
from tfwatch.core.events import (
    Paused,
    PipelineSwitched,
    SwitchAsked,
)
from tfwatch.core.rows import Flag, step_ms
from tfwatch.judge.machine import MachineFollower
from tfwatch.judge.regime import RunningRegime
from tfwatch.judge.steps.stalls import Pauses, Stall, StallSearch, without_stops, without_switches
from tfwatch.judge.steps.time_breakdown import is_breakdown_event
from tfwatch.runs.liveness import Life, find_open_phase
from tfwatch.runs.run import RECENT

if TYPE_CHECKING:
    from tfwatch.core.events import Event
    from tfwatch.core.rows import Rows
    from tfwatch.judge.steps.stalls import Stall
    from tfwatch.runs.buffers import Events
    from tfwatch.runs.snapshot import Snapshot

#: Steps that wait for their search, at most: half of those that a snapshot has at hand.
_BEHIND = RECENT // 2
_BLOCK = 65_536
#: A pause that holds a step up is recorded so long after it at most.
_PAUSE_NS = 60 * 10**9


class StepSearch:
    """Looks at each step once.

    searched: the number of steps that were looked at. done: their share while a long run is still
    read, else None.
    """

    def __init__(self) -> None:
        self.searched = 0
        self.done: float | None = None
        self.stalls: tuple[Stall, ...] = ()
        self.compiles: list[Compiled] = []
        self.machine = MachineFollower()
        self.regime = RunningRegime()
        self._events_taken = 0
        self._stall_search = StallSearch()
        self._named: list[Stall] = []
        self._over = False
        self._due: tuple[int, int, Life] | None = None

    def take(self, snapshot: Snapshot) -> None:
        """Once a second, and in each frame while there is more to search than is kept at hand."""
        due = (
            second_of(snapshot.now_s, Slot.SEARCH),
            len(snapshot.events.of(PipelineSwitched)),
            snapshot.life,
        )
        # The clock of a run that is over stands still while its steps are still searched.
        behind = 0 if snapshot.life.is_over else _BEHIND
        if due != self._due or snapshot.steps_total - self.searched > behind:
            self._due = due
            self._search(snapshot)
        is_reading = snapshot.steps_total - self.searched > behind
        self.done = self.searched / snapshot.steps_total if is_reading else None

    def _search(self, snapshot: Snapshot) -> None:
        """Look at the steps that came, in blocks: a long run that was just opened is searched over
        some frames."""
        if self.searched < snapshot.steps_total:
            self._search_block(snapshot)
        if self.searched >= snapshot.steps_total:
            self._take_open_wait(snapshot)

    def _search_block(self, snapshot: Snapshot) -> None:
        first, last = self.searched + 1, min(self.searched + _BLOCK, snapshot.steps_total)
        in_hand = snapshot.steps_total - len(snapshot.recent)
        rows = (
            snapshot.recent[first - 1 - in_hand :]
            if first > in_hand
            else snapshot.steps_between(first, last)
        )
        new = rows[rows["step"] > self.searched]
        self._stall_search.take(new)
        self._name_stalls(snapshot.events)
        self.compiles += find_compiles(new)
        self.regime.add(new, self._new_events(snapshot))
        self.searched = snapshot.steps_total if first > in_hand else last

    def _new_events(self, snapshot: Snapshot) -> list[Event]:
        new = snapshot.events[self._events_taken :]
        self._events_taken = len(snapshot.events)
        return [event for event in new if is_breakdown_event(event)]

    def _take_open_wait(self, snapshot: Snapshot) -> None:
        """Take the wait in which a run ended, if it did: no row holds it."""
        last = find_open_phase(snapshot.ended, snapshot.pulse)
        if last and not self._over and snapshot.life.is_over:
            self._over = True
            self._stall_search.take(last.wait)
            self._name_stalls(snapshot.events)

    def _name_stalls(self, events: Events) -> None:
        """Look for causes, which are recorded after a stall, until none can come."""
        stalls = self._stall_search.stretches(len(self._named))
        named = [
            stretch.named(Pauses(events.between(Paused, *_recorded_within(stretch))))
            for stretch in stalls
        ]
        self.stalls = tuple(
            without_switches(
                without_stops([*self._named, *named]), events.of(SwitchAsked, PipelineSwitched)
            )
        )
        newest_ns = max((stretch.end_ns for stretch in stalls), default=0.0)
        settled = [stretch.end_ns + _PAUSE_NS < newest_ns for stretch in stalls]
        self._named += named[: settled.index(False)] if False in settled else []


def _recorded_within(stretch: Stall) -> tuple[int, int]:
    return stretch.start_ns, int(stretch.end_ns) + _PAUSE_NS


@dataclass(frozen=True, slots=True)
class Compiled:
    """A step that took `took_ms` because its graph was traced; `again`: for another input shape or
    type."""

    step: int
    start_ns: int
    took_ms: float
    again: bool


def find_compiles(rows: Rows) -> list[Compiled]:
    """Find the traced steps among rows of `core.rows.STEP`, in their order."""
    made = rows[(rows["flags"] & np.uint16(Flag.COMPILE | Flag.RETRACE)) != 0]
    took_ms = step_ms(made)
    return [
        Compiled(
            int(row["step"]),
            int(row["start_ns"]),
            float(took),
            bool(row["flags"] & np.uint16(Flag.RETRACE)),
        )
        for row, took in zip(made, took_ms, strict=True)
    ]

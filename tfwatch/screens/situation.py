"""From snapshots of a run to what its panes show: the one place where the two meet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.analysis.advice import fills_shuffle, held_end, slow_callback
from tfwatch.analysis.banner import banner
from tfwatch.analysis.causes import STOPPED
from tfwatch.analysis.cost import Lost, lost
from tfwatch.analysis.flights import OF_FLIGHTS, flying
from tfwatch.analysis.pace import left_s
from tfwatch.analysis.running import RunningLedger
from tfwatch.analysis.situation import NOT_JUDGED, Situation
from tfwatch.analysis.switches import Comparison, Known, compare
from tfwatch.analysis.trials import Underway, underway
from tfwatch.analysis.tried import OF_TRYING, Tried, tried
from tfwatch.analysis.turns import Ask, KnobState, knob_states
from tfwatch.analysis.verdict import NEEDED, Judgement, judge
from tfwatch.analysis.warnings import Heard, Said
from tfwatch.core.events import (
    EpochEnded,
    Paused,
    PipelineSwitched,
    SwitchAsked,
    SwitchFailed,
)
from tfwatch.core.knobs import epochs_until
from tfwatch.core.rows import step_ms
from tfwatch.core.trials import ExperimentBegan, ExperimentBlock, ExperimentEnded
from tfwatch.runs.under_way import under_way
from tfwatch.screens.bare import bare_situation
from tfwatch.screens.foreteller import Foreteller
from tfwatch.screens.restarted import RestartFollower
from tfwatch.screens.searching import Searcher, pauses_of
from tfwatch.widgets.rhythm import Turn, second_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tfwatch.analysis.compiles import Compiled
    from tfwatch.analysis.energy import Energy
    from tfwatch.analysis.finding import Banner
    from tfwatch.analysis.ledger import Entry
    from tfwatch.analysis.machine import Machine
    from tfwatch.analysis.patterns import Pattern
    from tfwatch.analysis.restarts import Earlier
    from tfwatch.analysis.stalls import Stall
    from tfwatch.core.events import Event
    from tfwatch.core.rows import Rows
    from tfwatch.runs.eventlog import Events
    from tfwatch.runs.reader import Snapshot
    from tfwatch.screens.ending import Ending

#: Epochs whose ends are looked at for what held them up.
_ENDS = 8


@dataclass(frozen=True, eq=False)
class RunView:
    """A run as the panes show it. `comparisons`, `stalls`, `patterns`, `compiles`: oldest first.

    comparisons: of the switches, after that of the restart that the run began with.

    energy: what the device that trains drew so far; None where no power is read. said: by TensorFlow's log.
    tried: what a run that is over left undecided.
    """

    snapshot: Snapshot
    situation: Situation
    finding: Banner
    knobs: dict[str, KnobState]
    comparisons: tuple[Comparison, ...]
    stalls: tuple[Stall, ...]
    patterns: tuple[Pattern, ...] = ()
    compiles: tuple[Compiled, ...] = ()
    energy: Energy | None = None
    said: tuple[Said, ...] = ()
    tried: Tried | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self.snapshot.life.is_over


@dataclass(frozen=True, slots=True)
class _Figures:
    judgement: Judgement = NOT_JUDGED
    epoch_spent: Entry | None = None
    median_step_ms: float | None = None
    waited_s: float = 0.0
    between_s: float = 0.0
    machine: Machine | None = None
    energy: Energy | None = None
    left_s: float | None = None
    callback: str = ""
    fills: bool = False
    held_end: Paused | None = None
    lost: Lost | None = None


class Follower:
    """Follows one run; remembers the last verdict, the comparisons made and the stalls found.

    `steps_between(first, last)` reads rows of the run; `live`: keys are obeyed; `earlier`: the run before a restart;
    `ending`: tells what a run that is over was bound by.
    """

    def __init__(
        self,
        steps_between: Callable[[int, int], Rows],
        live: bool,
        earlier: Earlier | None = None,
        ending: Ending | None = None,
    ) -> None:
        self._steps_between = steps_between
        self._live = live
        self._ending = ending
        self._restarts = RestartFollower(earlier, steps_between)
        self._comparisons: tuple[Comparison, ...] = ()
        self._known: Known = {}
        self._figures = _Figures()
        self._figured: tuple[int, int, int] | None = None
        self._searcher = Searcher(steps_between)
        self._switches = 0
        self._ledger = RunningLedger()
        self._of_ledger: list[Event] = []
        self._seen = 0
        self._heard = Heard()
        self._foreteller = Foreteller(steps_between)

    def follow(self, snapshot: Snapshot, asks: Sequence[Ask], stopping_s: float | None) -> RunView:
        """What the panes show of a snapshot; `asks`: this screen's requests, `stopping_s`: since it asked to stop."""
        self._searcher.take(snapshot)
        self._heard.follow(snapshot.log_head, snapshot.log, snapshot.log_total)
        switches = switches_of(snapshot.events)
        # The clock of a run that is over stands still while its steps are still searched; the first ones are counted.
        second = second_of(snapshot.now_s, Turn.JUDGE)
        over = snapshot.life.is_over
        due = second, len(switches), self._searcher.searched if over else min(snapshot.steps_total, NEEDED)
        if due != self._figured:
            self._figured = due
            self._figures = self._figure(snapshot)
            compared = compare(switches, snapshot.steps_total, self._steps_between, self._known)
            self._comparisons = tuple(compared)
            self._restarts.take(snapshot)
        knobs = knob_states(snapshot.manifest.knobs, switches, asks)
        self._foreteller.take(snapshot, self._comparisons, knobs)
        situation = self._situation(snapshot, knobs, stopping_s)
        return RunView(
            snapshot,
            situation,
            banner(situation),
            knobs,
            self._restarts.found + self._comparisons,
            self._searcher.stalls,
            tuple(self._searcher.patterns.values()),
            tuple(self._searcher.compiles),
            self._figures.energy,
            self._heard.said,
            tried(snapshot.events.of(*OF_TRYING)) if over else None,
        )

    def _figure(self, snapshot: Snapshot) -> _Figures:
        rows = snapshot.steps
        switches = len(snapshot.events.of(PipelineSwitched))
        before = self._figures.judgement if switches == self._switches else NOT_JUDGED
        self._switches = switches
        accelerated = snapshot.manifest.accelerated
        op_by_op = snapshot.manifest.op_by_op
        judgement = judge(rows, before.verdict, accelerated=accelerated, op_by_op=op_by_op, bound=before.bound)
        recent = rows[-64:]
        median = float(np.median(step_ms(recent))) if len(recent) else None
        last = under_way(snapshot.ended, snapshot.pulse)
        doing = last.phase if last else None
        # Pauses are many, and the ledger asks for stops only.
        self._of_ledger += (event for event in snapshot.events[self._seen :] if _is_of_ledger(event))
        self._seen = len(snapshot.events)
        total, whole = self._ledger.take(snapshot.epochs.rows, self._of_ledger, snapshot.now_s, doing)
        return _Figures(
            judgement,
            whole,
            median,
            total.waiting_s,
            total.between_s,
            machine=self._searcher.machine.machine(snapshot),
            energy=self._searcher.machine.energy(snapshot),
            left_s=left_s(snapshot.progress, steps_in_all(snapshot)),
            callback=slow_callback(
                pauses_of(rows, snapshot.events), judgement.breakdown.host.mean if judgement.breakdown else 0.0
            ),
            fills=fills_shuffle(rows),
            held_end=_held_end(snapshot.events),
            lost=lost(total, snapshot.now_s, snapshot.latest.images if snapshot.latest else None, None),
        )

    def _situation(self, snapshot: Snapshot, knobs: dict[str, KnobState], stopping_s: float | None) -> Situation:
        figures, comparisons, now = self._figures, self._comparisons, bare_situation(snapshot)
        return replace(
            now,
            live=self._live,
            at_last=self._ending.finding() if self._ending and snapshot.life.is_over else None,
            shuffle=self._heard.shuffle if now.epoch_begins else None,
            judgement=figures.judgement,
            median_step_ms=figures.median_step_ms,
            epoch_spent=figures.epoch_spent,
            waited_s=figures.waited_s,
            between_s=figures.between_s,
            machine=figures.machine,
            left_s=figures.left_s,
            callback=figures.callback,
            fills=figures.fills,
            held_end=figures.held_end,
            lost=figures.lost,
            knobs={knob: state.now for knob, state in knobs.items()},
            asked=_asked(knobs),
            switch=comparisons[-1] if comparisons else None,
            experiment=_experiment(snapshot),
            flight=flying(snapshot.events.of(*OF_FLIGHTS)),
            stopping_s=None if stopping_s is None else max(0.0, snapshot.now_s - stopping_s),
            forecasts=self._foreteller.forecasts,
            record=self._foreteller.record,
            stages=self._foreteller.table,
            stalls=len(self._searcher.stalls),
            longest_stall_s=max((stall.lost_ms / 1e3 for stall in self._searcher.stalls), default=0.0),
        )


def steps_in_all(snapshot: Snapshot) -> int | None:
    """How many steps the run will have; None where nobody knows."""
    steps = snapshot.manifest.settings.get("steps")
    if isinstance(steps, int):
        return steps
    epochs, per_epoch = snapshot.manifest.epochs, snapshot.manifest.steps_per_epoch
    return epochs * per_epoch if epochs and per_epoch else None


def switches_of(events: Events) -> list[SwitchAsked | PipelineSwitched | SwitchFailed]:
    """What was asked of the knobs, and what came of it."""
    return events.of(SwitchAsked, PipelineSwitched, SwitchFailed)


def _held_end(events: Events) -> Paused | None:
    """Of the newest epochs: pauses are many."""
    ended = events.of(EpochEnded)[-_ENDS:]
    return held_end([*ended, *events.between(Paused, ended[0].at_ns - 10**9, 2**63)]) if ended else None


def _experiment(snapshot: Snapshot) -> Underway | None:
    found = underway(snapshot.events.of(ExperimentBegan, ExperimentBlock, ExperimentEnded))
    return replace(found, cut_off=snapshot.life.is_over) if found else None


def _asked(knobs: dict[str, KnobState]) -> dict[str, str]:
    """What is asked of the next batch; what waits for an epoch to begin stands beside its knob."""
    asked = {knob: state.asked for knob, state in knobs.items() if state.asked is not None}
    return {knob: value for knob, value in asked.items() if not epochs_until(knob, value)}


def _is_of_ledger(event: Event) -> bool:
    return not isinstance(event, Paused) or event.cause == STOPPED

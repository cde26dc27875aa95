"""A/B tests and autopilot runs, read from a run's events, and the settings under test that its end
left undecided."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tfwatch.core.events import (
    AUTOPILOT,
    EXPERIMENT,
    WITH_THE_RUN,
    AutopilotBegan,
    AutopilotEnded,
    ExperimentBegan,
    ExperimentBlock,
    ExperimentEnded,
    MoveJudged,
    MoveMade,
    PipelineSwitched,
    TunerLost,
)
from tfwatch.core.knobs import KnobChange
from tfwatch.judge.effects.experiment import Estimate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tfwatch.core.events import Event

#: The events by which an A/B test runs or not.
EXPERIMENT_EVENTS = (ExperimentBegan, ExperimentBlock, ExperimentEnded, TunerLost)
#: The events of an autopilot run.
AUTOPILOT_EVENTS = (AutopilotBegan, MoveMade, MoveJudged, AutopilotEnded, TunerLost)
#: The events that show an undecided setting.
UNDECIDED_EVENTS = (
    PipelineSwitched,
    MoveMade,
    MoveJudged,
    ExperimentBegan,
    ExperimentBlock,
    ExperimentEnded,
)


def estimate_of(ended: ExperimentEnded | AutopilotEnded) -> Estimate | None:
    """Return the ratio with its interval; None where it is unknown."""
    if ended.ratio is None or ended.low is None or ended.high is None:
        return None
    return Estimate(ended.ratio, ended.low, ended.high)


# -- A/B tests -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunningExperiment:
    """An A/B test that has not ended."""

    began: ExperimentBegan
    #: Its newest one; None before the first one is over.
    block: ExperimentBlock | None
    #: The run ended first.
    cut_off: bool = False


def running_experiment(events: Iterable[Event]) -> RunningExperiment | None:
    """Return the A/B test that runs; None where none does. Other events are skipped."""
    running: RunningExperiment | None = None
    for event in events:
        if isinstance(event, ExperimentBegan):
            running = RunningExperiment(event, None)
        elif isinstance(event, ExperimentBlock) and running:
            running = RunningExperiment(running.began, event)
        elif isinstance(event, ExperimentEnded | TunerLost):
            running = None
    return running


# -- autopilot runs --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AutopilotRun:
    """A run of the autopilot."""

    began: AutopilotBegan
    #: The newest move.
    made: MoveMade | None = None
    #: Judged ones, oldest first.
    moves: tuple[MoveJudged, ...] = ()
    #: None while it runs.
    ended: AutopilotEnded | None = None
    #: Its process is gone without an end.
    is_lost: bool = False

    @property
    def before_ms(self) -> float | None:
        """The mean step at its start; None before a move was judged."""
        known = self.ended.before_ms if self.ended else None
        return self.moves[0].before_ms if known is None and self.moves else known

    @property
    def after_ms(self) -> float | None:
        """The mean step with the moves kept so far; None before a move was judged."""
        if self.ended and self.ended.after_ms is not None:
            return self.ended.after_ms
        kept = [move.after_ms for move in self.moves if move.kept and move.after_ms is not None]
        return kept[-1] if kept else self.before_ms

    @property
    def estimate(self) -> Estimate | None:
        """The proved gain; None while it runs, and without one."""
        return estimate_of(self.ended) if self.ended else None

    @property
    def kept(self) -> tuple[KnobChange, ...]:
        """The changes that the run continues with, each from the setting at the start."""
        first: dict[str, str] = {}
        last: dict[str, str] = {}
        for change in (one for move in self.moves if move.kept for one in changes_of(move)):
            first.setdefault(change.knob, change.old)
            last[change.knob] = change.new
        last |= (
            {knob: self.ended.knobs.get(knob, last[knob]) for knob in last} if self.ended else {}
        )
        return tuple(
            KnobChange(knob, old, last[knob]) for knob, old in first.items() if last[knob] != old
        )


def changes_of(move: MoveMade | MoveJudged) -> tuple[KnobChange, ...]:
    """Return all switches of a move."""
    return (move.change, *move.beside)


def autopilot_runs(events: Iterable[object]) -> list[AutopilotRun]:
    """Return every autopilot run, oldest first; other events are skipped."""
    runs: list[AutopilotRun] = []
    for event in events:
        if isinstance(event, AutopilotBegan):
            runs.append(AutopilotRun(event))
        elif runs and isinstance(event, MoveMade):
            runs[-1] = replace(runs[-1], made=event)
        elif runs and isinstance(event, MoveJudged):
            runs[-1] = replace(runs[-1], moves=(*runs[-1].moves, event))
        elif runs and isinstance(event, AutopilotEnded):
            runs[-1] = replace(runs[-1], ended=event)
        elif runs and isinstance(event, TunerLost):
            runs[-1] = replace(runs[-1], is_lost=True)
    return runs


def running_autopilot(events: Iterable[object]) -> AutopilotRun | None:
    """Return the autopilot run that has not ended; None where there is none."""
    newest = next(iter(reversed(autopilot_runs(events))), None)
    return newest if newest and newest.ended is None and not newest.is_lost else None


# -- undecided settings ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Undecided:
    """The knobs under test by an A/B test or the autopilot at the end of a run."""

    #: By knob, the setting by the answer of the test; without an answer the setting before it.
    decided: Mapping[str, str]
    #: First and last step of each stretch with `decided`, oldest first.
    stretches: tuple[tuple[int, int], ...]
    #: The end of the last of them.
    at_ns: int


def find_undecided(events: Iterable[object]) -> Undecided | None:
    """Return the knobs under test at the end of a run's events, of `UNDECIDED_EVENTS`; None where
    all was decided."""
    test = _newest_test(events)
    if test is None:
        return None
    decided = {
        knob: value for knob, value in test.decided.items() if value and value != test.now[knob]
    }
    return Undecided(decided, test.stretches(decided), test.end_ns(decided)) if decided else None


def blocks_like_the_last(events: Iterable[object]) -> tuple[tuple[int, int], ...]:
    """Return first and last step of the newest A/B test's earlier stretches with the final setting
    of the run.

    Empty where no A/B test made the last switch. events: of `UNDECIDED_EVENTS`.
    """
    test = _newest_test(events)
    if test is None or test.knob not in test.now:
        return ()
    stretches = test.stretches({test.knob: test.now[test.knob]})
    return tuple(stretch for stretch in stretches if stretch[1] < test.last_switch)


@dataclass(slots=True)
class _Test:
    """The newest A/B test, or move of the autopilot that was not kept."""

    step: int
    at_ns: int
    #: Those that it switches.
    knobs: set[str]
    #: Of an A/B test; empty for a move.
    knob: str = ""
    blocks: list[ExperimentBlock] = field(default_factory=list)
    #: The values of its knobs before it, by its answer, and now; empty before its first switch.
    before: dict[str, str] = field(default_factory=dict)
    decided: dict[str, str] = field(default_factory=dict)
    now: dict[str, str] = field(default_factory=dict)
    last_switch: int = 0

    def switch(self, event: PipelineSwitched) -> None:
        """Take a switch of the tuner in; one of another knob takes back the move before."""
        if event.knob not in self.knobs:
            return
        self.before.setdefault(event.knob, event.old)
        self.decided.setdefault(event.knob, self.before[event.knob])
        self.now[event.knob], self.last_switch = event.new, event.step

    def drop(self, knob: str) -> None:
        """Forget a knob that somebody else has switched."""
        self.knobs.discard(knob)
        for values in (self.before, self.decided, self.now):
            values.pop(knob, None)

    def answer(self, kept: str) -> None:
        """Take the answer of an A/B test; a value that had no block is none."""
        if not kept or any(block.value == kept for block in self.blocks):
            self.decided[self.knob] = kept
        self.now.setdefault(self.knob, kept)

    def stretches(self, values: Mapping[str, str]) -> tuple[tuple[int, int], ...]:
        """Return first and last step of each stretch with these values, also of the one before."""
        is_as_before = all(self.before.get(knob) == value for knob, value in values.items())
        first = ((1, self.step),) if is_as_before else ()
        return (*first, *((one.first, one.last) for one in self._blocks(values)))

    def end_ns(self, values: Mapping[str, str]) -> int:
        """Return the end of the last of them."""
        return max((block.at_ns for block in self._blocks(values)), default=self.at_ns)

    def _blocks(self, values: Mapping[str, str]) -> list[ExperimentBlock]:
        return [block for block in self.blocks if block.value == values.get(self.knob)]


def _newest_test(events: Iterable[object]) -> _Test | None:
    test: _Test | None = None
    for event in events:
        if isinstance(event, ExperimentBegan):
            test = _Test(event.step, event.at_ns, {event.knob}, event.knob)
        elif isinstance(event, MoveMade) and not event.undoes:
            test = _test_of(event)
        elif test is not None:
            test = _after(test, event)
    return test


def _test_of(move: MoveMade) -> _Test:
    """Return the test of a move. Made again before its undoing takes effect, its first switch is
    that undoing: the values before it are those of the move."""
    before = {one.knob: one.old for one in changes_of(move)}
    return _Test(move.step, move.at_ns, set(before), before=before)


def _after(test: _Test, event: object) -> _Test | None:
    """Return a test after an event; None where that decides it."""
    if isinstance(event, PipelineSwitched) and event.by in (EXPERIMENT, AUTOPILOT):
        test.switch(event)
    elif isinstance(event, PipelineSwitched) and not test.knob:
        test.drop(event.knob)
    elif isinstance(event, PipelineSwitched):
        return None
    elif isinstance(event, ExperimentBlock):
        test.blocks.append(event)
    elif isinstance(event, ExperimentEnded) and event.cause not in WITH_THE_RUN:
        test.answer(event.kept)
    elif isinstance(event, MoveJudged) and event.kept:
        return None
    return test

"""A/B tests and autopilot runs, read from a run's events."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tfwatch.core.events import (
    AutopilotBegan,
    AutopilotEnded,
    ExperimentBegan,
    ExperimentBlock,
    ExperimentEnded,
    MoveJudged,
    MoveMade,
    TunerLost,
)
from tfwatch.core.knobs import KnobChange
from tfwatch.judge.effects.interval import Estimate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tfwatch.core.events import Event

#: The events by which an A/B test runs or not.
EXPERIMENT_EVENTS = (ExperimentBegan, ExperimentBlock, ExperimentEnded, TunerLost)
#: The events of an autopilot run.
AUTOPILOT_EVENTS = (AutopilotBegan, MoveMade, MoveJudged, AutopilotEnded, TunerLost)


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

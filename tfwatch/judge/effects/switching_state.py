"""The settings of a run as its events leave them: the state of each knob with the values that its
keys ask for next, the A/B test that runs, and the runs of the autopilot."""

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
    PipelineSwitched,
    SwitchAsked,
    SwitchFailed,
    TunerLost,
)
from tfwatch.core.knobs import KNOBS, LARGEST, PREFETCH, WORKERS, KnobChange
from tfwatch.judge.effects.interval import Estimate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tfwatch.core.events import Event

#: The depth that a key doubles or halves from `auto` and `default`.
_UNSET_DEPTH = 4
#: The events by which an A/B test runs or not.
EXPERIMENT_EVENTS = (ExperimentBegan, ExperimentBlock, ExperimentEnded, TunerLost)
#: The events of an autopilot run.
AUTOPILOT_EVENTS = (AutopilotBegan, MoveMade, MoveJudged, AutopilotEnded, TunerLost)


# -- knobs ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KnobRequest:
    """A request of this screen for a setting, seconds since the clock origin."""

    knob: str
    value: str
    at_s: float


@dataclass(frozen=True, slots=True)
class KnobState:
    """The state of one knob, values in words."""

    knob: str
    #: In effect.
    now: str
    #: The setting that a key turns it on to.
    last_on: str
    #: The request that waits, and its time.
    asked: str | None = None
    asked_s: float = 0.0
    #: The reason why the last request failed; empty where it did not.
    failed: str = ""
    #: The newest event of the knob.
    reported_s: float = -1.0

    @property
    def coming(self) -> str:
        """The setting after the request that waits."""
        return self.now if self.asked is None else self.asked

    def after(self, event: SwitchAsked | PipelineSwitched | SwitchFailed) -> KnobState:
        """Return the state after an event of the training."""
        at_s = event.at_ns / 1e9
        state = replace(self, reported_s=at_s, failed="", asked=None)
        if isinstance(event, SwitchFailed):
            return replace(state, failed=event.reason)
        if isinstance(event, SwitchAsked):
            asked = event.new if event.new != event.old else None
            return replace(state, asked=asked, asked_s=at_s)
        last_on = event.new if event.new != "off" else self.last_on
        return replace(state, now=event.new, last_on=last_on)

    def with_request(self, ask: KnobRequest) -> KnobState:
        """Return the state with a request of this screen; it counts until the training reports a
        newer event of that knob."""
        if ask.at_s < self.reported_s:
            return self
        asked = None if ask.value == self.now else ask.value
        return replace(self, failed="", asked=asked, asked_s=ask.at_s)


def knob_states(
    start: Mapping[str, str], events: Iterable[Event], asks: Iterable[KnobRequest] = ()
) -> dict[str, KnobState]:
    """Return each knob of `start` (name to value at the run's start) after the events and this
    screen's requests."""
    states = {
        knob: KnobState(knob, value, value if value != "off" else KNOBS[knob].first_on)
        for knob, value in start.items()
    }
    for event in events:
        if not isinstance(event, SwitchAsked | PipelineSwitched | SwitchFailed):
            continue
        if event.knob in states:
            states[event.knob] = states[event.knob].after(event)
    for ask in asks:
        if ask.knob in states:
            states[ask.knob] = states[ask.knob].with_request(ask)
    return states


def knobs_in_effect(
    start: Mapping[str, str], switches: Iterable[PipelineSwitched]
) -> dict[str, str]:
    """Return the value of every knob after these switches of a run that began with `start`."""
    return {**start, **{switch.knob: switch.new for switch in switches}}


def choices(state: KnobState) -> tuple[str, ...]:
    """Return the settings that the keys of a knob ask for next, each once."""
    values = [toggled(state)]
    if state.knob == PREFETCH:
        values += [deeper(state.coming), shallower(state.coming)]
    return tuple(value for value in dict.fromkeys(values) if value != state.now)


def toggled(state: KnobState) -> str:
    """Return `off` for a knob that is on or about to be, else its last setting that was on.

    Workers as a script wrote them come first on.
    """
    if state.knob == WORKERS and state.coming == "default":
        return KNOBS[state.knob].first_on
    return state.last_on if state.coming == "off" else "off"


def test_order(*values: str) -> list[str]:
    """Return the values of an A/B test, off first: the result describes the second one."""
    return sorted(values, key=lambda value: value != "off")


def deeper(value: str) -> str:
    """Return twice the depth."""
    return "1" if value == "off" else str(min(2 * _depth(value), LARGEST))


def shallower(value: str) -> str:
    """Return half the depth; below 1 it is off."""
    if value == "off":
        return "off"
    return "off" if _depth(value) < 2 else str(_depth(value) // 2)


def find_undo(states: Mapping[str, KnobState], events: Iterable[Event]) -> tuple[str, str] | None:
    """Return the (knob, value) that undoes the newest switch, a waiting request first; None where
    there is none."""
    asked = [state for state in states.values() if state.asked is not None]
    if asked:
        newest = max(asked, key=lambda state: state.asked_s)
        return newest.knob, newest.now
    made = [event for event in events if isinstance(event, PipelineSwitched)]
    return (made[-1].knob, made[-1].old) if made else None


def _depth(value: str) -> int:
    return int(value) if value.isdigit() else _UNSET_DEPTH


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
    #: The setting before it, which stays unless another is proved faster; empty where unknown.
    before: str = ""


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
    def estimate(self) -> Estimate | None:
        """The proved gain; None while it runs, and without one."""
        return estimate_of(self.ended) if self.ended else None

    @property
    def kept(self) -> tuple[KnobChange, ...]:
        """The proved changes that the run continues with, or ended with, each from the setting at
        the start."""
        first: dict[str, str] = {}
        last: dict[str, str] = {}
        for change in (one for move in self.moves if move.kept for one in move.changes):
            first.setdefault(change.knob, change.old)
            last[change.knob] = change.new
        if self.ended and self.ended.cause != "over":
            last |= {knob: self.ended.knobs.get(knob, last[knob]) for knob in last}
        return tuple(
            KnobChange(knob, old, last[knob]) for knob, old in first.items() if last[knob] != old
        )

    @property
    def undone(self) -> set[tuple[str, str]]:
        """The knobs and values of its moves that it did not keep."""
        tried = {(one.knob, one.new) for move in self.moves for one in move.changes}
        return tried - {(one.knob, one.new) for one in self.kept}

    @property
    def unproved(self) -> tuple[KnobChange, ...]:
        """The changes that were in effect when the run ended, and are not proved."""
        if self.ended is None or self.ended.cause != "over":
            return ()
        kept = {(change.knob, change.new) for change in self.kept}
        tried = (change for move in (*self.moves, self.made) if move for change in move.changes)
        in_effect = (one for one in tried if self.ended.knobs.get(one.knob) == one.new)
        return tuple(dict.fromkeys(one for one in in_effect if (one.knob, one.new) not in kept))


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

"""What each knob stands at, what was asked of it, and what a key would ask next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tfwatch.core.events import PipelineSwitched, SwitchAsked, SwitchFailed
from tfwatch.core.knobs import LARGEST
from tfwatch.core.moves import AUTOPILOT
from tfwatch.core.trials import EXPERIMENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tfwatch.core.events import Event

_FIRST_ON = {"prefetch": "4", "workers": "auto", "latency_ms": "20 ms", "fast_form": "on", "cache": "on"}
#: The depth that `auto` and `default` are taken for when a key doubles or halves it.
_UNSET_DEPTH = 4


@dataclass(frozen=True, slots=True)
class Ask:
    """A setting asked for on this screen, seconds since the clock origin."""

    knob: str
    value: str
    at_s: float


@dataclass(frozen=True, slots=True)
class KnobState:
    """One knob, values in words.

    now: in effect; asked: asked for and not yet obeyed, with since when and by whom; last_on: what it is turned on to;
    failed: why the last request could not be obeyed, empty where it could.
    """

    knob: str
    now: str
    last_on: str
    asked: str | None = None
    asked_s: float = 0.0
    asked_by: str = ""
    failed: str = ""

    @property
    def coming(self) -> str:
        """What it stands at once everything asked for is obeyed."""
        return self.now if self.asked is None else self.asked


def knob_states(start: Mapping[str, str], events: Iterable[Event], asks: Iterable[Ask] = ()) -> dict[str, KnobState]:
    """Each knob of `start` (name to value at the run's start) after the events and this screen's own asks."""
    folds = {knob: _Fold(knob, value) for knob, value in start.items()}
    for event in events:
        if isinstance(event, (SwitchAsked, PipelineSwitched, SwitchFailed)) and event.knob in folds:
            folds[event.knob].take(event)
    for ask in asks:
        if ask.knob in folds:
            folds[ask.knob].ask(ask)
    return {knob: fold.state() for knob, fold in folds.items()}


class _Fold:
    def __init__(self, knob: str, value: str) -> None:
        self.knob = knob
        self.now = value
        self.last_on = value if value != "off" else first_on(knob)
        self.asked: str | None = None
        self.asked_s = 0.0
        self.asked_by = ""
        self.told_s = -1.0
        self.failed = ""

    def take(self, event: SwitchAsked | PipelineSwitched | SwitchFailed) -> None:
        self.told_s = event.at_ns / 1e9
        self.failed = event.reason if isinstance(event, SwitchFailed) else ""
        self.asked = event.new if isinstance(event, SwitchAsked) and event.new != event.old else None
        if isinstance(event, SwitchAsked):
            self.asked_s, self.asked_by = self.told_s, event.by
        elif isinstance(event, PipelineSwitched):
            self.now = event.new
            self.last_on = event.new if event.new != "off" else self.last_on

    def ask(self, ask: Ask) -> None:
        """A screen's own request counts until the training thread has said a word about that knob since."""
        if ask.at_s < self.told_s:
            return
        self.failed = ""
        self.asked = None if ask.value == self.now else ask.value
        self.asked_s, self.asked_by = ask.at_s, "key"

    def state(self) -> KnobState:
        return KnobState(self.knob, self.now, self.last_on, self.asked, self.asked_s, self.asked_by, self.failed)


def first_on(knob: str) -> str:
    """What a knob that never was on is turned to."""
    return _FIRST_ON.get(knob, "auto")


def choices(state: KnobState) -> tuple[str, ...]:
    """The values that the keys of a knob ask for next, each once."""
    found = [toggled(state)]
    if state.knob == "prefetch":
        found += [deeper(state.coming), shallower(state.coming)]
    return tuple(value for value in dict.fromkeys(found) if value != state.now)


def toggled(state: KnobState) -> str:
    """Off where it is on or coming on; else what it last was on."""
    return state.last_on if state.coming == "off" else "off"


def deeper(value: str) -> str:
    """Twice the depth."""
    return "1" if value == "off" else str(min(2 * _depth(value), LARGEST))


def shallower(value: str) -> str:
    """Half the depth; below 1 it is off."""
    if value == "off":
        return "off"
    return "off" if _depth(value) < 2 else str(_depth(value) // 2)


def undone(states: Mapping[str, KnobState], events: Iterable[Event]) -> tuple[str, str] | None:
    """(knob, value) that takes the last switch back, one asked for first; None where there was none.

    The switches of an experiment are one: from what stood before it. What the autopilot took back itself is none.
    """
    made = [_Turned(e.knob, e.old, e.new, e.by) for e in events if isinstance(e, PipelineSwitched) and e.knob in states]
    asked = sorted((state for state in states.values() if state.asked is not None), key=lambda state: state.asked_s)
    turned: list[_Turned] = []
    for turn in [*made, *(_Turned(one.knob, one.now, one.coming, one.asked_by) for one in asked)]:
        before = next((one for one in reversed(turned) if one.knob == turn.knob), None)
        if before is not None and turn.by == before.by == AUTOPILOT and before.old == turn.new:
            turned.remove(before)
        elif before is not None and turn.by == before.by == EXPERIMENT and before is turned[-1]:
            turned[-1] = replace(turn, old=before.old)
        else:
            turned.append(turn)
    return next(((turn.knob, turn.old) for turn in reversed(turned) if turn.old != turn.new), None)


@dataclass(frozen=True, slots=True, eq=False)
class _Turned:
    """A switch, values in words, and who asked for it."""

    knob: str
    old: str
    new: str
    by: str


def no_experiment(knob: str) -> str:
    """Why a knob cannot be experimented on; empty where it can."""
    if knob == "shuffle":
        return "shuffle buffer: no experiment, it changes at an epoch's start and what is trained with it"
    return "cache: no experiment, what it keeps is kept for both" if knob == "cache" else ""


def _depth(value: str) -> int:
    return int(value) if value.isdigit() else _UNSET_DEPTH

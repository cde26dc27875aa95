"""Requests for switches: the knobs a run has, why one is refused, and what a key asks of the training.

Which knobs a run has, and why one is not turned now.

What this screen asks of the training, and what it remembers of it until the training answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.analysis.tuning import knob_state
from tfwatch.analysis.tuning.search_text import subject
from tfwatch.core.knobs import LARGEST, as_value, knob_name
from tfwatch.core.refusals import LACKING, NoRoom, Refusal, no_room
from tfwatch.live.evidence import switches_of
from tfwatch.runs.control import Autopilot, Experiment, Request
from tfwatch.runs.liveness import Life
from tfwatch.widgets.knobs import available_bytes

if TYPE_CHECKING:
    from tfwatch.analysis.tuning.knob_state import KnobState
    from tfwatch.core.clock import Clock
    from tfwatch.live.view import RunView
    from tfwatch.runs.control import Control
    from tfwatch.runs.reader import Snapshot


def has_latency(snapshot: Snapshot) -> bool:
    """Whether simulated storage latency was asked for at the run's start."""
    asked = snapshot.manifest.settings.get("storage_latency_ms")
    return bool(asked) or snapshot.manifest.knobs.get("latency_ms", "off") != "off"


def has_knob(snapshot: Snapshot, knob: str) -> bool:
    """Whether a run has a knob; simulated latency only where it was asked for."""
    return knob in snapshot.manifest.knobs and (knob != "latency_ms" or has_latency(snapshot))


def lacking(snapshot: Snapshot, knob: str) -> Refusal | None:
    """Why a run's workload lacks a knob; None where it does not, or its pipeline is a script's own."""
    if knob == "latency_ms" and not has_latency(snapshot):
        return Refusal.NO_LATENCY
    return LACKING.get(knob) if knob in ("fast_form", "cache") and not has_knob(snapshot, knob) else None


def refusal(snapshot: Snapshot, knob: str, live: bool, ending: bool = False) -> Refusal | None:
    """Why a knob is not turned; None where it can be. live: keys are obeyed; ending: a stop was asked for."""
    if snapshot.ended or snapshot.life is Life.KILLED:
        return Refusal.RUN_IS_OVER
    if ending:
        return Refusal.RUN_IS_ENDING
    if not live:
        return Refusal.READ_ONLY
    return None if knob in snapshot.manifest.switchable else Refusal.FIXED


def cache_refusal(snapshot: Snapshot, state: KnobState) -> NoRoom | None:
    """Why a cache is not turned on for want of memory; None where it can be, or is on already."""
    return None if state.coming == "on" else no_room(snapshot.manifest.cache_bytes, available_bytes(snapshot))


#: A terminal repeats a held-down key after up to 0.66 s and then quickly: presses closer than this are one.
HELD_S = 0.7
_DEEPEST = f"prefetch {LARGEST} is the deepest"


class Switchboard:
    """Passes requests on. `control` is None where the run can only be looked at."""

    def __init__(self, control: Control | None, clock: Clock) -> None:
        self.control = control
        self.asks: list[knob_state.Ask] = []
        self._clock = clock
        self._pressed: dict[str, int] = {}

    def is_held(self, key: str) -> bool:
        """Whether this press only repeats the one before it."""
        now = self._clock.now_ns()
        before = self._pressed.get(key)
        self._pressed[key] = now
        return before is not None and now - before < HELD_S * 1e9

    def toggle(self, view: RunView, knob: str) -> str:
        """Ask for a knob off, or back on. Returns why not; empty where it was asked."""
        refusal, state = self._state(view, knob)
        return self._ask(view, knob, knob_state.toggled(state)) if state else refusal

    def deepen(self, view: RunView, direction: int) -> str:
        """Ask for twice the prefetch depth, or half of it where negative. Returns why not."""
        refusal, state = self._state(view, "prefetch")
        if state is None:
            return refusal
        value = (knob_state.deeper if direction > 0 else knob_state.shallower)(state.coming)
        if value == state.coming:
            return f"{_DEEPEST if direction > 0 else 'prefetch off is the least'} there is"
        return self._ask(view, "prefetch", value)

    def experiment(self, view: RunView, knob: str, *, deeper: bool = False) -> str:
        """Find out whether what a knob's key would turn it to is faster; or end that. Returns what to say of it.

        deeper: of prefetch, against twice its depth.
        """
        going = view.situation.experiment
        if going and self.control is not None:
            self.control.order(None)
            return f"experiment ended: {going.subject}"
        refusal, state = self._state(view, knob)
        if state is None or self.control is None:
            return refusal
        if why := knob_state.no_experiment(knob):
            return why
        other = knob_state.deeper(state.coming) if deeper else knob_state.toggled(state)
        if other == state.coming:
            return f"{_DEEPEST} there is"
        # Off comes first: what is faster is told of the other one.
        values = sorted((state.coming, other), key=lambda value: value != "off")
        first, second = (as_value(knob, value) for value in values)
        self.control.order(Experiment(knob, (first, second), seed=view.snapshot.steps_total))
        return f"experiment: {subject(knob, values)}; a ends it"

    def autopilot(self, view: RunView) -> str:
        """Have the device fed by itself; or end that. Returns what to say of it."""
        if self.control is not None and view.situation.flight is not None:
            self.control.order(None)
            return "autopilot ended; what it found to help stays"
        first = next(iter(view.snapshot.manifest.switchable), "")
        refused = self._refused(view, first)
        if refused or self.control is None:
            return f"autopilot: {(refused or Refusal.READ_ONLY).words}"
        self.control.order(Autopilot(view.snapshot.manifest.memory_limit))
        return "autopilot: it turns the knobs; f ends it"

    def undo(self, view: RunView) -> str:
        """Ask for what stood before the last switch. Returns why not."""
        back = knob_state.undone(self._states(view), switches_of(view.snapshot.events))
        if back is None:
            return "nothing was switched yet"
        refusal, state = self._state(view, back[0])
        return self._ask(view, *back) if state else refusal

    def _states(self, view: RunView) -> dict[str, knob_state.KnobState]:
        """The knobs with what was asked since the last frame."""
        return knob_state.knob_states(view.snapshot.manifest.knobs, switches_of(view.snapshot.events), self.asks)

    def _state(self, view: RunView, knob: str) -> tuple[str, knob_state.KnobState | None]:
        refused = lacking(view.snapshot, knob) or self._refused(view, knob)
        state = None if refused else self._states(view).get(knob)
        return f"{knob_name(knob)}: {(refused or Refusal.NO_SUCH_KNOB).words}", state

    def _refused(self, view: RunView, knob: str) -> Refusal | None:
        """Why a knob cannot be turned; None where it can."""
        ending = self.control is not None and self.control.stop.is_set() and not view.is_over
        return refusal(view.snapshot, knob, self.control is not None, ending)

    def _ask(self, view: RunView, knob: str, value: str) -> str:
        assert self.control is not None
        self.asks = [ask for ask in self.asks if ask.knob != knob] + [knob_state.Ask(knob, value, view.snapshot.now_s)]
        self.control.ask(Request(knob, as_value(knob, value), by="key"))
        return ""

    def stop(self) -> None:
        """Ask the training to end at the next batch."""
        if self.control is not None:
            self.control.stop.set()

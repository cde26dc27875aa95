"""What this screen asks of the training, and what it remembers of it until the training answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.analysis import turns
from tfwatch.analysis.trials import subject
from tfwatch.core.knobs import LARGEST, as_value, knob_name
from tfwatch.core.refusals import Refusal
from tfwatch.live.evidence import switches_of
from tfwatch.runs.control import Autopilot, Experiment, Request
from tfwatch.screens import refusals

if TYPE_CHECKING:
    from tfwatch.core.clock import Clock
    from tfwatch.live.view import RunView
    from tfwatch.runs.control import Control

#: A terminal repeats a held-down key after up to 0.66 s and then quickly: presses closer than this are one.
HELD_S = 0.7
_DEEPEST = f"prefetch {LARGEST} is the deepest"


class Switchboard:
    """Passes requests on. `control` is None where the run can only be looked at."""

    def __init__(self, control: Control | None, clock: Clock) -> None:
        self.control = control
        self.asks: list[turns.Ask] = []
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
        return self._ask(view, knob, turns.toggled(state)) if state else refusal

    def deepen(self, view: RunView, direction: int) -> str:
        """Ask for twice the prefetch depth, or half of it where negative. Returns why not."""
        refusal, state = self._state(view, "prefetch")
        if state is None:
            return refusal
        value = (turns.deeper if direction > 0 else turns.shallower)(state.coming)
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
        if why := turns.no_experiment(knob):
            return why
        other = turns.deeper(state.coming) if deeper else turns.toggled(state)
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
        back = turns.undone(self._states(view), switches_of(view.snapshot.events))
        if back is None:
            return "nothing was switched yet"
        refusal, state = self._state(view, back[0])
        return self._ask(view, *back) if state else refusal

    def _states(self, view: RunView) -> dict[str, turns.KnobState]:
        """The knobs with what was asked since the last frame."""
        return turns.knob_states(view.snapshot.manifest.knobs, switches_of(view.snapshot.events), self.asks)

    def _state(self, view: RunView, knob: str) -> tuple[str, turns.KnobState | None]:
        refused = refusals.lacking(view.snapshot, knob) or self._refused(view, knob)
        state = None if refused else self._states(view).get(knob)
        return f"{knob_name(knob)}: {(refused or Refusal.NO_SUCH_KNOB).words}", state

    def _refused(self, view: RunView, knob: str) -> Refusal | None:
        """Why a knob cannot be turned; None where it can."""
        ending = self.control is not None and self.control.stop.is_set() and not view.is_over
        return refusals.refusal(view.snapshot, knob, self.control is not None, ending)

    def _ask(self, view: RunView, knob: str, value: str) -> str:
        assert self.control is not None
        self.asks = [ask for ask in self.asks if ask.knob != knob] + [turns.Ask(knob, value, view.snapshot.now_s)]
        self.control.ask(Request(knob, as_value(knob, value), by="key"))
        return ""

    def stop(self) -> None:
        """Ask the training to end at the next batch."""
        if self.control is not None:
            self.control.stop.set()

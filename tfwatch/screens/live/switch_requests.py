"""The requests to the training that keys send."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.analysis.tuning import knob_state
from tfwatch.analysis.tuning.tuner_text import subject_text
from tfwatch.core.knobs import LARGEST, PREFETCH, WORKERS, check_value, knob_name
from tfwatch.core.refusals import Refusal
from tfwatch.runs.control.requests import Autopilot, Experiment, Request

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.core.clock import Clock
    from tfwatch.live.view import RunView
    from tfwatch.runs.control.requests import Refused, Requests


#: A terminal repeats a held-down key after up to 0.66 s, then faster: presses closer than this count as one.
HELD_S = 0.7
_DEEPEST = f"prefetch {LARGEST} is the maximum"


class SwitchRequests:
    """Sends requests to the training. `control` is None where the run is read only.

    interrupt: stops the script of `tfwatch run`; None where the training stops by `control`.
    """

    def __init__(
        self, control: Requests | None, clock: Clock, interrupt: Callable[[], None] | None = None
    ) -> None:
        self.control = control
        self._interrupt = interrupt
        self.asks: list[knob_state.KnobRequest] = []
        self._clock = clock
        self._pressed: dict[str, int] = {}

    def take_refusals(self) -> list[Refused]:
        """Return what the training of another process refused since the last call; those requests wait no longer."""
        refusals = self.control.take_refusals() if self.control else []
        knobs = {refused.knob for refused in refusals}
        self.asks = [ask for ask in self.asks if ask.knob not in knobs]
        return refusals

    def is_held(self, key: str) -> bool:
        """Return True where this press is the repeat of a held-down key."""
        now = self._clock.now_ns()
        before = self._pressed.get(key)
        self._pressed[key] = now
        return before is not None and now - before < HELD_S * 1e9

    def toggle(self, view: RunView, knob: str) -> str:
        """Request a knob off, or back on. Return the reason for a refusal; empty where the request was sent."""
        refusal, state = self._state(view, knob)
        return self._ask(view, knob, knob_state.toggled(state)) if state else refusal

    def toggle_stage(self, view: RunView, stage: int) -> str:
        """Request the parallel calls of one map or interleave off, or on. Return the reason for a refusal."""
        refusal, state = self._state(view, WORKERS)
        if state is None:
            return refusal
        stages = len(view.snapshot.manifest.parallel_stages)
        return self._ask(view, WORKERS, knob_state.one_stage_toggled(state, stages, stage))

    def deepen(self, view: RunView, direction: int) -> str:
        """Request twice the prefetch depth, or half where `direction` is negative. Return the reason for a refusal."""
        refusal, state = self._state(view, PREFETCH)
        if state is None:
            return refusal
        value = (knob_state.deeper if direction > 0 else knob_state.shallower)(state.coming)
        if value == state.coming:
            return _DEEPEST if direction > 0 else "prefetch is already off"
        return self._ask(view, PREFETCH, value)

    def toggle_experiment(
        self, view: RunView, knob: str, *, deeper: bool = False, against: str = ""
    ) -> str:
        """Start an A/B test of a knob's current value and its next one, or end the one that runs. Return a message.

        deeper: test prefetch at twice its depth. against: the other value, where it is not the next one.
        """
        running = view.situation.experiment
        if running and self.control is not None:
            self.control.ask_tuner(None)
            return f"A/B test ended: {running.subject}"
        refusal, state = self._state(view, knob)
        if state is None or self.control is None:
            return refusal
        if why := knob_state.why_no_experiment(knob):
            return why
        other = against or (
            knob_state.deeper(state.coming) if deeper else knob_state.toggled(state)
        )
        if other == state.coming:
            return _DEEPEST
        values = knob_state.test_order(state.coming, other)
        first, second = (check_value(knob, value) for value in values)
        self.control.ask_tuner(Experiment(knob, (first, second), seed=view.snapshot.steps_total))
        return f"A/B test: {subject_text(knob, values)}; a ends it"

    def toggle_autopilot(self, view: RunView) -> str:
        """Start the autopilot, or end it. Return a message."""
        if self.control is not None and view.situation.autopilot_run is not None:
            self.control.ask_tuner(None)
            return "autopilot ended; the settings that helped stay"
        fixed = None if view.snapshot.manifest.switchable else Refusal.FIXED
        refused = view.run_refusal(self.control is not None, self._is_ending(view)) or fixed
        if refused or self.control is None:
            return f"autopilot: {(refused or Refusal.READ_ONLY).words}"
        self.control.ask_tuner(Autopilot(view.snapshot.manifest.memory_limit))
        return "autopilot: it switches the settings; f ends it"

    def undo(self, view: RunView) -> str:
        """Request the setting before the last switch. Return the reason for a refusal."""
        back = knob_state.find_undo(self._states(view), view.snapshot.events.switches())
        if back is None:
            return "nothing to undo: no switch yet"
        refusal, state = self._state(view, back[0])
        return self._ask(view, *back) if state else refusal

    def _states(self, view: RunView) -> dict[str, knob_state.KnobState]:
        """The knobs, with the requests since the last frame."""
        return knob_state.knob_states(
            view.snapshot.manifest.knobs, view.snapshot.events.switches(), self.asks
        )

    def _state(self, view: RunView, knob: str) -> tuple[str, knob_state.KnobState | None]:
        """The reason why a knob cannot be switched, or its state where it can."""
        refused = view.refusal(knob, self.control is not None, self._is_ending(view))
        state = None if refused else self._states(view).get(knob)
        if state is not None:
            return "", state
        return f"{knob_name(knob)}: {(refused or Refusal.NO_SUCH_KNOB).words}", None

    def _is_ending(self, view: RunView) -> bool:
        return self.control is not None and self.control.is_stopping and not view.is_over

    def _ask(self, view: RunView, knob: str, value: str) -> str:
        assert self.control is not None
        self.asks = [ask for ask in self.asks if ask.knob != knob] + [
            knob_state.KnobRequest(knob, value, view.snapshot.now_s)
        ]
        self.control.ask(Request(knob, value, by="key"))
        return ""

    def stop(self) -> None:
        """Ask the training to stop at the next batch."""
        if self._interrupt:
            self._interrupt()
        elif self.control is not None:
            self.control.ask_stop()

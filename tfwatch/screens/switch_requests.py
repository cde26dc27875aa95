"""Requests to the training: the knobs of a run, the reason why a switch is refused, and the requests that keys send."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.analysis.tuning import knob_state
from tfwatch.analysis.tuning.search_text import subject_text
from tfwatch.core.knobs import LARGEST, as_value, knob_name
from tfwatch.core.refusals import LACKING, NoRoom, Refusal, no_room
from tfwatch.live.evidence import switches_of
from tfwatch.runs.control import Autopilot, Experiment, Request
from tfwatch.runs.liveness import Life
from tfwatch.widgets.knobs import available_bytes

if TYPE_CHECKING:
    from tfwatch.analysis.tuning.comparison import Comparison
    from tfwatch.analysis.tuning.knob_state import KnobState
    from tfwatch.core.clock import Clock
    from tfwatch.live.view import RunView
    from tfwatch.runs.control import Control
    from tfwatch.runs.reader import Snapshot


def has_latency(snapshot: Snapshot) -> bool:
    """Return True where the run started with simulated storage latency."""
    asked = snapshot.manifest.settings.get("storage_latency_ms")
    return bool(asked) or snapshot.manifest.knobs.get("latency_ms", "off") != "off"


def has_knob(snapshot: Snapshot, knob: str) -> bool:
    """Return True where a run has a knob; simulated latency only where the run started with it."""
    return knob in snapshot.manifest.knobs and (knob != "latency_ms" or has_latency(snapshot))


def lacking(snapshot: Snapshot, knob: str) -> Refusal | None:
    """Return the reason why a run's workload has no such knob; None where it has one, or no reason is known."""
    if knob == "latency_ms" and not has_latency(snapshot):
        return Refusal.NO_LATENCY
    return LACKING.get(knob) if knob in ("fast_form", "cache") and not has_knob(snapshot, knob) else None


def refusal(snapshot: Snapshot, knob: str, live: bool, ending: bool = False) -> Refusal | None:
    """Return the reason why a knob cannot be switched; None where it can.

    live: keys reach the training. ending: the user asked to stop.
    """
    if snapshot.ended or snapshot.life is Life.KILLED:
        return Refusal.RUN_IS_OVER
    if ending:
        return Refusal.RUN_IS_ENDING
    if not live:
        return Refusal.READ_ONLY
    return None if knob in snapshot.manifest.switchable else Refusal.FIXED


def find_open_switch(view: RunView, live: bool) -> Comparison | None:
    """Return the newest switch where its steps prove no difference and an A/B test can; live: keys reach the training.

    None while one runs, and while the new setting lacks steps.
    """
    newest = view.comparisons[-1] if view.comparisons else None
    if newest is None or newest.answer != "unclear" or newest.ratio is None or not newest.settled:
        return None
    situation, state = view.situation, view.knobs.get(newest.knob)
    is_busy = bool(situation.experiment or situation.autopilot_run) or state is None or state.coming != newest.new
    refused = refusal(view.snapshot, newest.knob, live) or knob_state.why_no_experiment(newest.knob)
    return None if is_busy or refused else newest


def experiment_offer(view: RunView, live: bool) -> str:
    """Return `a runs an A/B test of prefetch off vs 4`; empty where the newest switch has an answer."""
    switch = find_open_switch(view, live)
    if switch is None:
        return ""
    return f"a runs an A/B test of {subject_text(switch.knob, test_order(switch.old, switch.new))}"


def test_order(*values: str) -> list[str]:
    """Return the values of an A/B test, off first: the result describes the second one."""
    return sorted(values, key=lambda value: value != "off")


def cache_refusal(snapshot: Snapshot, state: KnobState) -> NoRoom | None:
    """Return the reason why a cache does not fit into memory; None where it fits, or is already on."""
    return None if state.coming == "on" else no_room(snapshot.manifest.cache_bytes, available_bytes(snapshot))


#: A terminal repeats a held-down key after up to 0.66 s, then faster: presses closer than this count as one.
HELD_S = 0.7
_DEEPEST = f"prefetch {LARGEST} is the maximum"


class SwitchRequests:
    """Sends requests to the training. `control` is None where the run is read only."""

    def __init__(self, control: Control | None, clock: Clock) -> None:
        self.control = control
        self.asks: list[knob_state.KnobRequest] = []
        self._clock = clock
        self._pressed: dict[str, int] = {}

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

    def deepen(self, view: RunView, direction: int) -> str:
        """Request twice the prefetch depth, or half where `direction` is negative. Return the reason for a refusal."""
        refusal, state = self._state(view, "prefetch")
        if state is None:
            return refusal
        value = (knob_state.deeper if direction > 0 else knob_state.shallower)(state.coming)
        if value == state.coming:
            return _DEEPEST if direction > 0 else "prefetch is already off"
        return self._ask(view, "prefetch", value)

    def toggle_experiment(self, view: RunView, knob: str, *, deeper: bool = False, against: str = "") -> str:
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
        other = against or (knob_state.deeper(state.coming) if deeper else knob_state.toggled(state))
        if other == state.coming:
            return _DEEPEST
        values = test_order(state.coming, other)
        first, second = (as_value(knob, value) for value in values)
        self.control.ask_tuner(Experiment(knob, (first, second), seed=view.snapshot.steps_total))
        return f"A/B test: {subject_text(knob, values)}; a ends it"

    def toggle_autopilot(self, view: RunView) -> str:
        """Start the autopilot, or end it. Return a message."""
        if self.control is not None and view.situation.autopilot_run is not None:
            self.control.ask_tuner(None)
            return "autopilot ended; the settings that helped stay"
        first = next(iter(view.snapshot.manifest.switchable), "")
        refused = self._refused(view, first)
        if refused or self.control is None:
            return f"autopilot: {(refused or Refusal.READ_ONLY).words}"
        self.control.ask_tuner(Autopilot(view.snapshot.manifest.memory_limit))
        return "autopilot: it switches the settings; f ends it"

    def undo(self, view: RunView) -> str:
        """Request the setting before the last switch. Return the reason for a refusal."""
        back = knob_state.find_undo(self._states(view), switches_of(view.snapshot.events))
        if back is None:
            return "nothing to undo: no switch yet"
        refusal, state = self._state(view, back[0])
        return self._ask(view, *back) if state else refusal

    def _states(self, view: RunView) -> dict[str, knob_state.KnobState]:
        """The knobs, with the requests since the last frame."""
        return knob_state.knob_states(view.snapshot.manifest.knobs, switches_of(view.snapshot.events), self.asks)

    def _state(self, view: RunView, knob: str) -> tuple[str, knob_state.KnobState | None]:
        refused = lacking(view.snapshot, knob) or self._refused(view, knob)
        state = None if refused else self._states(view).get(knob)
        return f"{knob_name(knob)}: {(refused or Refusal.NO_SUCH_KNOB).words}", state

    def _refused(self, view: RunView, knob: str) -> Refusal | None:
        """The reason why a knob cannot be switched; None where it can."""
        ending = self.control is not None and self.control.stop.is_set() and not view.is_over
        return refusal(view.snapshot, knob, self.control is not None, ending)

    def _ask(self, view: RunView, knob: str, value: str) -> str:
        assert self.control is not None
        self.asks = [ask for ask in self.asks if ask.knob != knob] + [
            knob_state.KnobRequest(knob, value, view.snapshot.now_s)
        ]
        self.control.ask(Request(knob, as_value(knob, value), by="key"))
        return ""

    def stop(self) -> None:
        """Ask the training to stop at the next batch."""
        if self.control is not None:
            self.control.stop.set()

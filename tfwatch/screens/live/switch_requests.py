"""The requests to the training that keys send."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from tfwatch.core.events import AUTOMATIC, AutopilotEnded, ExperimentEnded, Noted
from tfwatch.core.knobs import LARGEST, PREFETCH, Refusal, check_value, knob_name
from tfwatch.judge.effects import switching_state
from tfwatch.judge.effects.wording import subject_text
from tfwatch.judge.event_rows import sentence_of
from tfwatch.judge.kept_setting import KeptSetting, find_kept_setting
from tfwatch.judge.profile.profiling import is_due
from tfwatch.runs.folder import DiskCall
from tfwatch.runs.requests import ProfileRequest, StopRequest, SwitchRequest
from tfwatch.screens.live.knobs import find_testable_switch
from tfwatch.tuner.autopilot import Autopilot
from tfwatch.tuner.experiment import Experiment

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.core.clock import Clock
    from tfwatch.judge.view import RunView
    from tfwatch.runs.requests import RequestSender
    from tfwatch.tuner.client import Tuner, TunerJob


_ELSEWHERE = "it runs in another terminal: end it there, or switch a knob"
#: A terminal repeats a held-down key after up to 0.66 s, then faster: presses closer than this
#: count as one.
HELD_S = 0.7


class SwitchRequests:
    """Sends requests to the training. `requests` is None where the run is read only.

    tuner: runs A/B tests and the autopilot for this terminal; None where it is read only.
    interrupt: stops the script of `tfwatch run`; None where the training stops by a request.
    """

    def __init__(
        self,
        requests: RequestSender | None,
        tuner: Tuner | None,
        clock: Clock,
        interrupt: Callable[[], None] | None = None,
    ) -> None:
        self.requests = requests
        self._tuner = tuner
        self._interrupt = interrupt
        self.asks: list[switching_state.KnobRequest] = []
        self._clock = clock
        self._pressed: dict[str, int] = {}
        self._has_asked_by_itself = False
        #: The number of events when the job began whose end is not reported yet.
        self._began: int | None = None
        self._kept: DiskCall[KeptSetting | None] | None = None
        self._has_offered = False

    def take_messages(self, view: RunView) -> list[str]:
        """Return why requests could not be sent, and how the A/B test or autopilot of this screen
        ended."""
        failures = self.requests.take_failures() if self.requests else []
        if failures:
            self.asks = []
        for event in () if self._began is None else view.snapshot.events[self._began :]:
            is_refused = isinstance(event, Noted) and event.is_refusal
            if is_refused or isinstance(event, ExperimentEnded | AutopilotEnded):
                self._began = None
                return [*failures, sentence_of(event, view.snapshot)]
        return failures

    def is_held(self, key: str) -> bool:
        """Return True where this press is the repeat of a held-down key."""
        now = self._clock.now_ns()
        before = self._pressed.get(key)
        self._pressed[key] = now
        return before is not None and now - before < HELD_S * 1e9

    def needs_consent(self, view: RunView, knob: str) -> bool:
        """Return whether a switch of a knob asks first: maps draw other random numbers with it."""
        refused = view.run_refusal(self.requests is not None, self._is_ending(view))
        return not refused and view.snapshot.manifest.needs_consent(knob)

    def toggle(self, view: RunView, knob: str, *, random_draws: bool = False) -> str:
        """Request a knob off, or back on. Return the reason for a refusal; empty where the request
        was sent. random_draws: the user accepts other ones."""
        refusal, state = self._state(view, knob)
        if random_draws and self.needs_consent(view, knob):
            refusal, state = "", self._states(view).get(knob)
        if state is None:
            return refusal
        return self._ask(view, knob, switching_state.toggled(state), random_draws=random_draws)

    def ask_profile(self, view: RunView) -> str:
        """Ask for a profile of the next steps; return a message for the user."""
        if self.requests is None or view.is_over:
            return "no step of this run was profiled"
        self.requests.send(ProfileRequest("key"))
        return "the next steps are profiled"

    def ask_profile_by_itself(self, view: RunView) -> None:
        """Ask for a profile, once, where the run is due for one though nobody asked."""
        if self.requests is not None and not self._has_asked_by_itself and is_due(view):
            self._has_asked_by_itself = True
            self.requests.send(ProfileRequest(AUTOMATIC))

    def offer_kept(self, view: RunView) -> str:
        """Return, once, the setting that the autopilot found for this script in an earlier run, and
        its key; empty before the disk has answered, and without one."""
        folder, script = view.snapshot.folder, view.snapshot.manifest.script
        if self.requests is None or self._has_offered or not folder or not script:
            return ""
        runs_dir = folder.parent
        look = self._kept or DiskCall(lambda: find_kept_setting(runs_dir, script), self._clock)
        self._kept = look
        self._has_offered = look.is_done
        kept = self._kept_setting()
        is_new = kept is not None and not self._has_kept(view, kept)
        return f"the autopilot found {kept.text}; k switches to it" if kept and is_new else ""

    def switch_to_kept(self, view: RunView) -> str:
        """Request the setting that the autopilot found for this script in an earlier run. Return
        the reason for a refusal."""
        kept = self._kept_setting()
        if kept is None:
            return "no earlier run of this script has a setting that the autopilot found"
        if self._has_kept(view, kept):
            return "these settings are on already"
        states = {knob: self._state(view, knob) for knob in kept.values}
        if refused := next((why for why, state in states.values() if state is None), ""):
            return refused
        for knob, value in kept.values.items():
            self._ask(view, knob, value)
        return ""

    def _kept_setting(self) -> KeptSetting | None:
        with suppress(OSError):
            return self._kept.answer() if self._kept and self._kept.is_done else None
        return None

    def _has_kept(self, view: RunView, kept: KeptSetting) -> bool:
        states = self._states(view)
        coming = {knob: one.coming for knob, one in states.items()}
        return all(coming.get(knob) == value for knob, value in kept.values.items())

    def deepen(self, view: RunView, direction: int) -> str:
        """Request twice the prefetch depth, or half where `direction` is negative. Return the
        reason for a refusal."""
        refusal, state = self._state(view, PREFETCH)
        if state is None:
            return refusal
        value = (switching_state.deeper if direction > 0 else switching_state.shallower)(
            state.coming
        )
        if value == state.coming:
            deepest = f"prefetch {LARGEST} is the maximum"
            return deepest if direction > 0 else "prefetch is already off"
        return self._ask(view, PREFETCH, value)

    def toggle_experiment(self, view: RunView) -> str:
        """Start an A/B test of the newest switch, else of prefetch and its next value; or end the
        one that runs. Return a message."""
        running = view.situation.experiment
        if running and self._tuner is not None:
            return self._end_job(
                f"A/B test cancelled: {subject_text(running.began.knob, running.began.values)}"
            )
        switch = find_testable_switch(view)
        knob = switch.knob if switch else PREFETCH
        refusal, state = self._state(view, knob)
        if state is None or self._tuner is None:
            return refusal
        other = (
            switch.old if switch and switch.old != state.coming else switching_state.toggled(state)
        )
        values = switching_state.test_order(state.coming, other)
        first, second = (check_value(knob, value) for value in values)
        job = Experiment(knob, (first, second), seed=view.snapshot.steps_total)
        return self._begin_job(view, job, f"A/B test: {subject_text(knob, values)}; a cancels it")

    def toggle_autopilot(self, view: RunView) -> str:
        """Start the autopilot, or end it. Return a message."""
        if self._tuner is not None and view.situation.autopilot_run is not None:
            return self._end_job("autopilot ended; the settings that helped stay")
        manifest = view.snapshot.manifest
        fixed = "" if manifest.switchable else manifest.why_not_switchable(PREFETCH)
        refused = view.run_refusal(self.requests is not None, self._is_ending(view)) or fixed
        if refused or self._tuner is None:
            return f"autopilot: {refused or Refusal.READ_ONLY.words}"
        return self._begin_job(view, Autopilot(), "autopilot: looks for faster settings; f ends it")

    def _begin_job(self, view: RunView, job: TunerJob, message: str) -> str:
        assert self._tuner is not None
        runs = view.situation.experiment or view.situation.autopilot_run
        if runs and not self._tuner.is_busy:
            return _ELSEWHERE
        refused = self._tuner.begin(job)
        self._began = None if refused else len(view.snapshot.events)
        return refused or message

    def _end_job(self, message: str) -> str:
        assert self._tuner is not None
        if not self._tuner.is_busy:
            return _ELSEWHERE
        self._tuner.cancel()
        return message

    def undo(self, view: RunView) -> str:
        """Request the setting before the last switch. Return the reason for a refusal."""
        back = switching_state.find_undo(self._states(view), view.snapshot.events.switches())
        if back is None:
            return "nothing to undo: no switch yet"
        refusal, state = self._state(view, back[0])
        return self._ask(view, *back) if state else refusal

    def _states(self, view: RunView) -> dict[str, switching_state.KnobState]:
        return switching_state.knob_states(
            view.snapshot.manifest.knobs, view.snapshot.events.switches(), self.asks
        )

    def _state(self, view: RunView, knob: str) -> tuple[str, switching_state.KnobState | None]:
        """The reason why a knob cannot be switched, or its state where it can."""
        refused = view.refusal(knob, self.requests is not None, self._is_ending(view))
        state = None if refused else self._states(view).get(knob)
        if state is not None:
            return "", state
        return f"{knob_name(knob)}: {refused or Refusal.NO_SUCH_KNOB.words}", None

    def _is_ending(self, view: RunView) -> bool:
        return self.requests is not None and self.requests.is_stopping and not view.is_over

    def _ask(self, view: RunView, knob: str, value: str, *, random_draws: bool = False) -> str:
        assert self.requests is not None
        at_s = (self._clock.now_ns() - view.snapshot.manifest.origin_ns) / 1e9
        others = [ask for ask in self.asks if ask.knob != knob]
        self.asks = [*others, switching_state.KnobRequest(knob, value, at_s)]
        self.requests.send(SwitchRequest(knob, value, "key", random_draws=random_draws))
        return ""

    def stop(self) -> None:
        """Ask the training to stop at the next batch."""
        if self._interrupt:
            self._interrupt()
        elif self.requests is not None:
            self.requests.send(StopRequest("key"))

    def stop_failed(self) -> None:
        """Note that the training refused to stop."""
        if self.requests is not None:
            self.requests.is_stopping = False

"""The tuner's view of a run, and its requests for switches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.analysis.tuning.autopilot.autopilot_moves import drop_settling_rows
from tfwatch.analysis.tuning.forecasting.forecast import Forecast, forecast
from tfwatch.analysis.tuning.knob_state import knob_states, knobs_in_effect
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.events import PipelineSwitched, SwitchAsked, SwitchFailed
from tfwatch.core.knobs import KNOBS
from tfwatch.live.forecasts import evidence_now
from tfwatch.runs.control.requests import Request
from tfwatch.runs.reading.reader import RunReader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tfwatch.analysis.tuning.autopilot.autopilot_moves import MakeForecast
    from tfwatch.core.events import Event
    from tfwatch.core.rows import Rows
    from tfwatch.runs.control.requests import Control
    from tfwatch.runs.reading.reader import Snapshot
    from tfwatch.runs.reading.streams import RunSource

#: The time between two looks at the run; its writer publishes ten times a second.
POLL_S = 0.02
#: The longest time between two looks, for a key that ends the request: a look takes 0.5 ms of CPU and holds the GIL.
_SELDOM_S = 0.2
#: The share of an expected wait with few looks.
_SURELY = 0.8


_OVER = {
    "key": "a knob was switched",
    "cancelled": "it was cancelled",
    "stopped": "the training stops",
    "ended": "the run has ended",
}


class Interrupt(Exception):
    """The request is over before it is done.

    cause: `cancelled` by another request, `key` where the user switched a knob, `stopped`, or `ended` with the run.
    reason: the same in a sentence.
    """

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause
        self.reason = _OVER[cause]


class RefusedError(Exception):
    """A setting was refused, for the reason in the message."""


class Driver:
    """One request's view of a run. Every method that waits raises `Interrupt` where the request is over.

    source: the run. publish: takes the events. number: of the request, see `Control.tuner_request_count`. refresh:
    makes the source publish its buffered rows: of steps of 2 ms its writer publishes fifty at a time. pause: replaces
    the wait for another request between two looks.

    Attributes:
        snapshot: the run as of the last look.
    """

    def __init__(
        self,
        source: RunSource,
        control: Control,
        publish: Callable[[Event], None],
        number: int,
        clock: Clock = SYSTEM,
        pause: Callable[[], object] | None = None,
        refresh: Callable[[], object] = lambda: None,
    ) -> None:
        self.control = control
        self.publish = publish
        self.clock = clock
        self._number = number
        self._user_request_count = control.user_request_count
        self._knob_request_counts = {knob: control.knob_request_count(knob) for knob in KNOBS}
        self._own_pause = pause
        self._refresh = refresh
        self._reader = RunReader(source, clock, keeps_sums=False)
        self._asked_after = 0
        self.snapshot: Snapshot = self._reader.tail()

    # -- looking ----------------------------------------------------------------------------------

    def now_ns(self) -> int:
        """Nanoseconds since the run's clock origin."""
        return self.clock.now_ns() - self.snapshot.manifest.origin_ns

    def look(self) -> Snapshot:
        """Read the run.

        Raises:
            Interrupt: the request is over.
        """
        self._read()
        self.check()
        return self.snapshot

    def _read(self) -> None:
        self._refresh()
        self.snapshot = self._reader.tail()

    def check(self) -> None:
        """Check that the request is not over.

        Raises:
            Interrupt: it is.
        """
        if self.control.stop.is_set():
            raise Interrupt("stopped")
        if self.snapshot.ended:
            raise Interrupt("ended")
        if self.control.user_request_count != self._user_request_count:
            raise Interrupt("key")
        if self.control.tuner_request_count != self._number:
            # A run records its end before it cancels its jobs, so the last look may miss the end.
            self._read()
            raise Interrupt("ended" if self.snapshot.ended else "cancelled")

    def wait(self, until: Callable[[Snapshot], bool], expected_s: float = 0.0) -> Snapshot:
        """Look at the run until a condition holds, which is expected to take `expected_s`.

        Raises:
            Interrupt: the request is over.
        """
        begun_ns = self.clock.now_ns()
        while not until(snapshot := self.look()):
            left_s = _SURELY * expected_s - (self.clock.now_ns() - begun_ns) / 1e9
            self._pause(min(max(left_s, POLL_S), _SELDOM_S))
        return snapshot

    def _pause(self, seconds: float) -> None:
        if self._own_pause:
            self._own_pause()
        else:
            self.control.next_tuner_request(self._number, seconds)

    def rows(self, first: int, last: int | None = None) -> Rows:
        """Return the rows of steps first to last, counted from 1, both included; up to the newest without `last`."""
        return self._reader.steps_between(
            first, self.snapshot.steps_total if last is None else last
        )

    def settled_rows(self, first: int, settling_steps: int) -> Rows:
        """Return the rows from a step on, without those in which a new pipeline settles, also one just before it."""
        rows = drop_settling_rows(self.rows(max(first - settling_steps, 1)), settling_steps)
        return rows[rows["step"] >= first]

    def setting_of(self, knob: str) -> str | None:
        """Return the setting of a knob in the running pipeline, in words; None where the run lacks the knob."""
        return self.knobs.get(knob)

    @property
    def knobs(self) -> dict[str, str]:
        """The setting of every knob in the running pipeline, in words."""
        return knobs_in_effect(
            self.snapshot.manifest.knobs, self.snapshot.events.of(PipelineSwitched)
        )

    @property
    def is_switching(self) -> bool:
        """True while a request for the next batch is not in effect yet."""
        events: list[SwitchAsked | PipelineSwitched | SwitchFailed] = self.snapshot.events.of(
            SwitchAsked, PipelineSwitched, SwitchFailed
        )
        manifest = self.snapshot.manifest
        asked = (
            state
            for state in knob_states(manifest.knobs, events).values()
            if state.asked is not None
        )
        waits = any(not manifest.epochs_until(state.knob, state.coming) for state in asked)
        return self.control.has_requests or waits

    # -- asking -----------------------------------------------------------------------------------

    def ask(self, knob: str, value: str, by: str) -> None:
        """Request a setting.

        Raises:
            Interrupt: the request is over; a user's own switch is never overridden.
        """
        self.check()
        self._asked_after = len(self.snapshot.events)
        if not self.control.ask_if_no_user_request(
            Request(knob, value, by), self._user_request_count
        ):
            raise Interrupt("key")

    def ask_final(self, knob: str, value: str, by: str) -> None:
        """Request the final setting after the end, unless the user switched that knob meanwhile."""
        self.control.ask_if_knob_untouched(
            Request(knob, value, by), self._knob_request_counts[knob]
        )

    def is_changed_by_user(self, knob: str) -> bool:
        """Return whether the user switched a knob since the request."""
        return self.control.knob_request_count(knob) != self._knob_request_counts[knob]

    def wait_switched(self, knob: str, value: str) -> PipelineSwitched:
        """Wait until the last requested setting is in effect. Returns the event with its first step.

        Raises:
            Interrupt: the request is over. RefusedError: the setting was refused.
        """
        while (answer := self._answer(self.look(), knob, value)) is None:
            self._pause(POLL_S)
        if isinstance(answer, SwitchFailed):
            raise RefusedError(answer.reason)
        return answer

    def _answer(
        self, snapshot: Snapshot, knob: str, value: str
    ) -> PipelineSwitched | SwitchFailed | None:
        for event in snapshot.events[self._asked_after :]:
            if isinstance(event, SwitchFailed) and event.knob == knob:
                return event
            if isinstance(event, PipelineSwitched) and event.knob == knob and event.new == value:
                return event
        return None


def make_forecaster(driver: Driver) -> MakeForecast:
    """Return the function that forecasts a switch from the evidence now; it returns None without a forecast."""
    known = evidence_now(driver.snapshot, driver.rows)

    def make_forecast(turned: Mapping[str, str]) -> Forecast | None:
        (knob, value), *together_with = turned.items()
        found = forecast(known, knob, value, dict(together_with))
        return found if found.is_known else None

    return make_forecast

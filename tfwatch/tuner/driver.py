"""What a pilot sees of a run, and how he asks: through the reader, and as anybody asks.

What a pilot may expect of a switch: the run as he sees it, for `analysis.forecast`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.analysis.tuning.autopilot_moves import drop_settling_rows
from tfwatch.analysis.tuning.forecast import Forecast, forecast
from tfwatch.analysis.tuning.knob_state import knobs_in_effect, knob_states
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.events import PipelineSwitched, SwitchAsked, SwitchFailed
from tfwatch.core.knobs import KNOBS, epochs_until, show
from tfwatch.live.evidence import evidence_now
from tfwatch.runs.control import Request
from tfwatch.runs.reader import RunReader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tfwatch.analysis.tuning.autopilot_moves import MakeForecast
    from tfwatch.core.events import Event
    from tfwatch.core.knobs import Setting
    from tfwatch.core.rows import Rows
    from tfwatch.runs.control import Control
    from tfwatch.runs.reader import Snapshot
    from tfwatch.runs.streams import Source

#: How often a pilot looks at the run, whose writer gives out what is new ten times a second.
POLL_S = 0.02
#: How often at least while something takes its time, for a key that ends the order: a look takes 0.5 ms of CPU, and the
#: training waits for Python's lock meanwhile.
_SELDOM_S = 0.2
#: The share of that time in which one looks seldom.
_SURELY = 0.8


_OVER = {
    "key": "somebody turned a knob",
    "cancelled": "it was told to stop",
    "stopped": "the training stops",
    "ended": "the run is over",
}


class Interrupt(Exception):
    """What was ordered is over before it is done.

    cause: `cancelled` by another order, `key` where somebody turned a knob, `stopped`, or `ended` with the run;
    reason: the same in a sentence.
    """

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause
        self.reason = _OVER[cause]


class RefusedError(Exception):
    """A setting could not be had; the message says why."""


class Driver:
    """One order's view of a run. Every method that waits raises `Interrupt` where the order is over.

    source: the run. tell: takes the pilot's events. order: the number of the order, see `Control.orders`. refresh: has
    the source give out what it holds back: of steps of 2 ms its writer gives out fifty at a time. pause: instead of
    waiting for another order between two looks.

    Attributes:
        snapshot: the run as of the last look.
    """

    def __init__(
        self,
        source: Source,
        control: Control,
        publish: Callable[[Event], None],
        order: int,
        clock: Clock = SYSTEM,
        pause: Callable[[], object] | None = None,
        refresh: Callable[[], object] = lambda: None,
    ) -> None:
        self.control = control
        self.publish = publish
        self.clock = clock
        self._order = order
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
        """The run as it is now.

        Raises:
            Interrupt: the order is over.
        """
        self._refresh()
        self.snapshot = self._reader.tail()
        self.check()
        return self.snapshot

    def check(self) -> None:
        """Raises:
        Interrupt: the order is over.
        """
        if self.control.stop.is_set():
            raise Interrupt("stopped")
        if self.snapshot.ended:
            raise Interrupt("ended")
        if self.control.user_request_count != self._user_request_count:
            raise Interrupt("key")
        if self.control.tuner_request_count != self._order:
            raise Interrupt("cancelled")

    def wait(self, until: Callable[[Snapshot], bool], expected_s: float = 0.0) -> Snapshot:
        """Look until something holds, which is expected to take so long.

        Raises:
            Interrupt: the order is over.
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
            self.control.next_tuner_request(self._order, seconds)

    def rows(self, first: int, last: int | None = None) -> Rows:
        """The rows of steps first to last, counted from 1, both included; up to the newest without `last`."""
        return self._reader.steps_between(first, self.snapshot.steps_total if last is None else last)

    def settled_rows(self, first: int, settling_steps: int) -> Rows:
        """The rows from a step on, without so many each time that a pipeline begins anew, and be it just before it."""
        rows = drop_settling_rows(self.rows(max(first - settling_steps, 1)), settling_steps)
        return rows[rows["step"] >= first]

    def setting_of(self, knob: str) -> str | None:
        """What a knob stands at, in words, with the pipeline that runs; None where the run has no such knob."""
        return self.knobs.get(knob)

    @property
    def knobs(self) -> dict[str, str]:
        """The value of every knob in words, with the pipeline that runs."""
        return knobs_in_effect(self.snapshot.manifest.knobs, self.snapshot.events.of(PipelineSwitched))

    @property
    def is_switching(self) -> bool:
        """Whether a setting was asked for that is to be in effect with the next batch, and is not yet."""
        events: list[SwitchAsked | PipelineSwitched | SwitchFailed] = self.snapshot.events.of(
            SwitchAsked, PipelineSwitched, SwitchFailed
        )
        states = knob_states(self.snapshot.manifest.knobs, events)
        asked = any(state.asked is not None and not epochs_until(knob, state.asked) for knob, state in states.items())
        return self.control.has_requests or asked

    # -- asking -----------------------------------------------------------------------------------

    def ask(self, knob: str, value: Setting | float, by: str) -> None:
        """Ask for a setting.

        Raises:
            Interrupt: the order is over; somebody's own request is never overridden.
        """
        self.check()
        self._asked_after = len(self.snapshot.events)
        if not self.control.ask_if_no_user_request(Request(knob, value, by), self._user_request_count):
            raise Interrupt("key")

    def ask_final(self, knob: str, value: Setting | float, by: str) -> None:
        """Ask for the setting that an order which is over leaves, unless somebody turned that knob meanwhile."""
        self.control.ask_if_knob_untouched(Request(knob, value, by), self._knob_request_counts[knob])

    def is_changed_by_user(self, knob: str) -> bool:
        """Whether somebody turned a knob since the order was given."""
        return self.control.knob_request_count(knob) != self._knob_request_counts[knob]

    def wait_switched(self, knob: str, value: Setting | float) -> PipelineSwitched:
        """Wait until the setting asked for last is in effect; its own fact says from which step on.

        Raises:
            Interrupt: the order is over. RefusedError: it cannot be had.
        """
        while (answer := self._answer(self.look(), knob, show(value))) is None:
            self._pause(POLL_S)
        if isinstance(answer, SwitchFailed):
            raise RefusedError(answer.reason)
        return answer

    def _answer(self, snapshot: Snapshot, knob: str, value: str) -> PipelineSwitched | SwitchFailed | None:
        for event in snapshot.events[self._asked_after :]:
            if isinstance(event, SwitchFailed) and event.knob == knob:
                return event
            if isinstance(event, PipelineSwitched) and event.knob == knob and event.new == value:
                return event
        return None


def make_forecaster(driver: Driver) -> MakeForecast:
    """The step after knobs are turned to values, by all that is known now; None where nothing can be said."""
    known = evidence_now(driver.snapshot, driver.rows)

    def make_forecast(turned: Mapping[str, str]) -> Forecast | None:
        (knob, value), *together_with = turned.items()
        found = forecast(known, knob, value, dict(together_with))
        return found if found.is_known else None

    return make_forecast

"""The jobs of a tuner; its view of a run, and its requests for switches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.events import PipelineSwitched, SwitchAsked, SwitchFailed
from tfwatch.judge.autopilot.measurement import drop_settling_rows
from tfwatch.judge.effects.knob_state import knob_states, knobs_in_effect
from tfwatch.judge.forecasts.evidence import evidence_now
from tfwatch.judge.forecasts.forecast import Forecast, forecast
from tfwatch.runs.requests import BY_USER, StopRequest, SwitchRequest
from tfwatch.runs.run import Run

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    from tfwatch.core.events import Event
    from tfwatch.core.rows import Rows
    from tfwatch.judge.autopilot.moves import MakeForecast
    from tfwatch.runs.folder import RunFolder
    from tfwatch.runs.requests import Request, RequestFile
    from tfwatch.runs.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Experiment:
    """An A/B test: find the faster of two values of a knob."""

    knob: str
    #: The second is compared with the first.
    values: tuple[str, str]
    #: The most steps that it takes; None: no limit.
    steps: int | None = None
    #: Of the random order of the blocks.
    seed: int = 0
    #: The training ends with the test.
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Autopilot:
    """Find the best values of all knobs."""

    #: The limit for buffers; None: a share of the machine's free memory.
    memory_bytes: float | None = None


TunerJob: TypeAlias = Experiment | Autopilot


#: The time between two looks at the run; its writer publishes ten times a second.
POLL_S = 0.02
#: The longest time between two looks, for a key that ends the request: a look takes 0.5 ms of CPU
#: and holds the GIL.
_SELDOM_S = 0.2
#: A training that runs has taken a request after this time and two steps.
_TAKEN_NS = 250 * 10**6
#: The share of an expected wait with few looks.
_SURELY = 0.8


_OVER = {
    "key": "a knob was switched",
    "cancelled": "it was cancelled",
    "stopped": "the training stops",
    "ended": "the run has ended",
}


class Interrupt(Exception):
    """The job is over before it is done.

    cause: `cancelled` by another request, `key` where the user switched a knob, `stopped`, or
    `ended` with the run.
    reason: the same in a sentence.
    """

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause
        self.reason = _OVER[cause]


class RefusedError(Exception):
    """A setting was refused, for the reason in the message."""


class Driver:
    """One job's view of a run. Every method that waits raises `Interrupt` where the job is over.

    source: the run. requests: its file of requests. send: appends a request. publish: has an event
    recorded.
    cancelled: ends the job. pause: replaces the wait between two looks.

    Attributes:
        snapshot: the run as of the last look.
    """

    def __init__(
        self,
        source: RunFolder,
        requests: RequestFile,
        send: Callable[[Request], None],
        publish: Callable[[Event], None],
        cancelled: threading.Event,
        clock: Clock = SYSTEM,
        pause: Callable[[], object] | None = None,
    ) -> None:
        self.send = send
        self.publish = publish
        self.clock = clock
        self._requests = requests
        self._cancelled = cancelled
        self._own_pause = pause
        self._reader = Run(source, clock)
        self._asked_after = 0
        #: What the user has requested since the job began.
        self._user_knobs: set[str] = set()
        self._is_stopped = False
        self._requests.skip_all()
        self.snapshot: Snapshot = self._reader.read()
        self._takes_until = self._time_of_earlier_requests()

    def _time_of_earlier_requests(self) -> tuple[int, int]:
        """Return the time and the step at which the training has taken the requests before the
        job."""
        if not self._requests.offset:
            return 0, 0
        return self.clock.now_ns() + _TAKEN_NS, self.snapshot.steps_total + 2

    # -- looking ----------------------------------------------------------------------------------

    def now_ns(self) -> int:
        """Nanoseconds since the run's clock origin."""
        return self.clock.now_ns() - self.snapshot.manifest.origin_ns

    def look(self) -> Snapshot:
        """Read the run.

        Raises:
            Interrupt: the job is over.
        """
        self.snapshot = self._reader.read()
        self.check()
        return self.snapshot

    def check(self) -> None:
        """Check that the job is not over.

        Raises:
            Interrupt: it is.
        """
        self._read_requests()
        if self._cancelled.is_set():
            # A run records its end before its terminal cancels the job, so the last look may miss
            # the end.
            self.snapshot = self._reader.read()
        if self._is_stopped:
            raise Interrupt("stopped")
        if self.snapshot.life.is_over:
            raise Interrupt("ended")
        if self._user_knobs:
            raise Interrupt("key")
        if self._cancelled.is_set():
            raise Interrupt("cancelled")

    def _read_requests(self) -> None:
        """Read what the user has requested."""
        for line in self._requests.read():
            request = line.request
            if isinstance(request, SwitchRequest) and request.by in BY_USER:
                self._user_knobs.add(request.knob)
            elif isinstance(request, StopRequest) and not request.at_step:
                self._is_stopped = True

    def wait(self, until: Callable[[Snapshot], bool], expected_s: float = 0.0) -> Snapshot:
        """Look at the run until a condition holds, which is expected to take `expected_s`.

        Raises:
            Interrupt: the job is over.
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
            self._cancelled.wait(seconds)

    def rows(self, first: int, last: int | None = None) -> Rows:
        """Return the rows of steps first to last, counted from 1, both included; up to the newest
        without `last`."""
        return self._reader.steps_between(
            first, self.snapshot.steps_total if last is None else last
        )

    def settled_rows(self, first: int, settling_steps: int) -> Rows:
        """Return the rows from a step on, without those in which a new pipeline settles, also one
        just before it."""
        rows = drop_settling_rows(self.rows(max(first - settling_steps, 1)), settling_steps)
        return rows[rows["step"] >= first]

    def setting_of(self, knob: str) -> str | None:
        """Return the setting of a knob in the running pipeline, in words; None where the run lacks
        the knob."""
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
        since_ns, since_step = self._takes_until
        is_early = self.clock.now_ns() < since_ns or self.snapshot.steps_total < since_step
        return is_early or waits

    # -- asking -----------------------------------------------------------------------------------

    def ask(self, knob: str, value: str, by: str) -> None:
        """Request a setting.

        Raises:
            Interrupt: the job is over; a user's own switch is never overridden.
        """
        self.check()
        self._asked_after = len(self.snapshot.events)
        self._request(knob, value, by)

    def ask_final(self, knob: str, value: str, by: str) -> None:
        """Request the final setting after the end, unless the user switched that knob meanwhile, or
        the run ends."""
        is_ending = self._is_stopped or self.snapshot.life.is_over
        if not self.is_changed_by_user(knob) and not is_ending:
            self._request(knob, value, by)

    def is_changed_by_user(self, knob: str) -> bool:
        """Return whether the user switched a knob since the job began."""
        self._read_requests()
        return knob in self._user_knobs

    def _request(self, knob: str, value: str, by: str) -> None:
        self.send(SwitchRequest(knob, value, by, after=self._requests.offset))

    def wait_switched(self, knob: str, value: str) -> PipelineSwitched:
        """Wait until the last requested setting is in effect. Returns the event with its first
        step.

        Raises:
            Interrupt: the job is over. RefusedError: the setting was refused.
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


def make_forecaster(driver: Driver, settings: Mapping[str, str]) -> MakeForecast:
    """Return the function that forecasts a switch from these settings; it returns None without a
    forecast. The run may still have those of a move that is being undone."""
    known = evidence_now(driver.snapshot)

    def make_forecast(turned: Mapping[str, str]) -> Forecast | None:
        (knob, value), *_ = turned.items()
        wanted = {**settings, **turned}
        others = {k: v for k, v in wanted.items() if k != knob and known.knobs.get(k) != v}
        forecast_now = forecast(known, knob, value, others)
        return forecast_now if forecast_now.is_known else None

    return make_forecast

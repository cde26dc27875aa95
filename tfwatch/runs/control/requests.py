"""Requests of the screen, a script or the tuner to the training; Watch carries them out at the next batch."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from tfwatch.core.knobs import Knobs


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A switch planned for the time when `step` steps are done."""

    step: int
    knob: str
    value: str


@dataclass(frozen=True, slots=True)
class Request:
    """A request for another value of a knob; `by` is `key`, `command`, `code`, `experiment` or `autopilot`."""

    knob: str
    value: str
    by: str = "key"


@dataclass(frozen=True, slots=True)
class Experiment:
    """An A/B test: find the fastest of several values of a knob, in at most `steps` steps; None: no limit.

    values: the others are compared with the first. seed: of the random order of the blocks. ends: the training ends
    with the test.
    """

    knob: str
    values: tuple[str, ...]
    steps: int | None = None
    seed: int = 0
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Autopilot:
    """Find the best values of all knobs. memory_bytes: the limit for buffers; None: the machine's free memory."""

    memory_bytes: float | None = None


#: A job for the tuner.
TunerRequest: TypeAlias = Experiment | Autopilot


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that the training did not accept, with the reason. knob: of a switch; empty for any other request."""

    reason: str
    knob: str = ""
    is_stop: bool = False


class Requests(Protocol):
    """The part of `Control` that a screen uses; `control_client.ControlClient` has it for another process' training."""

    @property
    def is_stopping(self) -> bool: ...

    def ask(self, request: Request) -> None: ...

    def ask_tuner(self, request: TunerRequest | None) -> None: ...

    def ask_stop(self) -> None: ...

    def take_refusals(self) -> list[Refused]: ...


class Control:
    """The queue of requests within a process.

    Any thread asks; the training thread takes requests for knobs, and the tuner's thread its own.

    knobs: the values that the training uses now. shuffle: the value from the next epoch on; None where no change waits;
    Watch sets both. stop: set to end the training at the next batch. is_done: the training has reached its planned end.
    """

    def __init__(self, knobs: Knobs | None = None) -> None:
        self.knobs = knobs or Knobs()
        self.shuffle: str | None = None
        self.stop = threading.Event()
        self.is_done = False
        self._requests: deque[Request] = deque()
        self._lock = threading.Lock()
        self._user_request_count = 0
        self._knob_request_counts: dict[str, int] = {}
        self._tuner_condition = threading.Condition(threading.Lock())
        self._tuner_request: TunerRequest | None = None
        self._tuner_request_count = 0

    @property
    def has_requests(self) -> bool:
        """True while a request waits; cheap enough for every step."""
        return bool(self._requests)

    @property
    def waiting_count(self) -> int:
        """The number of requests that wait."""
        return len(self._requests)

    @property
    def requested_knobs(self) -> Knobs:
        """The knobs after all waiting requests."""
        knobs = self.knobs if self.shuffle is None else replace(self.knobs, shuffle=self.shuffle)
        for request in list(self._requests):
            knobs = knobs.with_value(request.knob, request.value)
        return knobs

    @property
    def is_stopping(self) -> bool:
        """True from a request to stop on."""
        return self.stop.is_set()

    def ask_stop(self) -> None:
        """End the training at the next batch."""
        self.stop.set()

    def take_refusals(self) -> list[Refused]:
        """Return no refusal: the training reports its own as events."""
        return []

    def begin(self) -> None:
        """Begin another training, which no earlier stop ends."""
        self.is_done = False
        self.stop.clear()

    def finish(self) -> None:
        """End the training at the next batch because its work is done, unless it was stopped before."""
        self.is_done = self.is_done or not self.stop.is_set()
        self.stop.set()

    @property
    def was_stopped(self) -> bool:
        """True where the training was stopped before its work was done."""
        return self.stop.is_set() and not self.is_done

    def ask(self, request: Request) -> None:
        """Add a request of the user. The last request for a knob wins."""
        with self._lock:
            self._user_request_count += 1
            self._knob_request_counts[request.knob] = (
                self._knob_request_counts.get(request.knob, 0) + 1
            )
            self._requests.append(request)

    def take(self) -> list[Request]:
        """Remove and return the waiting requests, the last one of each knob."""
        latest: dict[str, Request] = {}
        while self._requests:
            request = self._requests.popleft()
            latest.pop(request.knob, None)
            latest[request.knob] = request
        return list(latest.values())

    # -- the tuner --------------------------------------------------------------------------------

    @property
    def user_request_count(self) -> int:
        """The number of requests so far that did not come from the tuner."""
        return self._user_request_count

    def ask_if_no_user_request(self, request: Request, user_request_count: int) -> bool:
        """Add a request of the tuner; do nothing and return False where the user made one since then."""
        with self._lock:
            if self._user_request_count != user_request_count:
                return False
            self._requests.append(request)
            return True

    def knob_request_count(self, knob: str) -> int:
        """Return the number of requests for a knob so far that did not come from the tuner."""
        return self._knob_request_counts.get(knob, 0)

    def ask_if_knob_untouched(self, request: Request, knob_request_count: int) -> bool:
        """Add a request of the tuner; do nothing and return False where the user changed the knob since then."""
        with self._lock:
            if self.knob_request_count(request.knob) != knob_request_count:
                return False
            self._requests.append(request)
            return True

    def ask_tuner(self, request: TunerRequest | None) -> None:
        """Give the tuner another job; None: none."""
        with self._tuner_condition:
            self._tuner_request = request
            self._tuner_request_count += 1
            self._tuner_condition.notify_all()

    @property
    def has_tuner_request(self) -> bool:
        """True from a job for the tuner on until it is cancelled."""
        return self._tuner_request is not None

    @property
    def tuner_request_count(self) -> int:
        """The number of jobs given so far, cancellations included."""
        return self._tuner_request_count

    def next_tuner_request(
        self, known: int, patience_s: float | None = None
    ) -> tuple[int, TunerRequest | None]:
        """Wait for more than `known` jobs, or `patience_s`; return their number and the last job."""
        with self._tuner_condition:
            self._tuner_condition.wait_for(lambda: self._tuner_request_count > known, patience_s)
            return self._tuner_request_count, self._tuner_request

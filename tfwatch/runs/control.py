"""What the screen, a script or the pilot asks of the training; obeyed by Watch at the next batch."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, replace
from typing import TypeAlias

from tfwatch.core.knobs import Knobs, Setting


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A switch asked by script once `step` steps are done."""

    step: int
    knob: str
    value: Setting | float


@dataclass(frozen=True, slots=True)
class Request:
    """Another setting for one knob; `by` is `key`, `command`, `code`, `experiment` or `autopilot`."""

    knob: str
    value: Setting | float
    by: str = "key"


@dataclass(frozen=True, slots=True)
class Experiment:
    """Find out which of two or more settings of a knob is faster, in at most `steps` steps; None is as many as needed.

    values: the first is what the others are compared with. seed: of the blocks' order. ends: stop the training then.
    """

    knob: str
    values: tuple[Setting | float, ...]
    steps: int | None = None
    seed: int = 0
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Autopilot:
    """Find the best settings of all knobs. memory_bytes: what buffers may take; None is what the machine has free."""

    memory_bytes: float | None = None


#: What the pilot is ordered to do.
Order: TypeAlias = Experiment | Autopilot


class Control:
    """A queue in process. Any thread asks; the training thread takes. What is ordered, the pilot's thread carries out.

    `knobs` is what the training last was told to use, `shuffle` what it is to shuffle by from the next epoch on, None
    where that was not asked for (both kept by Watch); `stop` asks it to end at the next batch, `is_done` says that
    it has trained for as long as it was to.
    """

    def __init__(self, knobs: Knobs | None = None) -> None:
        self.knobs = knobs or Knobs()
        self.shuffle: Setting | None = None
        self.stop = threading.Event()
        self.is_done = False
        self._requests: deque[Request] = deque()
        self._lock = threading.Lock()
        self._hands = 0
        self._turned: dict[str, int] = {}
        self._ordered = threading.Condition(threading.Lock())
        self._order: Order | None = None
        self._orders = 0

    @property
    def pending(self) -> bool:
        """Whether a request waits; cheap enough for every step."""
        return bool(self._requests)

    @property
    def coming(self) -> Knobs:
        """The knobs once everything asked for is obeyed."""
        knobs = self.knobs if self.shuffle is None else replace(self.knobs, shuffle=self.shuffle)
        for request in list(self._requests):
            knobs = knobs.turned(request.knob, request.value)
        return knobs

    def finish(self) -> None:
        """End the training at the next batch: what it was for is done. One that was stopped before stays so."""
        self.is_done = self.is_done or not self.stop.is_set()
        self.stop.set()

    @property
    def was_stopped(self) -> bool:
        """Whether somebody asked the training to stop before it had done what it was for."""
        return self.stop.is_set() and not self.is_done

    def ask(self, request: Request) -> None:
        """Ask for a setting, as the user wants it. Of several requests for one knob the last wins."""
        with self._lock:
            self._hands += 1
            self._turned[request.knob] = self._turned.get(request.knob, 0) + 1
            self._requests.append(request)

    def take(self) -> list[Request]:
        """The waiting requests, the last of each knob."""
        latest: dict[str, Request] = {}
        while self._requests:
            request = self._requests.popleft()
            latest.pop(request.knob, None)
            latest[request.knob] = request
        return list(latest.values())

    # -- the pilot --------------------------------------------------------------------------------

    @property
    def hands(self) -> int:
        """How many settings were asked for so far by anybody but the pilot."""
        return self._hands

    def ask_unless(self, request: Request, hands: int) -> bool:
        """Ask for the pilot; False, and nothing is asked, where the user has asked for anything since `hands`."""
        with self._lock:
            if self._hands != hands:
                return False
            self._requests.append(request)
            return True

    def turned(self, knob: str) -> int:
        """How often a knob was asked for so far by anybody but the pilot."""
        return self._turned.get(knob, 0)

    def ask_beside(self, request: Request, turned: int) -> bool:
        """Ask for the pilot; False, and nothing is asked, where the user has asked for the same knob since `turned`."""
        with self._lock:
            if self.turned(request.knob) != turned:
                return False
            self._requests.append(request)
            return True

    def order(self, order: Order | None) -> None:
        """Have the pilot do something else from now on; None: nothing."""
        with self._ordered:
            self._order = order
            self._orders += 1
            self._ordered.notify_all()

    @property
    def orders(self) -> int:
        """How many orders were given so far, cancelling ones included."""
        return self._orders

    def next_order(self, known: int, patience_s: float | None = None) -> tuple[int, Order | None]:
        """Wait until more than `known` orders were given, or for so long. Returns their number and the last one."""
        with self._ordered:
            self._ordered.wait_for(lambda: self._orders > known, patience_s)
            return self._orders, self._order

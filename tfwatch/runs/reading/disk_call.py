"""A call on a disk in a thread of its own: a disk that hangs, as a network disk may, blocks no key
of a screen.

A screen looks whether the call is done, and shows for how long the disk has owed the answer.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import warn_user

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

T = TypeVar("T")

#: Seconds that the calls of a frame may wait for the disk.
PATIENCE_S = 0.1
#: A disk that is silent for longer, seconds, is reported.
SLOW_S = 3.0
#: Seconds that the screen of a run waits for its disk before it shows.
FIRST_S = 10.0


class DiskSilentError(OSError):
    """The disk has not responded in time."""


class DiskCall(Generic[T]):
    """A call that has begun; where the system gives no thread for it, it is done at once.

    work: what the call does. clock: measures how long the disk is silent. name: the thread's.
    """

    def __init__(
        self, work: Callable[[], T], clock: Clock = SYSTEM, name: str = "tfwatch-disk"
    ) -> None:
        self._work, self._clock = work, clock
        self._begun_ns = clock.now_ns()
        self._answers: list[T] = []
        self._error: Exception | None = None
        self._done = threading.Event()
        try:
            threading.Thread(target=self._run, name=name, daemon=True).start()
        except RuntimeError:
            self._run()

    def _run(self) -> None:
        try:
            self._answers.append(self._work())
        except Exception as error:  # noqa: BLE001  `answer` raises it
            self._error = error
        self._done.set()

    @property
    def is_done(self) -> bool:
        """True once `answer` may be called."""
        return self._done.is_set()

    @property
    def silent_s(self) -> float:
        """The seconds for which the disk has owed the answer; 0.0 where it is there."""
        return 0.0 if self.is_done else (self._clock.now_ns() - self._begun_ns) / 1e9

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the answer, at most so long, or without an end; return whether it is there."""
        return self._done.wait(seconds)

    def answer(self) -> T:
        """Return the result of the work once it is done, and raise what it raised."""
        if self._error:
            raise self._error
        return self._answers[0]


def call_and_report(work: Callable[[], T], place: Path) -> T:
    """Return the result of work, which a command waits for; a disk that is silent is reported, and
    ctrl+c works.

    place: what is read, named in the report. Raises what the work raises.
    """
    call = DiskCall(work)
    if not call.wait(SLOW_S):
        warn_user(
            f"waiting for the disk of {place}, which has not responded for {SLOW_S:g} s; ctrl+c"
            " ends the wait"
        )
    call.wait()
    return call.answer()

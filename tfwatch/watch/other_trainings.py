"""The other loops and fits of a script that the thread of a run trains between two of the run's epochs."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfwatch.core.clock import Clock


@dataclass(slots=True)
class _Trained:
    """The trainings of a thread: the nanoseconds of all epochs that have ended, and the end of the last one."""

    spent_ns: int = 0
    until_ns: int = 0


class _TrainingsOfThread(threading.local):
    """The trainings of one thread; another one may end an epoch, so an object holds the figures."""

    def __init__(self) -> None:
        self.trained = _Trained()


_own = _TrainingsOfThread()


class OtherTrainings:
    """The epochs of one training, set apart from those of the others of its thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._trained = _Trained()
        self._begun_ns: int | None = None
        self._known_ns = 0

    def begin_epoch(self, ago_ns: int) -> tuple[int, int]:
        """Begin an epoch, which began `ago_ns` ago.

        Return the nanoseconds of the others since the end of the one before, and the nanoseconds since their end.
        """
        now_ns, before = self._clock.now_ns(), self._trained
        self._trained, self._begun_ns = _own.trained, now_ns - ago_ns
        if before is not self._trained:  # the first epoch, or that of another thread
            return 0, 0
        return before.spent_ns - self._known_ns, now_ns - before.until_ns

    def end_epoch(self) -> None:
        """End the epoch; a second call does nothing."""
        if self._begun_ns is None:
            return
        trained, now_ns = self._trained, self._clock.now_ns()
        trained.spent_ns += now_ns - self._begun_ns
        self._begun_ns, self._known_ns, trained.until_ns = None, trained.spent_ns, now_ns

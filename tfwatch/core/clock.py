"""The clocks: no other module reads the system time. Limits of rates, and the schedule of the
frames within each second."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def asleep_ns() -> int | None:
    """Return the nanoseconds that the machine was asleep since it booted; None where the system
    does not report it.

    The difference of two clocks that are adjusted together and of which one stops during sleep:
    clock_gettime(2) on Linux; on macOS its _RAW clocks, because CLOCK_MONOTONIC follows the wall
    clock there.
    """
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.clock_gettime_ns(
            time.CLOCK_MONOTONIC
        )
    if hasattr(time, "CLOCK_UPTIME_RAW"):
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) - time.clock_gettime_ns(
            time.CLOCK_UPTIME_RAW
        )
    return None


@dataclass(frozen=True, slots=True)
class Clock:
    """The source of time; tests pass a fake.

    now_ns: monotonic nanoseconds, one scale for every process since the machine booted.
    wall_ns: nanoseconds since 1970, UTC; may jump.
    thread_ns: CPU nanoseconds spent by the calling thread.
    process_ns: CPU nanoseconds spent by all threads of the process.
    asleep_ns: nanoseconds that the machine was asleep since it booted; None where the system does
    not report it.
    """

    now_ns: Callable[[], int] = time.perf_counter_ns
    wall_ns: Callable[[], int] = time.time_ns
    thread_ns: Callable[[], int] = time.thread_time_ns
    asleep_ns: Callable[[], int | None] = asleep_ns
    process_ns: Callable[[], int] = time.process_time_ns

    def stamp(self) -> str:
        """Return the local wall time as in a folder name: 2026-11-20T10-17-03."""
        return stamp_of(self.wall_ns())


def stamp_of(wall_ns: int) -> str:
    """Return nanoseconds since 1970 as the local time in a folder's name."""
    return local_time(wall_ns).strftime("%Y-%m-%dT%H-%M-%S")


def local_time(wall_ns: int) -> datetime:
    """Return the local date and time of nanoseconds since 1970."""
    return datetime.fromtimestamp(wall_ns / 1e9).astimezone()


SYSTEM = Clock()


class RateLimit:
    """Allows `at_once` events in a row, and `per_s` a second on average."""

    def __init__(self, at_once: float, per_s: float) -> None:
        self._at_once, self._per_s = at_once, per_s
        self._left, self._at_ns = at_once, 0

    def take(self, now_ns: int) -> bool:
        """Count an event; return False where it is one too many, which is not counted."""
        regained = (now_ns - self._at_ns) / 1e9 * self._per_s
        self._left, self._at_ns = min(self._at_once, self._left + regained), now_ns
        if self._left < 1:
            return False
        self._left -= 1
        return True


_FRAMES = 4


class Slot(IntEnum):
    """A frame of each second: what is due once a second has its own, so that no frame does it all.

    The results of one are shown in the next.
    """

    SEARCH = 0
    JUDGE = 1
    MACHINE = 2
    HEADER = 3


def second_of(now_s: float, slot: Slot) -> int:
    """A number that changes once a second, in the frame of this slot."""
    return math.floor(now_s - slot / _FRAMES)

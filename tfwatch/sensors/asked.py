"""A tool that is asked every few seconds, and for which nobody waits."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Generic, TypeVar

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.tool import Result, Running, run
from tfwatch.sensors import Availability, Available, SensorError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_T = TypeVar("_T")
#: How long a tool may take, seconds: those asked here take some milliseconds.
PATIENCE_S = 1.0


class Asked(Generic[_T]):
    """What `parse` makes of the output of a tool; None is an output that it does not know.

    argv: the tool's absolute path and its arguments. period_s: how often it is asked.
    """

    def __init__(self, argv: Sequence[str], parse: Callable[[str], _T | None], period_s: float) -> None:
        self._argv = argv
        self._parse = parse
        self._period_ns = round(period_s * 1e9)
        self._running: Running | None = None
        self._asked_ns = -self._period_ns
        self._newest: tuple[int, _T] | None = None

    def available(self, clock: Clock = SYSTEM) -> Availability:
        """Ask once, and wait `PATIENCE_S` at most."""
        now_ns = clock.now_ns()
        try:
            self._newest = now_ns, self._read(run(self._argv, PATIENCE_S))
        except SensorError as error:
            return Unavailable(str(error), fix="")
        return Available()

    def newest(self, now_ns: int) -> tuple[int, _T] | None:
        """The newest answer and when it was asked for; None before there is one. Asks again where that is due.

        Raises:
            SensorError: the newest answer is none; the tool is asked again in the next period.
        """
        if self._running is None:
            if now_ns - self._asked_ns >= self._period_ns:
                self._asked_ns = now_ns
                self._running = Running(self._argv, PATIENCE_S, now_ns)
            return self._newest
        if (result := self._running.look(now_ns)) is not None:
            self._running, self._newest = None, None
            self._newest = self._asked_ns, self._read(result)
        return self._newest

    def _read(self, result: Result) -> _T:
        tool = os.path.basename(self._argv[0])
        if why := result.why_not:
            raise SensorError(f"{tool}: {why}")
        if (read := self._parse(result.out)) is None:
            words = " ".join(result.out.split())[:100]
            raise SensorError(f"{tool} prints {words!r}, which says nothing" if words else f"{tool} prints nothing")
        return read

"""One source of GPU figures on a thread of its own, so that one that hangs holds nobody up."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from tfwatch.core.boundary import fails_open
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.tool import spent_ns
from tfwatch.sensors import Unavailable, reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfwatch.sensors import GpuIdentity, GpuReading, GpuSource

#: A source that has not come back for so long is told to hang; the next sample, half a second later, tells it.
PATIENCE_NS = 1_500_000_000
#: How often a source is asked, seconds: at most, beside another that tells more, and where a call costs much.
PACE_S = 0.25
_BESIDE_S = 1.0
_SLOWEST_S = 2.0
#: What a source may cost, in cores, its tools included: all sensors together have one hundredth of a core.
_BUDGET = 0.004
#: A source that failed is tried again after so long, and after twice as long each time it fails again.
_AGAIN_S = 1.0
_LAST_AGAIN_S = 300.0
#: Figures for so long forgive the failures before.
_STEADY_NS = 60_000_000_000
#: Readings that nobody has fetched: half a minute of them.
_KEPT = 120


class Lane:
    """Asks one source again and again, from `start` to `stop`.

    Its thread writes, and one other reads: readings: (monotonic ns, reading), not fetched yet. works: whether the
    newest call gave figures. trouble: why not; None while it works, or before the first answer.
    identity, gaps: of the source, where it works. cpu_ns: what its thread has cost.
    """

    def __init__(self, source: GpuSource, clock: Clock = SYSTEM) -> None:
        self.source = source
        self.readings: deque[tuple[int, GpuReading]] = deque(maxlen=_KEPT)
        self.works = False
        self.trouble: Unavailable | None = None
        self.identity: GpuIdentity | None = None
        self.gaps: Mapping[str, Unavailable] = {}
        self.is_beside = False
        self.pace_s = PACE_S
        self.cpu_ns = 0
        self._clock = clock
        self._is_ready = False
        self._has_worked = False
        self._failures = 0
        self._since_ns: int | None = None
        self._cost_s = 0.0
        self._began_ns: int | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"tfwatch-{source.name}", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the call that it is in."""
        self._stopping.set()
        self.source.leave()

    def join(self, seconds: float) -> None:
        """Wait for the thread's end; one that hangs is left behind."""
        if self._thread.is_alive():
            self._thread.join(seconds)

    def hangs(self, now_ns: int) -> bool:
        """Whether a call lasts for longer than `PATIENCE_NS`."""
        began_ns = self._began_ns
        return began_ns is not None and now_ns - began_ns >= PATIENCE_NS

    def _run(self) -> None:
        wait_s: float | None = 0.0
        while wait_s is not None and not self._stopping.wait(wait_s):
            wait_s = self.turn()
        self.source.close()

    def turn(self) -> float | None:
        """Ask once: the seconds until the next time, or None where the source has nothing for this run."""
        self._began_ns = self._clock.now_ns()
        spent_before_ns = self._clock.thread_ns() + spent_ns()
        failures: list[str] = []
        try:
            with fails_open(failures.append, reason):
                return self._ask()
            return self._failed(failures[0])
        finally:
            self._began_ns = None
            self.cpu_ns = self._clock.thread_ns()
            self._pace(max(self.cpu_ns + spent_ns() - spent_before_ns, 0) / 1e9)

    def _ask(self) -> float | None:
        if not self._is_ready:
            answer = self.source.available()
            if isinstance(answer, Unavailable):
                if self._has_worked:
                    return self._failed(answer.reason)
                self.trouble = answer
                return None
            self._is_ready = True
        reading = self.source.read()
        now_ns = self._clock.now_ns()
        self.readings.append((now_ns, reading))
        if self._since_ns is None:
            self._since_ns = now_ns
            self.identity = self.source.identity()
        elif now_ns - self._since_ns >= _STEADY_NS:
            self._failures = 0
        self.gaps = dict(self.source.gaps())
        self.works, self._has_worked, self.trouble = True, True, None
        return self.pace_s

    def _failed(self, why: str) -> float:
        """Let go of the source and say why; the seconds until it is tried again."""
        failures = [why]
        again_s: float = min(_AGAIN_S * 2**self._failures, _LAST_AGAIN_S)
        self.works, self._is_ready, self._since_ns = False, False, None
        with fails_open(failures.append, reason):
            self.source.close()
        self.trouble = Unavailable("; ".join(failures), f"tfwatch tries again in {again_s:g} s")
        self._failures = min(self._failures + 1, 20)
        return again_s

    def _pace(self, cost_s: float) -> None:
        """As often as the budget allows, given a mean of what the last calls cost."""
        self._cost_s += 0.2 * (cost_s - self._cost_s)
        least_s = _BESIDE_S if self.is_beside else PACE_S
        self.pace_s = min(max(self._cost_s / _BUDGET, least_s), _SLOWEST_S)

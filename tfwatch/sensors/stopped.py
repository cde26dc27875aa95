"""Whether the process was stopped for a while: by SIGSTOP or ctrl+z, or with its virtual machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core.events import Paused
from tfwatch.core.rows import Phase

if TYPE_CHECKING:
    from tfwatch.core.clock import Clock
    from tfwatch.runs.writer import RunWriter

#: Looks lie a sixtieth of a second apart. One that comes so late was held up, by a stop or by Python's lock;
LEAST_NS = 500_000_000
#: and while a process is stopped, none of its threads gets the CPU. What it took in waking up is less than this share.
_CPU_SHARE = 0.02
#: Where the training thread was, in words.
_WHERE = {Phase.WAIT: "in data wait", Phase.COMPUTE: "in compute", Phase.HOST: "in host"}


class Stops:
    """Tells, from one `look` to the next, of stops as `Paused` events; `detail` says what the training thread did."""

    def __init__(self, writer: RunWriter, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock
        self._now_ns, self._cpu_ns = clock.now_ns(), clock.process_ns()

    def look(self) -> None:
        """Look once."""
        now_ns, cpu_ns = self._clock.now_ns(), self._clock.process_ns()
        gap_ns, used_ns = now_ns - self._now_ns, cpu_ns - self._cpu_ns
        self._now_ns, self._cpu_ns = now_ns, cpu_ns
        if gap_ns >= LEAST_NS and used_ns < _CPU_SHARE * gap_ns:
            where = _WHERE.get(self._writer.status[0], "")
            self._writer.event(Paused(self._writer.now_ns(), "process stopped", gap_ns / 1e6, where))

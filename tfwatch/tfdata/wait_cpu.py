"""The CPU that the process uses while the training waits for a batch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tfwatch.core.rows import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.runs.writer import RunWriter

_SAMPLE_S = 0.003
_MIN_WAIT_NS = 6_000_000


class WaitCpu:
    """The CPU that the process uses while its training waits for a batch: then only the pipeline
    works.

    wait: sleeps for seconds. One thread calls `sample` and `cores`.
    """

    def __init__(self, writer: RunWriter, wait: Callable[[float], Any]) -> None:
        self._writer = writer
        self._wait = wait
        self._cpu_ns = 0
        self._wall_ns = 0

    def sample(self) -> None:
        """Measure the CPU that the process uses in a few milliseconds, if the training waits."""
        clock, status = self._writer.clock, self._writer.status
        if status[0] is not Phase.WAIT:
            return
        wall_ns, cpu_ns = clock.now_ns(), clock.process_ns()
        self._wait(_SAMPLE_S)
        if self._writer.status[:2] == status[:2]:
            self._wall_ns += clock.now_ns() - wall_ns
            self._cpu_ns += clock.process_ns() - cpu_ns

    def cores(self) -> float:
        """Return the cores in use since the last call; NaN if the training hardly waited."""
        cpu_ns, wall_ns = self._cpu_ns, self._wall_ns
        self._cpu_ns = self._wall_ns = 0
        return cpu_ns / wall_ns if wall_ns >= _MIN_WAIT_NS else math.nan

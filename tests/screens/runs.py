"""A canned run whose steps and samples a test of the charts makes one by one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tests.screens.canned import WALL_NS, Canned

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.core.rows import Phase
    from tfwatch.runs.snapshot import Snapshot

__all__ = ["WALL_NS", "CannedRun"]


class CannedRun(Canned):
    """Its steps have no jitter, and each half second has a sample with 4 of 10 cores."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, accelerated=True, machine={"cores": 10})
        #: Further columns of each sample.
        self.columns: dict[str, float] = {}
        self._reader = self.reader()

    @property
    def now_ns(self) -> int:
        return round(self.at_s * 1e9)

    def wait(self, ms: float) -> None:
        """Let time pass."""
        self.sensors = lambda _: {"cpu_cores": 4.0, **self.columns}
        self.pass_s(ms / 1e3)

    def one(
        self, wait: float, host: float, compute: float, flags: int = 0, copy: float = math.nan
    ) -> None:
        """Write one step, milliseconds; compute contains the copy."""
        start_ns, self.step = self.now_ns, self.step + 1
        self.wait(wait + host + compute)
        self.writer.step(start_ns, self.step, 0, flags, wait, 1.0, compute, host, copy)

    def many(
        self, seconds: float, wait: float, host: float, compute: float, copy: float = math.nan
    ) -> None:
        """Write equal steps for so many seconds; compute contains the copy."""
        for _ in range(round(seconds * 1e3 / (wait + host + compute))):
            self.one(wait, host, compute, copy=copy)

    def phase(self, phase: Phase) -> None:
        """Begin a phase of the training thread now."""
        self.writer.phase(phase)

    def snapshot(self) -> Snapshot:
        """Return the run's snapshot."""
        self.writer.flush()
        return self._reader.read()

"""A run written step by step, with a clock that only the test moves."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

import psutil

from tests.runs.folders import reader_of
from tfwatch.core.clock import Clock
from tfwatch.runs.format import Manifest
from tfwatch.runs.machine_info import boot_id
from tfwatch.runs.writer import RunWriter

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.core.rows import Phase
    from tfwatch.runs.snapshot import Snapshot

#: 20 November 2026, 10:17:03 UTC.
WALL_NS = 1_795_169_823 * 10**9


class CannedRun:
    """Writes into `folder`; `now_ns` counts from the run's origin. Each half second has a sample
    with 4 of 10 cores."""

    def __init__(self, folder: Path, accelerated: bool = True) -> None:
        self.now_ns = 0
        self.steps_made = 0
        #: Further columns of each sample.
        self.columns: dict[str, float] = {}
        clock = Clock(
            now_ns=lambda: self.now_ns, wall_ns=lambda: WALL_NS + self.now_ns, thread_ns=lambda: 0
        )
        manifest = Manifest(
            run="canned",
            workload="cnn",
            origin_ns=0,
            origin_wall_ns=WALL_NS,
            pid=os.getpid(),
            process_started_s=psutil.Process().create_time(),
            boot_id=boot_id(),
            accelerated=accelerated,
            machine={"cores": 10},
        )
        self.writer = RunWriter(folder, manifest, clock)
        self._reader = reader_of(self.writer, clock)

    @property
    def now_s(self) -> float:
        return self.now_ns / 1e9

    def wait(self, ms: float) -> None:
        """Let time pass."""
        end = self.now_ns + int(ms * 1e6)
        half = 500_000_000
        for at in range((self.now_ns // half + 1) * half, end + 1, half):
            self.writer.sample(
                at,
                {
                    "cpu_cores": 4.0,
                    "core_max": 0.9,
                    "process_cores": 3.0,
                    "own_cores": 0.02,
                    "process_bytes": 1e9,
                    "memory_used_bytes": 9e9,
                    "memory_available_bytes": 6e9,
                    "swap_used_bytes": 0.0,
                    "disk_read_bytes_s": 0.0,
                    "late_ms": 1.0,
                    **self.columns,
                },
            )
        self.now_ns = end

    def step(
        self, wait: float, host: float, compute: float, flags: int = 0, copy: float = math.nan
    ) -> None:
        """Write one step, milliseconds; compute contains the copy."""
        start, self.steps_made = self.now_ns, self.steps_made + 1
        self.wait(wait + host + compute)
        self.writer.step(start, self.steps_made, 0, flags, wait, 1.0, compute, host, copy)

    def steps(
        self, seconds: float, wait: float, host: float, compute: float, copy: float = math.nan
    ) -> None:
        """Write equal steps for so many seconds; compute contains the copy."""
        for _ in range(round(seconds * 1e3 / (wait + host + compute))):
            self.step(wait, host, compute, copy=copy)

    def phase(self, phase: Phase) -> None:
        """Begin a phase of the training thread now."""
        self.writer.phase(phase)

    def snapshot(self) -> Snapshot:
        """Return the run's snapshot."""
        self.writer.flush()
        return self._reader.read()

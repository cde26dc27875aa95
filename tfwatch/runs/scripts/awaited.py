"""The source of a reader before a script has begun a run: its process, its output, and the time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil

from tfwatch.core.rows import Phase
from tfwatch.runs import format as layout
from tfwatch.runs.format import Manifest, Pulse
from tfwatch.runs.machine_info import boot_id, describe_machine
from tfwatch.runs.streams import read_file

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.core.clock import Clock

_NO_FIT = "script runs, no fit yet"


class AwaitedRun:
    """A run without rows, in its phase `STARTING`. name: the script. log: its output so far."""

    def __init__(self, name: str, pid: int, log: Path, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._manifest = Manifest(
            run="",
            workload=name,
            origin_ns=clock.now_ns(),
            origin_wall_ns=clock.wall_ns(),
            pid=pid,
            process_started_s=_started_s(pid),
            boot_id=boot_id(),
            machine=describe_machine(),
        )

    @property
    def folder(self) -> Path | None:
        return None

    def manifest(self) -> Manifest:
        """Return a manifest of the script's process."""
        return self._manifest

    def read(self, name: str, offset: int, limit: int) -> bytes:
        """Return the output, or the pulse; other files are empty."""
        if name == layout.LOG:
            return read_file(self._log, offset, limit)
        if name != layout.PULSES:
            return b""
        now_ns = self._clock.now_ns() - self._manifest.origin_ns
        return Pulse(now_ns, self._clock.wall_ns(), Phase.STARTING, 0, 0, 0, _NO_FIT).encode(0)

    def is_here(self) -> bool:
        return False


def _started_s(pid: int) -> float:
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return 0.0

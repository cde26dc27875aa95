"""Pressure on the whole machine: other processes on a full CPU, swapped memory, and heat."""

from __future__ import annotations

import math
import resource
from typing import TYPE_CHECKING

import psutil

from tfwatch.core.events import Paused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfwatch.runs.writer import RunWriter

#: Contention: a CPU that is this full, cores that others use, and preemptions of this process a second.
_FULL = 0.9
_OTHERS_CORES = 0.4
_PREEMPTIONS_S = 20.0
#: Bytes swapped in half a second: an idle machine swaps half of that.
_SWAPPED = 16 * 2**20
#: A lasting pressure is reported at this interval, so it has a name before it ends.
_CHUNK_NS = 5_000_000_000
#: The `thermal_level` from which heat holds a training up, and the levels' names (see `core.rows.SAMPLE`).
_HEAVY = 3
_HEAT = {3: "heavy", 4: "critical"}


class Pressure:
    """Detects pressure in the samples of the machine; a pressure over several samples is one event."""

    def __init__(self, writer: RunWriter) -> None:
        self._writer = writer
        self._cores = psutil.cpu_count() or 1
        self._swap = math.nan
        self._preempted = _preemptions()
        self._at_ns = writer.now_ns()
        self._open: dict[str, tuple[int, str]] = {}

    def update(self, figures: Mapping[str, float], gpu_limit: str = "") -> None:
        """Add a sample's figures, and the reason for a limited GPU clock since the last call."""
        now_ns = self._writer.now_ns()
        preempted = _preemptions()
        seconds = max((now_ns - self._at_ns) / 1e9, 1e-3)
        self._follow("CPU contention", now_ns, self._contention(figures, (preempted - self._preempted) / seconds))
        self._follow("swap", now_ns, self._swapping(figures, seconds))
        self._follow("thermal limit", now_ns, gpu_limit or _limited(figures["thermal_level"]))
        self._preempted, self._at_ns = preempted, now_ns

    def _contention(self, figures: Mapping[str, float], preemptions_s: float) -> str:
        others = figures["cpu_cores"] - figures["process_cores"]
        full = figures["cpu_cores"] >= _FULL * self._cores
        if full and others >= _OTHERS_CORES and preemptions_s >= _PREEMPTIONS_S:
            return f"other processes use {others:.1f} of {self._cores} cores"
        return ""

    def _swapping(self, figures: Mapping[str, float], seconds: float) -> str:
        """Return the swap traffic as text; where it is unknown, the change of swapped memory."""
        used = figures["swap_used_bytes"]
        before, self._swap = self._swap, used
        traffic = (figures["swap_in_bytes_s"] + figures["swap_out_bytes_s"]) * seconds
        moved = abs(used - before) if math.isnan(traffic) else traffic
        return f"{moved / 2**20:.0f} MB" if moved >= _SWAPPED else ""

    def _follow(self, cause: str, now_ns: int, detail: str) -> None:
        begin_ns, known = self._open.get(cause, (self._at_ns, ""))
        if known and (not detail or now_ns - begin_ns >= _CHUNK_NS):
            end_ns = now_ns if detail else self._at_ns
            self._writer.event(Paused(end_ns, cause, (end_ns - begin_ns) / 1e6, known))
            begin_ns = end_ns
        self._open[cause] = (begin_ns if known and detail else self._at_ns, detail)


def _limited(level: float) -> str:
    return _HEAT.get(round(level), "") if level >= _HEAVY else ""


def _preemptions() -> int:
    """Return the number of preemptions of this process' threads."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw

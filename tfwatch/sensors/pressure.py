"""What else slows every program on the machine: other processes on a full CPU, swapped memory, and heat."""

from __future__ import annotations

import math
import resource
from typing import TYPE_CHECKING

import psutil

from tfwatch.core.events import Paused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfwatch.runs.writer import RunWriter

#: The CPU is full, others use that many cores of it, and this process was put aside so often a second.
_FULL = 0.9
_OTHERS_CORES = 0.4
_PUT_ASIDE_S = 20.0
#: Swapped in half a second, bytes: half as much is what an idle machine tidies away.
_SWAPPED = 16 * 2**20
#: A pressure that lasts is told this often, so that it has a name before it ends.
_CHUNK_NS = 5_000_000_000
#: `thermal_level` from which on heat holds a training up, and its words (see `core.rows.SAMPLE`).
_HEAVY = 3
_HEAT = {3: "heavy", 4: "critical"}


class Pressure:
    """Looks at each sample of the machine; what lasts over several is one event."""

    def __init__(self, writer: RunWriter) -> None:
        self._writer = writer
        self._cores = psutil.cpu_count() or 1
        self._swap = math.nan
        self._aside = _put_aside()
        self._at_ns = writer.now_ns()
        self._open: dict[str, tuple[int, str]] = {}

    def look(self, figures: Mapping[str, float], gpu_limit: str = "") -> None:
        """Take a sample's figures, and what kept the GPU's clock down, in words, of the time since the last call."""
        now_ns = self._writer.now_ns()
        aside = _put_aside()
        seconds = max((now_ns - self._at_ns) / 1e9, 1e-3)
        self._follow("CPU contention", now_ns, self._contention(figures, (aside - self._aside) / seconds))
        self._follow("swap", now_ns, self._swapping(figures, seconds))
        self._follow("thermal limit", now_ns, gpu_limit or _limited(figures["thermal_level"]))
        self._aside, self._at_ns = aside, now_ns

    def _contention(self, figures: Mapping[str, float], put_aside_s: float) -> str:
        others = figures["cpu_cores"] - figures["process_cores"]
        full = figures["cpu_cores"] >= _FULL * self._cores
        if full and others >= _OTHERS_CORES and put_aside_s >= _PUT_ASIDE_S:
            return f"other processes use {others:.1f} of {self._cores} cores"
        return ""

    def _swapping(self, figures: Mapping[str, float], seconds: float) -> str:
        """By what was read and written; where that is not known, by how much more or less is swapped now."""
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


def _put_aside() -> int:
    """How often this process' threads had to give a core up."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw

"""Other programs that take cores from a training: all of its times are longer for it, and what is
measured meanwhile is measured beside them.

The sensor writes `CPU contention` while the CPU is full, others use it, and the process has to
wait; the training's own processes are no others.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core import units
from tfwatch.core.events import EpochStarted, Paused
from tfwatch.judge.steps.stalls import CONTENTION

if TYPE_CHECKING:
    from tfwatch.core.rows import Rows
    from tfwatch.runs.snapshot import Snapshot

#: Other programs matter where they take cores for this share of a time, and no longer below the
#: second share: a load that comes and goes is one.
_FROM, _UNTIL = 0.25, 0.05
#: The seconds that a live screen looks back, and the least that say something.
_WINDOW_S, _LEAST_S = 60.0, 4.0
#: A switch is measured within so many seconds before and after it.
_AROUND_S = 20.0


@dataclass(frozen=True, slots=True)
class OtherPrograms:
    """The share of other programs over some seconds of a training."""

    #: Seconds in which they took cores, and of how many.
    took_s: float = 0.0
    of_s: float = 0.0
    #: The cores that they used meanwhile, the mean; NaN where unknown. The cores of the machine.
    cores: float = math.nan
    cores_all: int | None = None
    #: It is worth a sentence.
    matters: bool = False

    @property
    def share(self) -> float:
        """The share of the time in which they took cores, 0 to 1."""
        return min(self.took_s / self.of_s, 1.0) if self.of_s > 0 else 0.0

    @property
    def text(self) -> str:
        """`other programs use 1.6 of 2 cores`, now or at times."""
        return f"other programs use {self._used}"

    @property
    def past_text(self) -> str:
        """`other programs used 1.6 of 2 cores for 34.0 of 62.0 s`."""
        spans = units.in_one_unit(1e3 * self.took_s, 1e3 * self.of_s)
        return f"other programs used {self._used} for {' of '.join(spans)}"

    @property
    def _used(self) -> str:
        of = f" of {self.cores_all}" if self.cores_all else ""
        return "the cores" if math.isnan(self.cores) else f"{self.cores:.1f}{of} cores"


def other_programs(run: Snapshot, begin_s: float, end_s: float) -> OtherPrograms:
    """Return what other programs took in these seconds of a run."""
    begin_ns, end_ns = round(max(begin_s, 0.0) * 1e9), round(end_s * 1e9)
    pauses = run.events.between(Paused, begin_ns, end_ns)
    spans = [
        (max(pause.at_ns - round(pause.took_ms * 1e6), begin_ns), pause.at_ns)
        for pause in pauses
        if pause.cause == CONTENTION
    ]
    took_s = sum(end - begin for begin, end in spans) / 1e9
    found = OtherPrograms(
        took_s,
        end_s - max(begin_s, 0.0),
        _cores_in(run.samples, spans),
        run.manifest.machine.get("cores"),
    )
    return replace(found, matters=found.of_s >= _LEAST_S and found.share >= _FROM)


def other_programs_of_run(run: Snapshot) -> OtherPrograms:
    """Return what other programs took over a whole run, its start left out."""
    return other_programs(run, _begin_s(run), run.length_s)


def beside_switch(run: Snapshot, at_ns: int) -> str:
    """Return `, while other programs used ...` of the time around a switch; empty where they took
    little."""
    at_s = at_ns / 1e9
    found = other_programs(run, at_s - _AROUND_S, min(at_s + _AROUND_S, run.now_s))
    return f", while {found.past_text}" if found.matters else ""


class OthersFollower:
    """Follows the other programs beside a run."""

    def __init__(self) -> None:
        self._matter = False

    def now(self, run: Snapshot) -> OtherPrograms:
        """Return what they took in the last minute; once they matter, they do until they hardly
        take any."""
        found = other_programs(run, max(_begin_s(run), run.now_s - _WINDOW_S), run.now_s)
        self._matter = found.matters or (self._matter and found.share >= _UNTIL)
        return replace(found, matters=self._matter)


def _begin_s(run: Snapshot) -> float:
    started = run.events.of(EpochStarted)
    return started[0].at_ns / 1e9 if started else run.now_s


def _cores_in(samples: Rows, spans: list[tuple[int, int]]) -> float:
    """Return the mean of the cores in use by others within spans of time, nanoseconds."""
    parts = []
    for span in spans:
        first, end = (bisect_left(samples["at_ns"], at_ns) for at_ns in span)
        rows = samples[first : end + 1]
        parts.append(rows["cpu_cores"] - rows["process_cores"])
    cores = np.concatenate(parts).astype(np.float64) if parts else np.empty(0)
    known = cores[np.isfinite(cores)]
    return max(float(known.mean()), 0.0) if len(known) else math.nan

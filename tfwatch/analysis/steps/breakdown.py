"""The split of a stretch of steps into data wait, compute and host, and the time that a run still needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.analysis.steps.spikes import SpikeSearch, spread_hosts
from tfwatch.core.rows import step_ms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tfwatch.core.rows import Rows

_PARTS = ("wait", "dispatch", "compute", "host")
#: Batches come in bursts where the mean step is this many times the median: a few steps wait for many.
BURSTS = 1.25


@dataclass(frozen=True, slots=True)
class Stat:
    """The median, mean and 95th percentile of one part over a stretch of steps, milliseconds."""

    median: float
    mean: float
    p95: float


@dataclass(frozen=True, slots=True)
class Breakdown:
    """A stretch of steady steps. `compute` contains `dispatch`; wait + compute + host = step, step by step.

    wait_share: the sum of data wait over the sum of step time, 0 to 1.
    """

    steps: int
    step: Stat
    wait: Stat
    dispatch: Stat
    compute: Stat
    host: Stat
    wait_share: float

    @property
    def in_bursts(self) -> bool:
        """True where batches come in bursts: the median step shows no data wait then."""
        return self.step.mean > BURSTS * self.step.median

    @property
    def work_mean_ms(self) -> float:
        """The mean of compute and host together."""
        return self.compute.mean + self.host.mean

    @property
    def work_median_ms(self) -> float:
        """The sum of the median compute and the median host."""
        return self.compute.median + self.host.median

    @property
    def host_share(self) -> float:
        """The sum of host time over the sum of step time, 0 to 1."""
        return self.host.mean / self.step.mean if self.step.mean > 0 else 0.0

    @property
    def dispatch_share(self) -> float:
        """The sum of dispatch over the sum of step time, 0 to 1."""
        return self.dispatch.mean / self.step.mean if self.step.mean > 0 else 0.0

    @property
    def launch_share(self) -> float:
        """The time until the step's call returns as a share of compute, 0 to 1."""
        return self.dispatch.mean / self.compute.mean if self.compute.mean > 0 else 0.0


def steady(rows: Rows, search: SpikeSearch | None = None) -> Rows:
    """Return the rows without flags and single spikes, each with its share of its call's host time.

    Slow steps that recur, or that follow one another, are typical of the run and are kept.
    search: the search over these rows, if there is one already.
    """
    single = (search or SpikeSearch(rows)).single
    return spread_hosts(rows[(rows["flags"] == 0) & ~single])


def breakdown(rows: Rows) -> Breakdown | None:
    """Split the time of all rows; None without rows."""
    if not len(rows):
        return None
    parts = {name: np.ascontiguousarray(rows[f"{name}_ms"]) for name in _PARTS}
    step = _stat(step_ms(rows))
    stats = {name: _stat(values) for name, values in parts.items()}
    share = stats["wait"].mean / step.mean if step.mean > 0 else 0.0
    return Breakdown(len(rows), step, **stats, wait_share=share)


def _stat(values: NDArray[np.float32]) -> Stat:
    """Return the statistics of one part; quantiles interpolate linearly."""
    mean, last = float(values.mean(dtype=np.float64)), len(values) - 1
    places = [share * last for share in (0.5, 0.95)]
    lows = [int(place) for place in places]
    wanted = sorted({*lows, *(min(low + 1, last) for low in lows)})
    # A partition takes a tenth of the time of a sort of ten million steps.
    ordered = np.partition(values, wanted)
    median, p95 = (
        float(ordered[low] + (place - low) * (float(ordered[min(low + 1, last)]) - float(ordered[low])))
        for low, place in zip(lows, places, strict=True)
    )
    return Stat(median, mean, p95)


_WINDOW_S = 60.0


def left_s(progress: Rows, steps: int | None) -> float | None:
    """Estimate the seconds until step `steps` at the pace of the last minute, pauses included; None where unknown.

    `progress` holds rows of `core.rows.PROGRESS`.
    """
    if steps is None or len(progress) < 2:
        return None
    recent = progress[-256:]
    recent = recent[recent["at_ns"] >= recent["at_ns"][-1] - _WINDOW_S * 1e9]
    took_s = (float(recent["at_ns"][-1]) - float(recent["at_ns"][0])) / 1e9
    done = int(recent["step"][-1]) - int(recent["step"][0])
    if done <= 0 or took_s < 1.0:
        return None
    return max(0, steps - int(recent["step"][-1])) * took_s / done

"""How a stretch of steps splits into data wait, compute and host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.analysis.calls import spread_hosts
from tfwatch.analysis.spikes import single_spikes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tfwatch.core.rows import Rows

_PARTS = ("wait_ms", "dispatch_ms", "compute_ms", "host_ms")


@dataclass(frozen=True, slots=True)
class Stat:
    """Of one part over a stretch of steps, milliseconds."""

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
    def host_share(self) -> float:
        """The sum of host time over the sum of step time, 0 to 1."""
        return self.host.mean / self.step.mean if self.step.mean > 0 else 0.0

    @property
    def launch_share(self) -> float:
        """The part of compute until the step's call returns, 0 to 1 of compute."""
        return self.dispatch.mean / self.compute.mean if self.compute.mean > 0 else 0.0


def steady(rows: Rows) -> Rows:
    """The rows without flags and without single spikes (see `spikes.find_spikes`), each with its share of its call's
    host part (see `calls`).

    Slow steps that come back, or that follow one another, are how the run is: they stay.
    """
    return spread_hosts(rows[(rows["flags"] == 0) & ~single_spikes(rows)])


def breakdown(rows: Rows) -> Breakdown | None:
    """The split of all the rows given; None where there are none."""
    if not len(rows):
        return None
    parts = np.array([rows[name] for name in _PARTS], dtype=np.float64)
    total = parts[0] + parts[2] + parts[3]
    step, wait, dispatch, compute, host = _stats(np.vstack((total, parts)))
    share = wait.mean / step.mean if step.mean > 0 else 0.0
    return Breakdown(len(rows), step, wait, dispatch, compute, host, wait_share=share)


def _stats(parts: NDArray[np.float64]) -> list[Stat]:
    """Of each row of `parts`. Sorts it in place: numpy's own percentile takes five times as long here."""
    means = parts.mean(axis=1)
    parts.sort(axis=1)
    medians, p95s = (_at(parts, share) for share in (0.5, 0.95))
    return [Stat(*figures) for figures in zip(medians.tolist(), means.tolist(), p95s.tolist(), strict=True)]


def _at(ordered: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """The quantile of each sorted row, linear between its neighbours."""
    place = share * (ordered.shape[1] - 1)
    low = int(place)
    high = min(low + 1, ordered.shape[1] - 1)
    between: NDArray[np.float64] = ordered[:, low] + (place - low) * (ordered[:, high] - ordered[:, low])
    return between

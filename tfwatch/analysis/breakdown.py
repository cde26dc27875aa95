"""How a stretch of steps splits into data wait, compute and host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfwatch.core.rows import Rows


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


def steady(rows: Rows) -> Rows:
    """The rows without flags and without single spikes (see `spikes.find_spikes`)."""
    raise NotImplementedError


def breakdown(rows: Rows) -> Breakdown | None:
    """The split of all the rows given; None where there are none."""
    raise NotImplementedError

"""The forecast of how many workers of the tf.data service end the starving, before any is started."""

from __future__ import annotations

import math
from dataclasses import dataclass

#: The work of a batch in a worker over the same work in the training's process, and the milliseconds in which a worker
#: sends an element: the least, the expected and the most. Sending took 0.5 ms on two busy cores, of 1 B as of 150 kB.
_WORK = (0.9, 1.05, 1.3)
_SENDING_MS = (0.1, 0.4, 0.8)
#: The core milliseconds in which the training takes an element from the service: 0.25 to 0.35 on two busy cores.
_TAKING_MS = 0.25


@dataclass(frozen=True, slots=True)
class WorkerCount:
    """The workers that end the starving; low, high: the 90 % prediction interval."""

    likely: int
    low: int
    high: int

    @property
    def interval(self) -> str:
        """`3 (2 to 4)`; without the interval where that is one number."""
        return f"{self.likely} ({self.low} to {self.high})" if self.low < self.high else str(self.likely)

    @property
    def words(self) -> str:
        """`3 (2 to 4) workers`."""
        return f"{self.interval} worker{'s' * (self.high != 1)}"


def forecast_workers(supply_ms: float, rest_ms: float, batch_size: int) -> WorkerCount | None:
    """Return the forecast; None where the step does not wait for the supply, or a time is not known.

    supply_ms: the time in which the pipeline as it is makes one batch. rest_ms: compute and host time of a step.
    """
    if not (0 < rest_ms < supply_ms < math.inf):
        return None
    costs = (supply_ms * work + batch_size * sending for work, sending in zip(_WORK, _SENDING_MS, strict=True))
    low, likely, high = (math.ceil(cost / rest_ms) for cost in costs)
    return WorkerCount(likely, low, high)


def taking_ms(batch_size: int, cores: float) -> float:
    """Return the time in which the training takes the elements of a batch from the service on so many cores."""
    return batch_size * _TAKING_MS / max(cores, 1.0)

"""The forecast of how many workers of the tf.data service end the starving, before any is started."""

from __future__ import annotations

import math
from dataclasses import dataclass

#: The work of a batch in a worker against the same work in the training's process: the service packs each element.
_LEAST, _LIKELY, _MOST = 0.9, 1.1, 1.4


@dataclass(frozen=True, slots=True)
class FeedForecast:
    """The number of workers. low, high: its interval, from the doubt about the cost of the service.

    is_beyond_cores: so many workers and the training itself need more cores than this machine has.
    """

    workers: int
    low: int
    high: int
    is_beyond_cores: bool

    @property
    def words(self) -> str:
        """The forecast as text."""
        beyond = ", more than this machine has cores for" if self.is_beyond_cores else ""
        return f"forecast: {self.workers} workers of the tf.data service ({self.low} to {self.high}){beyond}"


def forecast_workers(
    supply_ms: float, rest_ms: float, cores: int, cores_per_worker: float = 1.0
) -> FeedForecast | None:
    """Return the forecast; None where the step does not wait for the supply, or a time is not known.

    supply_ms: the time in which the pipeline as it is makes one batch. rest_ms: compute and host time of a step.
    cores_per_worker: the cores that the pipeline keeps busy while it starves the step; 1 for a serial map.
    """
    if not (0 < rest_ms < supply_ms < math.inf):
        return None
    low, likely, high = (math.ceil(supply_ms * factor / rest_ms) for factor in (_LEAST, _LIKELY, _MOST))
    return FeedForecast(likely, low, high, likely * cores_per_worker + 1 > cores)

"""What forecasts of a run's switches said just before they were asked for, against what came."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from tfwatch.analysis.forecast import forecast
from tfwatch.analysis.grounds import gather

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.analysis.forecast import Forecast
    from tfwatch.analysis.grounds import Evidence, Grounds
    from tfwatch.analysis.switches import Comparison


@dataclass(frozen=True, slots=True)
class Foretold:
    """A switch whose forecast can be held against what came: `came_ms` is the median of the settled steps after it."""

    switch: Comparison
    forecast: Forecast
    came_ms: float

    @property
    def off(self) -> float:
        """By how much the forecast was too high, as a share of what came; below 0 it was too low."""
        return self.forecast.step_ms / self.came_ms - 1

    @property
    def inside(self) -> bool:
        """Whether what came lies in the forecast's range."""
        return self.forecast.low_ms <= self.came_ms <= self.forecast.high_ms


@dataclass(frozen=True, slots=True)
class Record:
    """Every switch of a run that was foretold and has settled, oldest first."""

    foretold: tuple[Foretold, ...] = ()

    @property
    def median_off(self) -> float:
        """The median distance of the forecasts from what came, as a share of it; NaN where there were none."""
        return median(abs(one.off) for one in self.foretold) if self.foretold else math.nan

    @property
    def inside(self) -> int:
        """How many lay in their range."""
        return sum(one.inside for one in self.foretold)


def record(grounds: Grounds, comparisons: Sequence[Comparison]) -> Record:
    """The forecast of each settled switch from what was known before it was asked for."""
    found = (foretell(grounds, comparisons, n) for n in range(len(comparisons)))
    return Record(tuple(one for one in found if one is not None))


def foretell(grounds: Grounds, comparisons: Sequence[Comparison], n: int) -> Foretold | None:
    """The n-th switch, foretold from what was known before it was asked for.

    None where it has not settled, where several knobs were turned at once, and where nothing could be said.
    """
    switch = comparisons[n]
    if switch.step is None or not switch.settled or switch.beside or switch.after is None:
        return None
    told = forecast(evidence_before(grounds, comparisons, n), switch.knob, switch.new)
    return Foretold(switch, told, switch.after.step.median) if told.is_known else None


def evidence_before(grounds: Grounds, comparisons: Sequence[Comparison], n: int) -> Evidence:
    """What was known just before the n-th switch was asked for."""
    switch = comparisons[n]
    return gather(grounds, comparisons[:n], switch.asked_step, switch.asked_at_ns)

"""Did it help: steps before a switch against the steps after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tfwatch.analysis.breakdown import Breakdown
    from tfwatch.core.events import Event
    from tfwatch.core.rows import Rows

#: Steps after which a comparison is called settled.
SETTLED = 60


@dataclass(frozen=True, slots=True)
class Comparison:
    """One switch and what it gave.

    step: the first step of the new setting; None while the switch is asked and not yet in effect.
    before, after: the steady steps on both sides, up to the neighbouring switch and at most 600 each.
    ratio: median step time before over after; above 1 is faster. None until there are 20 steps on both sides.
    settled: `after` holds at least `SETTLED` steps.
    """

    knob: str
    old: str
    new: str
    by: str
    asked_at_ns: int
    asked_step: int
    step: int | None
    before: Breakdown | None
    after: Breakdown | None
    ratio: float | None
    settled: bool


def compare(events: Sequence[Event], steps_total: int, rows_between: Callable[[int, int], Rows]) -> list[Comparison]:
    """Every switch of a run in order; `rows_between(first, last)` gives the rows of steps first to last."""
    raise NotImplementedError

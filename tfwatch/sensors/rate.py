"""A counter's change per second."""

from __future__ import annotations

import math


class Rate:
    """The change of a counter per second."""

    def __init__(self) -> None:
        self._before: tuple[int, float] | None = None

    def of(self, now_ns: int, value: float) -> float:
        """Since the last call; NaN at the first one, and where the counter fell (it started anew)."""
        before, self._before = self._before, (now_ns, value)
        if before is None or now_ns <= before[0] or not value >= before[1]:
            return math.nan
        return (value - before[1]) / (now_ns - before[0]) * 1e9

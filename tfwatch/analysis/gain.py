"""What was measured under a setting, from few steps, and how sure it is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.analysis.breakdown import steady
from tfwatch.core.rows import step_ms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tfwatch.core.rows import Rows

#: The share of steps on each side that counts as far off as its nearest neighbour.
_TAIL = 0.05
#: Neighbours may resemble each other so much; beyond it a stretch is too short to tell.
_LIKEST = 0.9


@dataclass(frozen=True, slots=True)
class Measured:
    """Steady steps of one setting, means: step_ms with its standard error, work_ms the part that is no data wait."""

    steps: int
    step_ms: float
    error_ms: float
    work_ms: float

    @property
    def wait_share(self) -> float:
        """Data wait over step time, 0 to 1."""
        return 1 - self.work_ms / self.step_ms if self.step_ms > 0 else 0.0


def measure(rows: Rows) -> Measured | None:
    """Of rows of `core.rows.STEP` of one setting; None below two steady ones.

    The means are winsorised at `_TAIL`, and the standard error is that of a trimmed mean (Wilcox, Introduction to
    Robust Estimation). It counts neighbouring steps that resemble each other as fewer: n (1 - r) / (1 + r) for a
    lag-one autocorrelation r above 0 (an AR(1) process).
    """
    kept = steady(rows)
    if len(kept) < 2:
        return None
    work = _winsorised(kept["compute_ms"].astype(np.float64) + kept["host_ms"])
    step = _winsorised(step_ms(kept, np.float64))
    off = step - step.mean()
    spread = float(off @ off)
    likeness = float(off[1:] @ off[:-1]) / spread if spread > 0 else 0.0
    likeness = min(max(likeness, 0.0), _LIKEST)
    count = max(len(kept) * (1 - likeness) / (1 + likeness), 2.0)
    error = math.sqrt(spread / (len(kept) - 1) / count) / (1 - 2 * _TAIL)
    return Measured(len(kept), float(step.mean()), error, min(float(work.mean()), float(step.mean())))


def _winsorised(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """What lies in the tails moved to where they begin: a slow batch in ten still counts, one in a hundred does not."""
    low, high = np.quantile(values, [_TAIL, 1 - _TAIL])
    return np.clip(values, low, high)

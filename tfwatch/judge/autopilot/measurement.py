"""The step of one setting, measured: which steps count after a switch, their mean and its standard
error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core.knobs import DEVICE_PREFETCH, PREFETCH, WORKERS
from tfwatch.core.rows import Flag, step_ms
from tfwatch.judge.forecasts.batch_supply import depth
from tfwatch.judge.steps.steady_steps import steady

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from tfwatch.core.rows import Rows

#: Steps that a new pipeline takes to settle, and the most that its buffers add to them.
_SETTLING, _MOST_TOGETHER = 4, 16
#: Flags of the first step of a pipeline.
_PIPELINE_STARTS = np.uint16(Flag.EPOCH_START | Flag.SHUFFLE_FILL | Flag.SWITCH)
#: The share of steps in each tail.
_TAIL = 0.05
#: The largest autocorrelation that counts; above it a stretch is too short to estimate it.
_MOST_AUTOCORRELATION = 0.9


@dataclass(frozen=True, slots=True)
class Measurement:
    """The mean steady step of one setting."""

    steps: int
    step_ms: float
    #: Its standard error.
    error_ms: float
    #: The part without data wait.
    work_ms: float
    #: The part of it that copies the batch to the device; 0 where the copy is not timed.
    copy_ms: float = 0.0

    @property
    def wait_share(self) -> float:
        """Data wait over step time, 0 to 1."""
        return 1 - self.work_ms / self.step_ms if self.step_ms > 0 else 0.0


def measure(rows: Rows) -> Measurement | None:
    """Measure one setting from its rows of `core.rows.STEP`; None below two steady ones.

    The means are winsorised at `_TAIL`, and the standard error is that of a trimmed mean (Wilcox,
    Introduction to Robust Estimation). Correlated steps count as fewer: n (1 - r) / (1 + r) for a
    lag-one autocorrelation r above 0 (an AR(1) process).
    """
    kept = steady(rows)
    if len(kept) < 2:
        return None
    work = _winsorised(kept["compute_ms"].astype(np.float64) + kept["host_ms"])
    step = _winsorised(step_ms(kept, np.float64))
    copy = float(np.nan_to_num(kept["copy_ms"]).mean(dtype=np.float64))
    step_mean = float(step.mean())
    return Measurement(len(kept), step_mean, _error(step), min(float(work.mean()), step_mean), copy)


def _error(step: NDArray[np.float64]) -> float:
    """Return the standard error of the mean of winsorised steps."""
    deviation = step - step.mean()
    spread = float(deviation @ deviation)
    correlation = float(deviation[1:] @ deviation[:-1]) / spread if spread > 0 else 0.0
    correlation = min(max(correlation, 0.0), _MOST_AUTOCORRELATION)
    count = max(len(step) * (1 - correlation) / (1 + correlation), 2.0)
    return math.sqrt(spread / (len(step) - 1) / count) / (1 - 2 * _TAIL)


def _winsorised(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values with the tails clipped: a slow batch in ten still counts, one in a hundred
    does not."""
    low, high = np.quantile(values, [_TAIL, 1 - _TAIL])
    return np.clip(values, low, high)


def settling_steps(knobs: Mapping[str, str]) -> int:
    """Return the number of steps to leave out after a switch: the first batches of new buffers come
    together."""
    return _SETTLING + min(buffered_steps(knobs), _MOST_TOGETHER)


def buffered_steps(knobs: Mapping[str, str]) -> int:
    """Return the number of steps that the buffers of a setting still serve after a request for
    another, plus one."""
    return sum(depth(knobs.get(knob, "off")) for knob in (PREFETCH, WORKERS, DEVICE_PREFETCH)) + 1


def drop_settling_rows(rows: Rows, steps: int) -> Rows:
    """Return the rows without the first `steps` of each pipeline."""
    keep = np.ones(len(rows), dtype=np.bool_)
    for start in np.flatnonzero(rows["flags"] & _PIPELINE_STARTS):
        keep[start : start + steps] = False
    return rows[keep]

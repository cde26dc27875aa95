"""Whether a switch helped, from few steps: what was measured under a setting, and how sure a difference is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.analysis.breakdown import steady

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tfwatch.core.rows import Rows

#: A gain below this share is worth neither memory nor cores.
WORTH = 0.015
#: Standard errors by which a difference is clear while steps still come, at the stretch's end, and at that of a second.
_CLEAR, _AT_LAST, _AGAIN = 3.0, 2.0, 1.0
#: What takes less may cost this share of a step: it cannot be told from nothing.
_LOSS = 0.005
#: Of a step, so much more data wait shows that what takes less has nothing to spare.
_WAITS_MORE = 0.01
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
    wait = kept["wait_ms"].astype(np.float64)
    work = _winsorised(kept["compute_ms"].astype(np.float64) + kept["host_ms"])
    step = _winsorised(wait + kept["compute_ms"] + kept["host_ms"])
    off = step - step.mean()
    spread = float(off @ off)
    likeness = float(off[1:] @ off[:-1]) / spread if spread > 0 else 0.0
    likeness = min(max(likeness, 0.0), _LIKEST)
    count = max(len(kept) * (1 - likeness) / (1 + likeness), 2.0)
    error = math.sqrt(spread / (len(kept) - 1) / count) / (1 - 2 * _TAIL)
    return Measured(len(kept), float(step.mean()), error, min(float(work.mean()), float(step.mean())))


def helped(before: Measured, after: Measured, *, last: bool, again: bool = False) -> bool | None:
    """Whether a switch is worth keeping; None where more steps have to tell, which never is at `last`.

    again: both sides were measured in turn, more than once: what wandered meanwhile is in both, and the likelier of
    two settings is the better choice.
    """
    gain, least = before.step_ms - after.step_ms, WORTH * before.step_ms
    times = _CLEAR if not last else _AGAIN if again else _AT_LAST
    sure = times * math.hypot(before.error_ms, after.error_ms)
    if gain >= least and gain > sure:
        return True
    return False if last or gain + sure < least else None


def no_slower(before: Measured, after: Measured, *, last: bool) -> bool | None:
    """Whether a switch that takes less may stay; None where more steps have to tell, which never is at `last`."""
    loss, most = after.step_ms - before.step_ms, _LOSS * before.step_ms
    error = math.hypot(before.error_ms, after.error_ms)
    if loss > _CLEAR * error and loss > most:
        return False
    waits_more = after.wait_share > before.wait_share + _WAITS_MORE
    if last and waits_more:
        return False
    clear = loss + _AT_LAST * error <= most and not waits_more
    return True if clear else (loss <= most and error <= WORTH * before.step_ms) if last else None


def might_help(before: Measured, after: Measured) -> bool:
    """Whether a gain that is worth something is not ruled out by what was measured."""
    sure = _AT_LAST * math.hypot(before.error_ms, after.error_ms)
    return before.step_ms - after.step_ms + sure >= WORTH * before.step_ms


def together(stretches: Sequence[Measured]) -> Measured:
    """Several stretches of one setting, as one; at least one."""
    steps = sum(one.steps for one in stretches)
    shares = [one.steps / steps for one in stretches]
    return Measured(
        steps,
        sum(share * one.step_ms for share, one in zip(shares, stretches, strict=True)),
        math.hypot(*(share * one.error_ms for share, one in zip(shares, stretches, strict=True))),
        sum(share * one.work_ms for share, one in zip(shares, stretches, strict=True)),
    )


def _winsorised(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """What lies in the tails moved to where they begin: a slow batch in ten still counts, one in a hundred does not."""
    low, high = np.quantile(values, [_TAIL, 1 - _TAIL])
    return np.clip(values, low, high)

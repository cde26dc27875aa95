"""Memory as a slope: how fast what is available shrinks, and when nothing is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tfwatch.core.rows import Rows

#: The stretch looked at, seconds: half an hour tells a leak of 0.1 GB an hour from what other programs take and give.
WINDOW_S = 1800.0
#: Less than this says nothing: a start fills caches and buffers.
LEAST_S = 120.0
#: Medians that the stretch is thinned to: Theil and Sen's slope looks at every pair of them.
_POINTS = 48
#: The slope counts where so much was taken, bytes, ...
_LEAST_BYTES = 64 * 2**20
#: ... of all pairs so many more point up than down (Kendall's tau), and the newer half of the stretch still rises at
#: so much of the slope: a buffer that has filled up is no leak.
_LEAST_TAU = 0.6
_STILL = 0.5


@dataclass(frozen=True, slots=True)
class Growth:
    """How fast memory is used up. bytes_s: 0 where it is steady. left_s: until none is available; None is never."""

    bytes_s: float = 0.0
    left_s: float | None = None

    @property
    def bytes_h(self) -> float:
        """Bytes an hour."""
        return self.bytes_s * 3600


def growth(samples: Rows) -> Growth | None:
    """The robust slope of what is available at the end of `samples`; None where that is not known for long enough.

    Theil and Sen's estimator, the median of the slopes between all pairs of points, which single jumps do not move.
    In a container `memory_available_bytes` counts to its limit.
    """
    # Twice a second: more rows than the window holds are not looked at.
    recent = samples[-round(2 * WINDOW_S) :]
    recent = recent[np.isfinite(recent["memory_available_bytes"])]
    if not len(recent):
        return None
    recent = recent[recent["at_ns"] >= float(recent["at_ns"][-1]) - WINDOW_S * 1e9]
    at_s, available = recent["at_ns"] / 1e9, recent["memory_available_bytes"].astype(np.float64)
    if float(at_s[-1] - at_s[0]) < LEAST_S or len(at_s) < _POINTS:
        return None
    at_s, used = _thinned(at_s), -_thinned(available)
    bytes_s = _rise(at_s, used)
    if bytes_s is None:
        return Growth()
    return Growth(bytes_s, max(0.0, float(available[-1])) / bytes_s)


def _thinned(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Medians of `_POINTS` stretches of equal length, the newest rows in the last."""
    each = len(values) // _POINTS
    medians: NDArray[np.float64] = np.median(values[-each * _POINTS :].reshape(_POINTS, each), axis=1)
    return medians


def _rise(at_s: NDArray[np.float64], used: NDArray[np.float64]) -> float | None:
    """The slope, bytes a second; None where it is not significant, or falls."""
    slopes = _slopes(at_s, used)
    slope = float(np.median(slopes))
    half = len(at_s) // 2
    newer = float(np.median(_slopes(at_s[half:], used[half:])))
    significant = (
        slope * float(at_s[-1] - at_s[0]) >= _LEAST_BYTES
        and float(np.sign(slopes).mean()) >= _LEAST_TAU
        and newer >= _STILL * slope
    )
    return slope if significant else None


def _slopes(at_s: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Between all pairs."""
    first, second = np.triu_indices(len(at_s), 1)
    apart = at_s[second] - at_s[first]
    slopes: NDArray[np.float64] = (values[second] - values[first]) / np.maximum(apart, 1e-9)
    return slopes

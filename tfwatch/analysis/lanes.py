"""The one-row lanes below the step strip: shares as shades, cores in use as a gauge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tfwatch.analysis.strip import Floats

#: Where a starving share changes its shade: the verdict's lines, and half.
_SHADES = (0.05, 0.2, 0.5)


def gauge(values: Floats, steps: int) -> NDArray[np.int64]:
    """Shares 0 to 1 as levels 0 to `steps`; what is more than nothing has level 1 at least; missing is 0."""
    known = np.clip(np.nan_to_num(values), 0.0, 1.0)
    levels = np.rint(known * steps).astype(np.int64)
    levels[(known > 0.005) & (levels == 0)] = 1
    return levels


def shade(share: Floats) -> NDArray[np.int64]:
    """Starving shares as shades 0 to 3; what is not known is 0."""
    known = np.nan_to_num(share)
    shades: NDArray[np.int64] = np.sum([known >= line for line in _SHADES], axis=0, dtype=np.int64)
    return shades


def sample_columns(at_s: Floats, values: Floats, starts_s: Floats, hold_s: float) -> Floats:
    """The mean of the samples in each column; between samples the last one holds for `hold_s` seconds."""
    out = np.full(len(starts_s), np.nan)
    known = np.isfinite(values)
    at_s, values = at_s[known], values[known]
    if not len(at_s) or not len(starts_s):
        return out
    column = np.searchsorted(starts_s, at_s, side="right") - 1
    inside = column >= 0
    counts = np.bincount(column[inside], minlength=len(out))
    sums = np.bincount(column[inside], weights=values[inside], minlength=len(out))
    last = np.searchsorted(at_s, starts_s, side="right") - 1
    held = (last >= 0) & (starts_s - at_s[last] <= hold_s)
    out[held] = values[last[held]]
    out[counts > 0] = sums[counts > 0] / counts[counts > 0]
    return out

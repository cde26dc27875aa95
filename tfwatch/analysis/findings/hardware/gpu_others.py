"""The GPU time of other programs: the whole GPU's activity less the training's, where it is more than noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The two counters average over windows of their own. One program alone on an H100 with steady work read differences of
#: up to 1.4 points over 5 s, and on an idle H200 of 4 points.
COUNTERS_DIFFER = 0.05
#: Work in bursts of a second read up to 15 points over 5 s there, and single samples up to 76: two standard errors.
_ERRORS = 2.0


def others_share(busy: NDArray[np.floating], ours: NDArray[np.floating]) -> float | None:
    """Return the mean share that other programs use, 0 to 1, of samples of both counters.

    None where no sample has both, and where the counters differ by no more than they do with one program alone.
    """
    apart = (busy - ours)[np.isfinite(busy) & np.isfinite(ours)].astype(np.float64)
    if not len(apart):
        return None
    error = float(apart.std()) / len(apart) ** 0.5
    share = float(apart.mean())
    return min(share, 1.0) if share > COUNTERS_DIFFER + _ERRORS * error else None

"""What lies between two epochs: validation, checkpoints, a new iterator, its shuffle buffer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tfwatch.core.rows import Rows


@dataclass(frozen=True, slots=True)
class Between:
    """The newest whole epoch: the time from its last batch's end to the next epoch's first fetch.

    share: of the epoch's wall time and that gap, 0 to 1; steps: how many the epoch has.
    """

    gap_s: float
    share: float
    steps: int


def between_epochs(rows: Rows) -> Between | None:
    """Measure the newest gap between two epochs; None where the rows hold no whole epoch."""
    starts = np.flatnonzero(np.diff(rows["epoch"].astype(np.int64))) + 1
    if len(starts) < 2:
        return None
    first, last = int(starts[-2]), int(starts[-1]) - 1
    begun, over = (float(rows["start_ns"][at]) / 1e9 for at in (first, last + 1))
    busy_ms = float(rows["wait_ms"][last] + rows["compute_ms"][last] + np.median(rows["host_ms"][first : last + 1]))
    gap_s = max(0.0, over - float(rows["start_ns"][last]) / 1e9 - busy_ms / 1e3)
    return Between(gap_s, gap_s / (over - begun), last - first + 1) if over > begun else None

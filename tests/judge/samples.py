"""Rows of samples made to measure."""

import numpy as np
from numpy.typing import ArrayLike

from tfwatch.core.rows import SAMPLE, Rows


def make_samples(at_s: ArrayLike, **columns: ArrayLike) -> Rows:
    """Samples at these moments, seconds; columns that are not given are missing."""
    at = np.atleast_1d(np.asarray(at_s, dtype=np.float64))
    rows = np.zeros(len(at), dtype=SAMPLE)
    for name in SAMPLE.names or ():
        rows[name] = at * 1e9 if name == "at_ns" else columns.get(name, np.nan)
    return rows

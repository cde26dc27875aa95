"""The median, without what numpy's does beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray


def median(values: NDArray[Any]) -> float:
    """The median of a flat array without NaN; NaN of an empty one.

    `numpy.median` takes 8 us of which 7 are no sorting: a frame of the screen asks for ten.
    """
    if not len(values):
        return float("nan")
    ordered, half = np.sort(values), len(values) // 2
    return float(ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2)

"""The median of a flat array."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tfwatch.analysis.median import median


@pytest.mark.parametrize("count", [1, 2, 3, 64, 501, 4096])
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64])
def test_it_is_what_numpy_says(count: int, kind: type[np.number]) -> None:
    values = (np.random.default_rng(count).random(count) * 1000).astype(kind)

    assert median(values) == float(np.median(values))


def test_of_nothing_it_is_missing() -> None:
    assert math.isnan(median(np.empty(0)))

"""What lies between two epochs."""

from __future__ import annotations

import numpy as np
import pytest

from tfwatch.analysis.between import between_epochs
from tfwatch.core.rows import STEP, Rows


def epochs(count: int, steps: int, gap_s: float) -> Rows:
    """Epochs of 20 ms steps with a gap after each."""
    rows = np.zeros(count * steps, dtype=STEP)
    rows["epoch"] = np.repeat(np.arange(count), steps)
    rows["start_ns"] = (np.arange(count * steps) * 0.02 + rows["epoch"] * gap_s) * 1e9
    rows["wait_ms"], rows["compute_ms"], rows["host_ms"] = 2.0, 17.0, 1.0
    return rows


def test_the_gap_after_the_newest_whole_epoch_is_measured() -> None:
    found = between_epochs(epochs(3, 100, gap_s=2.0))

    assert found is not None
    assert found.gap_s == pytest.approx(2.0)
    assert found.share == pytest.approx(0.5)
    assert found.steps == 100


def test_nothing_is_said_before_an_epoch_is_whole() -> None:
    assert between_epochs(epochs(2, 100, gap_s=2.0)) is None
    assert between_epochs(epochs(0, 0, 0.0)) is None

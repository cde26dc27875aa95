"""The estimate of the time to the end of a run."""

from __future__ import annotations

import numpy as np
import pytest

from tfwatch.core.rows import PROGRESS, Rows
from tfwatch.judge.steps.verdict import left_s


def progress(seconds: int, steps_s: int) -> Rows:
    rows = np.zeros(2 * seconds + 1, dtype=PROGRESS)
    rows["at_ns"] = np.arange(len(rows)) * 500_000_000
    rows["step"] = np.arange(len(rows)) * steps_s // 2
    return rows


def test_the_remaining_time_is_estimated_at_the_pace_of_the_last_minute() -> None:
    assert left_s(progress(10, 50), 1500) == pytest.approx(20.0)
    assert left_s(progress(10, 50), 100) == 0.0


def test_without_progress_there_is_no_estimate() -> None:
    assert left_s(progress(10, 50), None) is None
    assert left_s(progress(10, 0), 1500) is None
    assert left_s(progress(0, 50), 1500) is None

"""How long a run still takes."""

from __future__ import annotations

import numpy as np
import pytest

from tfwatch.analysis.steps.breakdown import left_s
from tfwatch.core.rows import PROGRESS, Rows


def progress(seconds: int, steps_s: int) -> Rows:
    rows = np.zeros(2 * seconds + 1, dtype=PROGRESS)
    rows["at_ns"] = np.arange(len(rows)) * 500_000_000
    rows["step"] = np.arange(len(rows)) * steps_s // 2
    return rows


def test_the_rest_is_reckoned_at_the_pace_of_the_last_minute() -> None:
    assert left_s(progress(10, 50), 1500) == pytest.approx(20.0)
    assert left_s(progress(10, 50), 100) == 0.0


def test_nothing_is_said_where_nothing_is_known() -> None:
    assert left_s(progress(10, 50), None) is None
    assert left_s(progress(10, 0), 1500) is None
    assert left_s(progress(0, 50), 1500) is None

"""The newest rows and their views."""

from __future__ import annotations

import numpy as np
import pytest

from tfwatch.core.rows import STEP
from tfwatch.runs.in_memory.buffers import NewestRows


@pytest.mark.parametrize("sizes", [[1] * 30, [3, 5, 2, 9, 1, 4, 4], [10], [25], [9, 25, 1], [0, 4, 0]], ids=str)
def test_the_last_rows_are_kept_for_any_size_of_addition(sizes: list[int]) -> None:
    newest, every = NewestRows(STEP, 10), np.zeros(sum(sizes), dtype=STEP)
    every["step"] = np.arange(len(every))
    views = []

    came = 0
    for size in sizes:
        newest.extend(every[came : came + size])
        came += size
        views.append((newest.rows, every[max(came - 10, 0) : came]))

    for view, expected in views:
        assert view["step"].tolist() == expected["step"].tolist()


def test_a_view_is_read_only() -> None:
    newest = NewestRows(STEP, 10)
    newest.extend(np.zeros(3, dtype=STEP))

    with pytest.raises(ValueError, match="read-only"):
        newest.rows["step"][0] = 1

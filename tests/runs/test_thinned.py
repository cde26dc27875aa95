"""Every n-th row of a long run."""

from __future__ import annotations

import numpy as np
import pytest

from tfwatch.core.rows import PROGRESS
from tfwatch.runs.in_memory.buffers import ThinnedRows


@pytest.mark.parametrize("block", [1, 3, 64, 5000])
def test_the_kept_rows_are_evenly_spaced_and_do_not_depend_on_the_blocks(block: int) -> None:
    rows = np.zeros(5000, dtype=PROGRESS)
    rows["step"] = np.arange(5000)
    thinned = ThinnedRows(PROGRESS, 100)
    for first in range(0, 5000, block):
        thinned.extend(rows[first : first + block])
    assert thinned.rows["step"].tolist() == list(range(0, 5000, 64))
    assert not thinned.rows.flags.writeable

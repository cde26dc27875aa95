"""stages.bin: written, read, and kept by a reader."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tests.judge.step_rows import plain
from tests.runs.folders import FakeClock, reader_of, write_run
from tfwatch.core.rows import STAGE
from tfwatch.runs import format as layout
from tfwatch.runs.run import open_run

if TYPE_CHECKING:
    from pathlib import Path

S = 10**9


def test_a_row_is_read_back(tmp_path: Path) -> None:
    writer = write_run(tmp_path, plain(3))
    writer.stage(7 * S, 3, 2, 64, 1.5, 4.0, 12.0, 16.0, 4096.0, 1.25)
    writer.flush()

    (row,) = open_run(tmp_path, FakeClock(8).clock).stages

    assert row.tolist() == (7 * S, 3, 2, 64, 1.5, 4.0, 12.0, 16.0, 4096.0, 1.25)
    assert (tmp_path / layout.STAGES).stat().st_size == STAGE.itemsize


def test_the_last_seconds_are_kept(tmp_path: Path) -> None:
    clock = FakeClock(3600)
    writer = write_run(tmp_path, plain(3), clock=clock)
    for second in range(1, 3601):
        writer.stage(second * S, 0, 0, 5, 1.0, 1.0, math.nan, math.nan, math.nan, 0.5)

    kept = reader_of(writer, clock.clock).read().recent_stages

    assert (kept["at_ns"] // S).tolist() == list(range(3591, 3601))

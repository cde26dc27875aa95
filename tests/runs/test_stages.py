"""stages.bin: written, read, and kept by a reader."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tests.judge.step_rows import plain
from tests.runs.folders import FakeClock, reader_of, write_run
from tfwatch.core.rows import STAGE
from tfwatch.runs import format as layout
from tfwatch.runs.run import Run, open_run

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.core.events import Event
    from tfwatch.runs.snapshot import Snapshot
    from tfwatch.runs.writer import RunWriter

S = 10**9


def stage(writer: RunWriter, at_s: float, pipeline: int = 0, busy_ms: float = 1.0) -> None:
    writer.stage(round(at_s * S), pipeline, 0, 5, busy_ms, 1.0, math.nan, math.nan, math.nan, 0.5)


def make(
    folder: Path, seconds: int, *events: Event, now_s: float | None = None
) -> tuple[RunWriter, Run]:
    """Return a run with one reading a second, and its reader at the time of the last one."""
    clock = FakeClock(seconds if now_s is None else now_s)
    writer = write_run(folder, plain(3), clock=clock)
    for second in range(1, seconds + 1):
        stage(writer, second)
    for event in events:
        writer.event(event)
    writer.flush()
    return writer, reader_of(writer, clock.clock)


def seconds_of(snapshot: Snapshot) -> list[float]:
    return [float(at) / S for at in snapshot.recent_stages["at_ns"]]


def test_a_row_is_read_back(tmp_path: Path) -> None:
    writer = write_run(tmp_path, plain(3))
    writer.stage(7 * S, 3, 2, 64, 1.5, 4.0, 12.0, 16.0, 4096.0, 1.25)
    writer.flush()

    (row,) = open_run(tmp_path, FakeClock(8).clock).stages

    assert row.tolist() == (7 * S, 3, 2, 64, 1.5, 4.0, 12.0, 16.0, 4096.0, 1.25)
    assert (tmp_path / layout.STAGES).stat().st_size == STAGE.itemsize


def test_the_last_seconds_are_kept(tmp_path: Path) -> None:
    _, reader = make(tmp_path, 3600)

    assert seconds_of(reader.read()) == list(range(3591, 3601))

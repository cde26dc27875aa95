"""Runs written for the tests of reports."""

from pathlib import Path
from typing import Any

import numpy as np

from tests.judge.step_rows import make_steps
from tests.runs.folders import FakeClock, write_run
from tfwatch.core.events import Event, PipelineSwitched, RunEnded, SwitchAsked
from tfwatch.core.rows import Flag, Rows
from tfwatch.report.text import as_text
from tfwatch.runs.run import open_run
from tfwatch.runs.snapshot import Snapshot

FINISHED = RunEnded(724_000_000_000, "finished", 200)


def switched_run() -> Rows:
    rows = make_steps(np.repeat([10.0, 0.0], 100), compute=12.0, host=1.0, dispatch=2.0)
    rows["flags"][0] = Flag.COMPILE
    rows["compute_ms"][0] = 2400
    rows["flags"][100] = Flag.SWITCH
    return rows


SWITCH: tuple[Event, ...] = (
    SwitchAsked(0, "prefetch", "off", "4", 98, "command"),
    PipelineSwitched(0, "prefetch", "off", "4", 98, 101, 3.0, "command"),
)


def open_written(folder: Path, rows: Rows, *events: Event, **changes: Any) -> Snapshot:
    write_run(folder, rows, *events, **changes)
    return open_run(folder, FakeClock(900).clock)


def text_of(run: Snapshot, home: str = "/home/ada", columns: int | None = None) -> list[str]:
    return as_text(run, Path(home), columns=columns).splitlines()

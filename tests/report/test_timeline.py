"""The marks and the top of the chart of step times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tests.judge.step_rows import make_steps
from tests.report.written_runs import open_written
from tfwatch.core.events import EpochStarted, Event, PipelineSwitched, RunEnded
from tfwatch.judge.judged_run import JudgedRun
from tfwatch.report.timeline import make_timeline

if TYPE_CHECKING:
    from pathlib import Path


def test_of_many_epochs_each_fifth_is_marked_and_all_marks_are_labelled(tmp_path: Path) -> None:
    rows = make_steps(np.full(200, 5.0))
    end_ns = int(rows["start_ns"][-1]) + 10**8
    epochs = [EpochStarted(end_ns * n // 50, n, 50, 4) for n in range(50)]
    switch = PipelineSwitched(0, "prefetch", "off", "4", 90, 101, 1.0, "key")
    events: tuple[Event, ...] = (*epochs, switch, RunEnded(end_ns, "finished", 200))

    chart = make_timeline(JudgedRun(open_written(tmp_path / "run", rows, *events)))

    assert chart
    assert [mark.label for mark in chart.epochs] == [str(n) for n in range(1, 51, 5)]
    assert [mark.label for mark in chart.switches] == ["1"]


def test_a_stall_is_cut_off(tmp_path: Path) -> None:
    waits = np.full(2000, 5.0)
    waits[1000] = 3000.0

    chart = make_timeline(JudgedRun(open_written(tmp_path / "run", make_steps(waits))))

    assert chart
    assert chart.cut == "3011 ms"
    assert chart.heights[0].label == "0.0 ms"

"""The chart of step times: paths, tops, labels and marks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.judge.step_rows import make_steps
from tests.report.written_runs import open_written
from tfwatch.core.events import EpochStarted, Event, PipelineSwitched, RunEnded
from tfwatch.judge.judged_run import JudgedRun
from tfwatch.report.timeline import areas, height_text, make_timeline, round_up, time_text

if TYPE_CHECKING:
    from pathlib import Path


def test_columns_that_touch_are_one_shape() -> None:
    path = areas(np.array([0.0, 0.25]), np.array([0.25, 0.5]), np.array([0.5, 1.0]))

    assert path == "M0 1000V500H250V0H500V1000Z"


def test_a_gap_and_an_unknown_column_divide_shapes() -> None:
    begins, ends = np.array([0.0, 0.25, 0.5, 0.8]), np.array([0.25, 0.5, 0.6, 1.0])

    path = areas(begins, ends, np.array([1.0, math.nan, 1.0, 1.0]))

    assert path == "M0 1000V0H250V1000ZM500 1000V0H600V1000ZM800 1000V0H1000V1000Z"
    assert areas(begins, ends, np.full(4, math.nan)) == ""


@pytest.mark.parametrize(
    ("value", "rounded"),
    [(0.7, 0.8), (1.0, 1.0), (1.2, 1.5), (23.0, 25.0), (26.0, 30.0), (0.0, 1.0), (math.inf, 1.0)],
)
def test_a_top_is_a_round_figure(value: float, rounded: float) -> None:
    assert round_up(value) == pytest.approx(rounded)


def test_labels_read_as_times() -> None:
    moments = [time_text(at_s) for at_s in (0, 40, 150, 3600, 12_600)]

    assert moments == ["0", "40 s", "2:30", "1 h", "3 h 30"]
    assert [height_text(ms) for ms in (0, 7.5, 12_000)] == ["0", "7.5 ms", "12 s"]


def test_of_many_epochs_each_fifth_is_marked_and_all_marks_are_labelled(tmp_path: Path) -> None:
    rows = make_steps(np.full(200, 5.0))
    end_ns = int(rows["start_ns"][-1]) + 10**8
    epochs = [EpochStarted(end_ns * n // 50, n, 50, 4) for n in range(50)]
    switch = PipelineSwitched(0, "prefetch", "off", "4", 90, 101, 1.0, "key")
    events: tuple[Event, ...] = (*epochs, switch, RunEnded(end_ns, "finished", 200))

    chart = make_timeline(JudgedRun(open_written(tmp_path / "run", rows, *events)))

    assert chart
    assert [mark.label for mark in chart.epochs] == [str(n) for n in range(5, 51, 5)]
    assert [mark.label for mark in chart.switches] == ["1"]
    assert chart.switches[0].text == "1: prefetch off → 4 at step 101"

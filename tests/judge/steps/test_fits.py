"""The figures of each `fit` of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tests.report.written_runs import open_written
from tfwatch.core.events import EpochEnded, EpochStarted, RunEnded
from tfwatch.core.rows import STEP, Flag
from tfwatch.judge.steps.fits import fits_of, newest_fit

if TYPE_CHECKING:
    from pathlib import Path

#: Two epochs of ten steps, then a second fit of one, then a third that is broken off.
STARTED = [EpochStarted(at, at, 0, 10, fit) for at, fit in enumerate((1, 1, 2, 3))]
ENDED = [EpochEnded(at * 10**9, at - 1, at * 10, {"loss": 1 / at}) for at in (1, 2, 3)]


def test_a_fit_has_its_steps_its_time_its_data_wait_and_its_loss(tmp_path: Path) -> None:
    rows = np.zeros(30, dtype=STEP)
    rows["step"], rows["compute_ms"], rows["wait_ms"] = np.arange(1, 31), 5.0, 5.0
    rows["wait_ms"][20:] = 15.0
    rows["compute_ms"][20], rows["flags"][20] = 900.0, Flag.COMPILE

    run = open_written(tmp_path / "run", rows, *STARTED, *ENDED, RunEnded(9, "failed", 30))

    assert newest_fit(run) == 3
    assert [fit.words for fit in fits_of(run, 7)] == [
        "fit 7: 10.0 ms/step, data wait 50 %, loss 0.5, 20 steps",
        "fit 8: 20.0 ms/step, data wait 75 %, loss 0.333, 10 steps",
        "fit 9: failed, no whole epoch",
    ]


def test_a_loop_that_makes_its_batches_has_its_line_and_no_data_wait(tmp_path: Path) -> None:
    rows = np.zeros(10, dtype=STEP)
    rows["step"], rows["compute_ms"] = np.arange(1, 11), 5.0
    events = (STARTED[0], ENDED[0], RunEnded(9, "finished", 10))
    run = open_written(tmp_path / "run", rows, *events, loop="a.py:2", makes_batches=True)

    assert [one.words for one in fits_of(run, 2)] == [
        "loop 2, a.py:2: 5.0 ms/step, loss 1, 10 steps"
    ]

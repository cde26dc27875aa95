"""The figures of each `fit` of a run."""

from __future__ import annotations

import numpy as np

from tfwatch.core.events import EpochEnded, EpochStarted
from tfwatch.core.rows import STEP, Flag
from tfwatch.judge.steps.fits import FitCounter

#: Two epochs of ten steps, then a second fit of one, then a third that is broken off.
STARTED = [EpochStarted(at, at, 0, 10, fit) for at, fit in enumerate((1, 1, 2, 3))]
ENDED = [EpochEnded(at * 10**9, at - 1, at * 10, {"loss": 1 / at}) for at in (1, 2, 3)]


def counter(first: int = 1) -> FitCounter:
    """Return a counter over steps of 10 ms in the first fit and 20 ms in the second, whose first
    step compiles."""
    rows = np.zeros(30, dtype=STEP)
    rows["step"], rows["compute_ms"], rows["wait_ms"] = np.arange(1, 31), 5.0, 5.0
    rows["wait_ms"][20:] = 15.0
    rows["compute_ms"][20], rows["flags"][20] = 900.0, Flag.COMPILE
    return FitCounter(100.0, lambda begin, end: rows[begin - 1 : end], first)


def test_a_fit_has_its_steps_its_time_its_data_wait_and_its_loss() -> None:
    fits = counter(first=7)

    assert fits.take(STARTED, ENDED, is_over=True) == 9
    assert [fit.words for fit in fits.done] == [
        "fit 7: 10.0 ms/step, data wait 50 %, loss 0.5, 20 steps",
        "fit 8: 20.0 ms/step, data wait 75 %, loss 0.333, 10 steps",
        "fit 9: no whole epoch",
    ]
    assert [fit.end_s for fit in fits.done] == [102.0, 103.0, 100.0]


def test_a_loop_of_the_scripts_own_is_named_by_its_line() -> None:
    loops = FitCounter(0.0, lambda begin, end: np.zeros(0, dtype=STEP), 2, "train.py:22")
    loops.take(STARTED[:1], [], is_over=True)
    assert [one.words for one in loops.done] == ["loop 2, train.py:22: no whole epoch"]


def test_the_present_fit_is_not_listed() -> None:
    fits = counter()

    assert fits.take([], [], is_over=False) == 0
    assert fits.take(STARTED[:2], ENDED[:1], is_over=False) == 1
    assert list(fits.done) == []
    assert fits.take(STARTED[:3], ENDED[:2], is_over=False) == 2
    assert [fit.number for fit in fits.done] == [1]
    assert fits.take(STARTED[:3], ENDED[:2], is_over=False) == 2
    assert len(fits.done) == 1

"""The lanes below the strip."""

from __future__ import annotations

import numpy as np

from tfwatch.screens.live.timeline.gpu_lane import gauge, sample_columns, stacked

NAN = float("nan")


def test_a_gauge_distinguishes_zero_from_unknown() -> None:
    cores = np.array([NAN, 0.0, 0.02, 0.5, 0.97, 1.4])
    assert "".join(" ▁▂▃▄▅▆▇█"[level] for level in gauge(cores, 8)) == " ▁▁▄██"


def test_a_gauge_of_two_rows_fills_the_lower_one_first() -> None:
    rows = stacked(gauge(np.array([NAN, 0.0, 0.25, 0.5, 0.8, 1.0]), 16), 2, 8)
    assert ["".join(" ▁▂▃▄▅▆▇█"[level] for level in row) for row in rows.tolist()] == [
        "    ▅█",
        " ▁▄███",
    ]


def test_a_sample_covers_the_time_before_it_up_to_the_limit() -> None:
    starts = np.arange(8, dtype=np.float64) * 0.25
    cores = sample_columns(
        np.array([0.3, 0.4, 1.3, 1.6]), np.array([2.0, 4.0, 8.0, NAN]), starts, hold_s=0.6
    )
    assert np.nan_to_num(cores, nan=-1).tolist() == [2, 3, -1, 8, 8, 8, -1, -1]


def test_a_sample_covers_nothing_before_a_missing_one() -> None:
    starts = np.arange(8, dtype=np.float64) * 0.25
    cores = sample_columns(np.array([0.5, 1.0, 1.5]), np.array([2.0, NAN, 4.0]), starts, hold_s=9.0)
    assert np.nan_to_num(cores, nan=-1).tolist() == [2, 2, -1, -1, 4, 4, -1, -1]


def test_no_samples_are_no_figures() -> None:
    assert np.isnan(
        sample_columns(np.array([]), np.array([]), np.array([0.0, 1.0, 2.0]), hold_s=1.0)
    ).all()

"""The chart of step times: paths, scales, ticks and marks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tfwatch.report.timeline import Scale, areas, round_up, time_text, time_ticks


def test_columns_that_touch_are_one_shape() -> None:
    path = areas(np.array([0.0, 0.25]), np.array([0.25, 0.5]), np.array([0.5, 1.0]))

    assert path == "M0 1000V500H250V0H500V1000Z"


def test_a_gap_and_an_unknown_column_divide_shapes() -> None:
    begins, ends = np.array([0.0, 0.25, 0.5, 0.8]), np.array([0.25, 0.5, 0.6, 1.0])

    path = areas(begins, ends, np.array([1.0, math.nan, 1.0, 1.0]))

    assert path == "M0 1000V0H250V1000ZM500 1000V0H600V1000ZM800 1000V0H1000V1000Z"


def test_no_column_is_no_path() -> None:
    assert areas(np.zeros(2), np.ones(2), np.full(2, math.nan)) == ""


def test_a_scale_cuts_values_beyond_it() -> None:
    assert Scale(10.0, 20.0).shares(np.array([0.0, 15.0, 99.0])).tolist() == [0.0, 0.5, 1.0]


def test_a_scale_without_extent_has_no_division_by_zero() -> None:
    assert Scale(5.0, 5.0).percent(5.0) == 0.0


@pytest.mark.parametrize(
    ("value", "rounded"),
    [(0.7, 0.8), (1.0, 1.0), (1.2, 1.5), (23.0, 25.0), (26.0, 30.0), (0.0, 1.0), (math.inf, 1.0)],
)
def test_a_top_is_a_round_figure(value: float, rounded: float) -> None:
    assert round_up(value) == pytest.approx(rounded)


@pytest.mark.parametrize(
    ("length_s", "last"),
    [(3.0, "3 s"), (60.0, "1:00"), (600.0, "10:00"), (36_000.0, "10 h"), (2_000_000.0, "504 h")],
)
def test_a_time_axis_has_few_ticks_of_any_length(length_s: float, last: str) -> None:
    found = time_ticks(Scale(0.0, length_s))

    assert (found[0].text, found[-1].text) == ("0", last)
    assert len(found) <= 10


def test_moments_read_as_times() -> None:
    assert [time_text(at_s) for at_s in (0, 40, 150, 3600, 12_600)] == [
        "0",
        "40 s",
        "2:30",
        "1 h",
        "3 h 30",
    ]

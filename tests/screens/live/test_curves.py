"""The axes of the learning curves."""

from __future__ import annotations

import numpy as np
import pytest

from tfwatch.judge.whole_run import MetricCurve
from tfwatch.screens.live.curves import axis_bounds, highest_step_time


def curve(*values: float) -> MetricCurve:
    return MetricCurve(np.arange(len(values), dtype=float), np.array(values))


@pytest.mark.parametrize(
    ("values", "bounds"),
    [
        pytest.param((1.77, 0.5, 0.038), (0.0, 1.83), id="a loss is not shown below 0"),
        pytest.param((0.27, 0.8, 0.994), (0.24, 1.0), id="an accuracy is not shown above 1"),
        pytest.param((-1.0, 1.0), (-1.1, 1.1), id="a metric of both signs has room on both sides"),
        pytest.param((4.0, 6.0), (3.9, 6.1), id="far from both"),
    ],
)
def test_the_room_of_an_axis_crosses_no_limit_that_the_values_keep(
    values: tuple[float, ...], bounds: tuple[float, float]
) -> None:
    assert axis_bounds([curve(*values)], is_log=False) == pytest.approx(bounds, abs=0.05)


def test_the_compile_step_does_not_flatten_the_curve_of_step_times() -> None:
    assert highest_step_time([curve(538.0, 48.0, 47.0, 49.0, 48.0)]) == 144.0
    assert highest_step_time([]) == np.inf

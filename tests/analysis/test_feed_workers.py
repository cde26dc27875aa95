"""The forecast of workers of the tf.data service."""

from __future__ import annotations

import pytest

from tfwatch.analysis.tuning.forecasting.feed_workers import forecast_workers


@pytest.mark.parametrize(("supply_ms", "workers"), [(15.0, 2), (35.0, 4), (11.0, 2)])
def test_it_is_the_supply_over_the_rest_of_a_step_and_a_tenth(supply_ms: float, workers: int) -> None:
    forecast = forecast_workers(supply_ms, 10.0, 16)
    assert forecast
    assert forecast.workers == workers
    assert forecast.low <= workers <= forecast.high


def test_it_says_when_the_cores_are_too_few() -> None:
    forecast = forecast_workers(100.0, 10.0, 8)
    assert forecast
    assert "more than this machine has cores for" in forecast.words


def test_a_step_that_does_not_starve_has_none() -> None:
    assert forecast_workers(5.0, 10.0, 8) is None
    assert forecast_workers(float("nan"), 10.0, 8) is None

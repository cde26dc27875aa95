"""The forecast of workers of the tf.data service."""

from __future__ import annotations

import pytest

from tfwatch.analysis.findings.feed_advice import forecast_workers


@pytest.mark.parametrize(
    ("supply_ms", "batch_size", "words"),
    [
        pytest.param(45.0, 8, "3 (3 to 4) workers", id="decoding"),
        pytest.param(9.4, 1, "2 (1 to 2) workers", id="nearly fed"),
        pytest.param(25.0, 64, "3 (2 to 5) workers", id="many elements"),
    ],
)
def test_it_is_the_work_and_the_sending_over_the_rest_of_a_step(supply_ms: float, batch_size: int, words: str) -> None:
    forecast = forecast_workers(supply_ms, 20.0 if supply_ms > 10 else 9.0, batch_size)
    assert forecast
    assert forecast.words == words


def test_a_step_that_does_not_starve_has_none() -> None:
    assert forecast_workers(5.0, 10.0, 8) is None
    assert forecast_workers(float("nan"), 10.0, 8) is None

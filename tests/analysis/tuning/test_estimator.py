"""One estimate of every setting, from what was measured and what was forecast."""

from __future__ import annotations

import math

import pytest

from tfwatch.analysis.tuning.autopilot.estimator import Estimator, ForecastDatum, MeasuredDatum, Measurement

A, B, C = {"workers": "deviation"}, {"workers": "2"}, {"workers": "4"}


def seen(knobs: dict[str, str], step_ms: float, error_ms: float = 0.0) -> MeasuredDatum:
    return MeasuredDatum(knobs, Measurement(40, step_ms, error_ms, step_ms))


def test_a_setting_that_was_only_forecast_is_what_its_forecast_says() -> None:
    known = Estimator([seen(A, 20.0)], [ForecastDatum(A, B, math.log(0.5), 0.0)])
    assert known.expected_saving(A, B) == pytest.approx(math.log(2))


def test_what_was_measured_outweighs_what_was_forecast() -> None:
    known = Estimator([seen(A, 20.0), seen(B, 18.0)], [ForecastDatum(A, B, math.log(0.5), 0.0, math.log(0.9))])
    assert known.expected_saving(A, B) == pytest.approx(math.log(20 / 18), abs=0.02)


@pytest.mark.parametrize(("forecast_ms", "better"), [(12.0, True), (28.0, False)])
def test_a_forecast_decides_where_steps_are_too_noisy_to(forecast_ms: float, better: bool) -> None:
    log_ratio = math.log(forecast_ms / 20)
    known = Estimator([seen(A, 20.0, 4.0), seen(B, 20.0, 4.0)], [ForecastDatum(A, B, log_ratio, 0.0, 0.0)])
    assert (known.expected_saving(A, B) > 0.01) is better


def test_several_stretches_count_by_how_exact_they_are() -> None:
    known = Estimator([seen(A, 20.0), seen(B, 10.0, 0.1), seen(B, 14.0, 2.0)], [])
    assert math.log(20 / 14) < known.expected_saving(A, B)
    assert known.expected_saving(A, B) == pytest.approx(math.log(2), abs=0.03)


def test_forecasts_that_were_wrong_are_believed_less() -> None:
    wrong = ForecastDatum(A, B, math.log(0.5), 0.0, measured_log_ratio=math.log(2.0))
    right = ForecastDatum(A, B, math.log(0.5), 0.0, measured_log_ratio=math.log(0.5))
    expected_gain = []
    for one, measured_ms in ((wrong, 40.0), (right, 10.0)):
        known = Estimator([seen(A, 20.0), seen(B, measured_ms)], [one, ForecastDatum(A, C, math.log(1.2), 0.0)])
        expected_gain.append(known.expected_gain(A, C, 0.0))
    assert expected_gain[0] > 2 * expected_gain[1]


def test_a_forecast_is_not_wrong_by_what_nobody_measured_exactly() -> None:
    def expected_gain(measured_error: float) -> float:
        told = [
            ForecastDatum(A, B, math.log(0.5), 0.0, math.log(2.0), measured_error),
            ForecastDatum(A, C, math.log(1.2), 0.0),
        ]
        return Estimator([seen(A, 20.0), seen(B, 40.0)], told).expected_gain(A, C, 0.0)

    assert expected_gain(2.0) < expected_gain(0.0) / 2


def test_what_is_known_well_is_not_worth_another_look() -> None:
    once = Estimator([seen(A, 20.0), seen(B, 20.0)], [])
    often = Estimator([*[seen(A, 20.0)] * 9, *[seen(B, 20.0)] * 9], [])
    assert 0 < often.expected_gain(A, B, 0.0) < once.expected_gain(A, B, 0.0) / 2
    assert once.expected_gain(A, B, 0.1) < once.expected_gain(A, B, 0.0)
    sure = Estimator([seen(A, 20.0), seen(B, 10.0)], [])
    assert sure.expected_gain(A, B, 0.0) == pytest.approx(math.log(2), rel=0.01)

"""Estimates of each setting's step, and the measurements that they take."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.judge.plants import Plant
from tests.judge.situations import split
from tfwatch.core.events import PipelineSwitched
from tfwatch.judge.autopilot.estimator import (
    Estimator,
    ForecastDatum,
    MeasuredDatum,
    Measurement,
    SettingSpan,
    find_measured,
    intervals,
    measure,
)
from tfwatch.judge.effects.comparison import Comparison

A, B, C = {"workers": "deviation"}, {"workers": "2"}, {"workers": "4"}


def seen(knobs: dict[str, str], step_ms: float, error_ms: float = 0.0) -> MeasuredDatum:
    return MeasuredDatum(knobs, Measurement(40, step_ms, error_ms, step_ms))


def test_a_setting_that_was_only_forecast_is_what_its_forecast_says() -> None:
    known = Estimator([seen(A, 20.0)], [ForecastDatum(A, B, math.log(0.5), 0.0)])
    assert known.expected_saving(A, B) == pytest.approx(math.log(2))


def test_what_was_measured_outweighs_what_was_forecast() -> None:
    known = Estimator(
        [seen(A, 20.0), seen(B, 18.0)], [ForecastDatum(A, B, math.log(0.5), 0.0, math.log(0.9))]
    )
    assert known.expected_saving(A, B) == pytest.approx(math.log(20 / 18), abs=0.02)


@pytest.mark.parametrize(("forecast_ms", "better"), [(12.0, True), (28.0, False)])
def test_a_forecast_decides_where_steps_are_too_noisy_to(forecast_ms: float, better: bool) -> None:
    log_ratio = math.log(forecast_ms / 20)
    known = Estimator(
        [seen(A, 20.0, 4.0), seen(B, 20.0, 4.0)], [ForecastDatum(A, B, log_ratio, 0.0, 0.0)]
    )
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
        known = Estimator(
            [seen(A, 20.0), seen(B, measured_ms)], [one, ForecastDatum(A, C, math.log(1.2), 0.0)]
        )
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


OFF, FOUR = {"prefetch": "off", "workers": "off"}, {"prefetch": "4", "workers": "off"}
SLOW, FAST = split(9.6, 13.0, 0.8), split(0.2, 13.0, 0.8)


def turned(knob: str, new: str, step: int) -> PipelineSwitched:
    return PipelineSwitched(0, knob, "off", new, step - 1, step, 1.0, "experiment")


def switched(
    knob: str, old: str, new: str, step: int | None, before: float = 9.6, after: float = 0.2
) -> Comparison:
    sides = split(before, 13.0, 0.8), split(after, 13.0, 0.8)
    return Comparison(
        knob, old, new, "key", 0, (step or 1) - 1, step, *sides, ratio=1.0, settled=True
    )


def test_each_switch_parts_two_stretches() -> None:
    found = intervals(
        [switched("prefetch", "off", "4", 101), switched("prefetch", "4", "off", 201, 0.2, 9.6)],
        OFF,
    )

    assert found == [SettingSpan(OFF, SLOW), SettingSpan(FOUR, FAST), SettingSpan(OFF, SLOW)]
    assert intervals([switched("prefetch", "off", "4", None)], OFF) == []


def test_knobs_that_were_turned_at_one_step_began_one_stretch() -> None:
    both = [switched("prefetch", "off", "4", 101), switched("workers", "off", "8", 101)]

    assert [interval.knobs for interval in intervals(both, {"prefetch": "4", "workers": "8"})] == [
        OFF,
        {"prefetch": "4", "workers": "8"},
    ]


def test_what_an_experiment_turned_since_is_taken_back_first() -> None:
    switches = [turned("prefetch", "4", 101), turned("workers", "8", 201)]

    assert intervals(
        [switched("prefetch", "off", "4", 101)], {**FOUR, "workers": "8"}, switches
    ) == [
        SettingSpan(OFF, SLOW),
        SettingSpan(FOUR, FAST),
    ]


def test_the_newest_stretch_of_a_setting_is_found_with_its_neighbour() -> None:
    older, newer, other = (
        SettingSpan(OFF, SLOW),
        SettingSpan(OFF, split(12.0, 13.0, 0.8)),
        SettingSpan(FOUR, FAST),
    )

    assert find_measured([older, other, newer], OFF, FOUR) == (newer.split, other.split)
    assert find_measured([older, newer], OFF, FOUR) == (newer.split, None)
    assert (
        find_measured(
            [SettingSpan(OFF, split(9.6, 13.0, 0.8, steps=19)), SettingSpan(OFF, None)], OFF, FOUR
        )
        is None
    )


KNOBS = {"prefetch": "off", "workers": "off"}


def test_the_error_is_what_means_of_so_many_steps_differ_by() -> None:
    rng = np.random.default_rng(1)
    plant = Plant(data_ms=10, compute_ms=10, noise=0.05)
    found = [measure(plant.rows(KNOBS, 40, rng)) for _ in range(200)]
    means = [one.step_ms for one in found if one]
    assert np.std(means) == pytest.approx(
        np.median([one.error_ms for one in found if one]), rel=0.25
    )
    assert np.mean(means) == pytest.approx(plant.step_ms(KNOBS), rel=0.01)


def test_steps_that_resemble_their_neighbours_tell_less() -> None:
    rng = np.random.default_rng(1)
    errors = [
        np.median([one.error_ms for _ in range(50) if (one := measure(plant.rows(KNOBS, 40, rng)))])
        for plant in (Plant(10, 10, noise=0.05), Plant(10, 10, noise=0.05, drift=0.6))
    ]
    assert errors[1] > 1.5 * errors[0]


def test_one_step_is_no_measurement() -> None:
    rows = Plant(10, 10).rows(KNOBS, 2, np.random.default_rng(1))
    assert measure(rows[:1]) is None
    assert measure(rows) is not None

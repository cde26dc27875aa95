"""The measured step of a setting, and its error."""

from __future__ import annotations

import numpy as np
import pytest

from tests.judge.plants import Plant
from tfwatch.judge.autopilot.measurement import measure

KNOBS = {"prefetch": "off", "workers": "off"}


def test_the_error_is_that_of_means_of_as_many_steps() -> None:
    rng = np.random.default_rng(1)
    plant = Plant(data_ms=10, compute_ms=10, noise=0.05)
    found = [measure(plant.rows(KNOBS, 40, rng)) for _ in range(200)]
    means = [one.step_ms for one in found if one]
    errors = [one.error_ms for one in found if one]
    assert np.std(means) == pytest.approx(np.median(errors), rel=0.25)
    assert np.mean(means) == pytest.approx(plant.step_ms(KNOBS), rel=0.01)


def test_correlated_steps_have_a_larger_error() -> None:
    rng = np.random.default_rng(1)
    errors = [
        np.median([one.error_ms for _ in range(50) if (one := measure(plant.rows(KNOBS, 40, rng)))])
        for plant in (Plant(10, 10, noise=0.05), Plant(10, 10, noise=0.05, drift=0.6))
    ]
    assert errors[1] > 1.5 * errors[0]

"""Quantiles against numpy's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tfwatch.judge.steps.quantiles import median, quantiles, t_quantile

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.random import Generator

SHARES = (0.5, 0.95)
MANY = 600_000


@pytest.mark.parametrize("count", [1, 2, 3, 20, 21, 1000, 262_144, 262_145, MANY])
@pytest.mark.parametrize(
    "draw",
    [
        pytest.param(lambda source, count: source.normal(40, 2, count), id="normal"),
        pytest.param(
            lambda source, count: source.choice([0.6, 3.5, 21.0], count), id="three values"
        ),
        pytest.param(lambda source, count: np.full(count, 7.5), id="one value"),
        pytest.param(lambda source, count: np.sort(source.exponential(5, count)), id="growing"),
        pytest.param(
            lambda source, count: np.where(np.arange(count) % 9, 1.0, 1e6), id="each ninth is slow"
        ),
    ],
)
def test_quantiles_are_those_of_numpy(
    draw: Callable[[Generator, int], np.ndarray], count: int
) -> None:
    values = draw(np.random.default_rng(count), count).astype(np.float32)
    expected = np.quantile(values.astype(np.float64), SHARES)
    np.testing.assert_allclose(quantiles(values, SHARES), expected, rtol=1e-12)
    assert median(values) == pytest.approx(expected[0], rel=1e-12)


def test_a_sample_that_misleads_costs_time_and_no_digit() -> None:
    """Each ninth value is drawn into the sample, and those alone are large."""
    values = np.ones(MANY, dtype=np.float32)
    values[:: MANY // 65_536] = np.arange(len(values[:: MANY // 65_536])) + 100.0
    assert quantiles(values, SHARES) == pytest.approx(
        np.quantile(values.astype(np.float64), SHARES), rel=1e-12
    )


@pytest.mark.parametrize(
    ("share", "freedom", "exact"),
    [
        (0.975, 1, 12.71),
        (0.975, 2, 4.303),
        (0.975, 4, 2.776),
        (0.975, 10, 2.228),
        (0.975, 1e6, 1.960),
        (0.99375, 4, 4.315),
    ],
)
def test_quantiles_of_student_s_distribution(share: float, freedom: float, exact: float) -> None:
    assert t_quantile(share, freedom) == pytest.approx(exact, rel=0.01)

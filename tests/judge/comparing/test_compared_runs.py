"""The interval of a difference between sides of runs: its spread, its width, and simulated
pairs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.run_pairs import Noise, claimed
from tfwatch.judge.comparing.compared_runs import Spread, difference, estimate_spread

if TYPE_CHECKING:
    from tfwatch.judge.comparing.compared_runs import Values


def runs(*values: float, quarters: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)) -> Values:
    """Runs with these values, and quarters that differ from them by `quarters`."""
    return np.array([[value, *(value + one for one in quarters)] for value in values])


def test_one_run_of_each_side_has_the_assumed_spread() -> None:
    spread = estimate_spread(runs(1.0), runs(2.0), assumed=0.03)

    assert spread == Spread(0.03, 4.0, "assumed")
    value, _, high = difference(runs(1.0), runs(2.0), spread)
    assert high - value == pytest.approx(2.776 * 0.03 * math.sqrt(2), rel=0.01)


def test_drift_of_one_run_alone_widens_the_interval_and_drift_of_both_does_not() -> None:
    steady, drifting = runs(1.0), runs(1.0, quarters=(-0.15, -0.05, 0.05, 0.15))

    assert estimate_spread(steady, drifting, 0.03).deviation > 0.08
    assert estimate_spread(drifting, drifting, 0.03).deviation == 0.03


def test_three_runs_of_each_side_measure_the_spread_where_they_alternate() -> None:
    sides = runs(0.99, 1.0, 1.01), runs(1.09, 1.1, 1.11)

    measured = estimate_spread(*sides, 0.03)
    assert (measured.freedom, measured.source) == (4, "measured")
    assert measured.deviation == pytest.approx(0.01)
    in_turn = estimate_spread(*sides, 0.03, alternating=False)
    assert (in_turn.source, in_turn.deviation > 0.02) == ("assumed", True)


@pytest.mark.parametrize(
    "noise",
    [
        pytest.param(Noise(), id="white"),
        pytest.param(Noise("drift 10 %"), id="drift"),
        pytest.param(Noise("bursts every 150"), id="bursts"),
        pytest.param(Noise(warm_up=60, steps=(100, 600)), id="warm-up and lengths"),
    ],
)
def test_equal_runs_are_not_claimed_to_differ(noise: Noise) -> None:
    assert claimed(noise, runs=1, pairs=40) <= 2
    assert claimed(noise, runs=3, pairs=20) <= 2


def test_three_percent_is_found_with_five_runs_of_each_side() -> None:
    assert claimed(Noise(), runs=5, pairs=40, slower=0.03) >= 38

"""The interval of a difference between sides of runs: its spread, its width, and simulated
pairs."""

from __future__ import annotations

import math

import pytest

from tests.run_pairs import Noise, claimed
from tfwatch.judge.comparing.intervals import (
    Measured,
    Spread,
    alternate,
    assumed_share,
    difference,
    estimate_spread,
)


def runs(*values: float, quarters: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)) -> list[Measured]:
    """Runs with these values, and quarters that differ from them by `quarters`."""
    return [Measured(value, tuple(value + one for one in quarters)) for value in values]


def test_one_run_of_each_side_has_the_assumed_spread() -> None:
    spread = estimate_spread([runs(1.0), runs(2.0)], assumed=0.03)

    assert spread == Spread(0.03, 4.0, "assumed")
    found = difference(runs(1.0), runs(2.0), spread)
    assert found.high - found.value == pytest.approx(2.776 * 0.03 * math.sqrt(2), rel=0.01)


def test_drift_of_one_run_alone_widens_the_interval_and_drift_of_both_does_not() -> None:
    steady, drifting = runs(1.0), runs(1.0, quarters=(-0.15, -0.05, 0.05, 0.15))

    alone = estimate_spread([steady, drifting], 0.03)
    both = estimate_spread([drifting, drifting], 0.03)

    assert alone.deviation > 0.08
    assert both.deviation == 0.03


def test_three_runs_of_each_side_measure_the_spread_where_they_alternate() -> None:
    sides = [runs(0.99, 1.0, 1.01), runs(1.09, 1.1, 1.11)]

    measured = estimate_spread(sides, 0.03)
    assert (measured.freedom, measured.source) == (4, "measured")
    assert measured.deviation == pytest.approx(0.01)
    in_turn = estimate_spread(sides, 0.03, alternating=False)
    assert (in_turn.source, in_turn.deviation > 0.02) == ("assumed", True)


def test_other_programs_and_another_host_raise_the_assumption() -> None:
    assert assumed_share([None, None]) == assumed_share([0.0, 0.0]) == 0.03
    assert (
        assumed_share([0.0, 0.0])
        < assumed_share([0.5, 0.5])
        < assumed_share([0.5, 0.5], same_host=False)
    )
    assert assumed_share([0.5, 0.2]) > 0.15 > assumed_share([0.5, 0.5])


@pytest.mark.parametrize(
    ("starts", "expected"),
    [
        (((1, 3, 5), (2, 4, 6)), True),
        (((1, 2, 3), (4, 5, 6)), False),
        (((4, 5), (1, 2)), False),
        (((1, 4), (2, 3)), True),
    ],
)
def test_sides_alternate_unless_one_ends_before_the_other_begins(
    starts: tuple[tuple[float, ...], ...], expected: bool
) -> None:
    assert alternate(starts) is expected


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

"""A period, a drift and a hiccup are told apart."""

from __future__ import annotations

import numpy as np
import pytest

from tests.analysis.steps import make_steps, plain
from tfwatch.analysis.patterns import Pattern, find_patterns, shape
from tfwatch.analysis.stalls import find_stalls
from tfwatch.core.rows import Flag, Rows


def noisy(count: int, wait: float = 2.0) -> Rows:
    """Steps whose wait and compute vary by a fifth."""
    rng = np.random.default_rng(7)
    return make_steps(rng.normal(wait, wait / 5, count).clip(0), compute=rng.normal(15, 3, count).clip(5), host=1.0)


@pytest.mark.parametrize("period", [2, 3, 10, 64, 100])
def test_a_wait_that_comes_back_has_its_period(period: int) -> None:
    rows = noisy(1000)
    rows["wait_ms"][period::period] += 80

    (found,) = find_patterns(rows)

    assert (found.period, found.step) == (period, period + 1)
    assert found.extra_ms == pytest.approx(80, abs=3)
    assert found.lost_ms == pytest.approx(80 * (999 // period), rel=0.05)


def test_a_period_may_miss_a_beat_and_take_two_steps() -> None:
    rows = noisy(1000)
    rows["wait_ms"][50::50] += 80
    rows["wait_ms"][51::50] += 40
    rows["wait_ms"][500:502] = 2
    rows["flags"][300] = Flag.EPOCH_START

    (found,) = find_patterns(rows)

    assert found.period == 50


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("share", [0.01, 0.05, 0.3])
def test_waits_at_random_have_no_period(seed: int, share: float) -> None:
    rows = noisy(2000)
    rows["wait_ms"][np.random.default_rng(seed).random(2000) < share] += 80

    assert find_patterns(rows) == []


def test_a_single_hiccup_is_a_stall_and_no_pattern() -> None:
    rows = noisy(1000)
    rows["wait_ms"][400] = 3000

    assert find_patterns(rows) == []
    assert [stall.step for stall in find_stalls(rows)] == [401]


def test_a_wait_that_grows_slowly_is_a_drift() -> None:
    rows = noisy(1000)
    rows["wait_ms"] += np.linspace(0, 16, 1000)

    (found,) = find_patterns(rows)

    assert (found.period, found.step, found.steps) == (0, 1, 1000)
    assert found.extra_ms == pytest.approx(14, abs=1)
    assert find_stalls(rows) == []


def test_a_wait_that_falls_or_jumps_is_no_drift() -> None:
    falls, jumps = noisy(1000), noisy(1000)
    falls["wait_ms"] += np.linspace(16, 0, 1000)
    jumps["wait_ms"][450:] += 16

    assert find_patterns(falls) == []
    assert find_patterns(jumps) == []


def test_each_setting_is_looked_at_by_itself() -> None:
    rows = np.concatenate([noisy(500), noisy(500)])
    rows["step"] = np.arange(1, 1001)
    rows["wait_ms"][20:500:20] += 60
    rows["flags"][500] = Flag.SWITCH

    (found,) = find_patterns(rows)

    assert (found.period, found.step, found.steps) == (20, 21, 480)


@pytest.mark.parametrize(
    ("period", "words"),
    [
        (0, "the wait grew slowly by 80.0 ms"),
        (2, "every 2nd step waits 80.0 ms longer"),
        (11, "every 11th step waits 80.0 ms longer"),
        (43, "every 43rd step waits 80.0 ms longer"),
        (100, "every 100th step waits 80.0 ms longer"),
    ],
)
def test_the_shape_in_words(period: int, words: str) -> None:
    assert shape(Pattern(1, 0, 500, period, 80.0, 900.0)) == words


@pytest.mark.parametrize("count", [0, 1, 7, 10_000])
def test_plain_steps_have_no_pattern(count: int) -> None:
    assert find_patterns(noisy(count)) == []
    assert find_patterns(plain(count, 0.4)) == []

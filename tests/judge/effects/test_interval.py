"""The interval of a difference between two settings claims one only where there is one."""

import numpy as np
import pytest

from tests.step_noise import NOISE, ORDINARY, QUIET, noisy_steps
from tfwatch.judge.effects.interval import Estimate, estimate_change, estimate_ratio, t_quantile

#: Steps before and after each switch.
BEFORE, AFTER = 600, 300
PROVED = ("faster", "slower")


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def compare(steps: np.ndarray[tuple[int], np.dtype[np.float64]], *switches: int) -> Estimate:
    return estimate_ratio(np.split(steps, switches))


def test_equal_settings_are_claimed_in_at_most_5_of_100_switches_whatever_the_noise() -> None:
    source, claimed = rng(), 0
    for kind in [*NOISE] * (100 // len(NOISE)):
        claimed += compare(noisy_steps(kind, BEFORE + AFTER, source), BEFORE).answer in PROVED
    assert claimed <= 5


def test_looking_every_10_steps_claims_no_more() -> None:
    """Somebody watches the card while the steps come in, and drift has most chances to look like an
    effect."""
    source, claimed = rng(), 0
    for kind in ["drift 5 %", "drift 10 %"] * 20:
        steps = noisy_steps(kind, 2 * BEFORE, source)
        looks = (compare(steps[: BEFORE + look], BEFORE) for look in range(60, BEFORE + 1, 10))
        claimed += any(look.answer in PROVED for look in looks)
    assert claimed <= 2


def test_switches_back_and_forth_claim_no_more() -> None:
    source, claimed = rng(), 0
    for kind in [*NOISE] * (100 // len(NOISE)):
        steps = noisy_steps(kind, 400, source)
        looks = (compare(steps[: 300 + look], 100, 200, 300) for look in range(20, 101, 20))
        claimed += any(look.answer in PROVED for look in looks)
    assert claimed <= 5


@pytest.mark.parametrize(
    ("kinds", "faster", "before", "after"),
    [
        pytest.param(ORDINARY, 1.1, BEFORE, AFTER, id="10 % in ordinary steps"),
        pytest.param(QUIET, 1.2, 100, 100, id="20 % in 100 quiet steps"),
        pytest.param(QUIET, 1.05, 400, 400, id="5 % in 400 quiet steps"),
        pytest.param([*ORDINARY][:3], 1.05, 400, 400, id="5 % in 400 ordinary steps"),
    ],
)
def test_a_difference_is_found_in_95_of_100_switches(
    kinds: list[str], faster: float, before: int, after: int
) -> None:
    source, found = rng(), []
    for kind in [*kinds] * (100 // len(kinds)):
        steps = noisy_steps(kind, before + after, source)
        steps[before:] /= faster
        found.append(compare(steps, before).answer == "faster")
    assert sum(found) >= 0.95 * len(found)


def test_switches_back_and_forth_find_what_one_switch_does_not() -> None:
    source, one, together = rng(), 0, 0
    for _ in range(40):
        steps = noisy_steps("correlated 0.3, 10 %", 600, source)
        steps[100:200] /= 1.06
        steps[300:400] /= 1.06
        steps[500:] /= 1.06
        one += compare(steps[:200], 100).answer == "faster"
        together += compare(steps, 100, 200, 300, 400, 500).answer == "faster"
    assert together >= 2 * one >= 2


def test_the_ratio_is_that_of_the_medians_and_lies_in_its_interval() -> None:
    exact = estimate_ratio([np.full(100, 20.0), np.full(60, 10.0)])
    assert (exact.ratio, exact.low, exact.high) == pytest.approx((2.0, 2.0, 2.0))
    steps = noisy_steps("correlated 0.5", 400, rng())
    noisy = compare(steps, 200)
    assert noisy.ratio == pytest.approx(np.median(steps[:200]) / np.median(steps[200:]))
    assert noisy.low < noisy.ratio < noisy.high


def test_bursts_of_batches_are_compared_by_their_means() -> None:
    before, after = np.tile([10.0, 10.0, 10.0, 50.0], 50), np.full(200, 10.0)
    found = estimate_ratio([before, after], in_bursts=True)
    assert found.ratio == pytest.approx(2.0)
    assert found.answer == "faster"


def test_equal_waits_are_claimed_in_at_most_5_of_100_switches_at_any_look_whatever_the_noise() -> (
    None
):
    source, claimed = rng(1), 0
    for kind in [*NOISE] * (100 // len(NOISE)):
        waits = noisy_steps(kind, 2 * BEFORE, source)
        looks = (
            estimate_change([waits[:BEFORE], waits[BEFORE : BEFORE + look]])
            for look in range(60, BEFORE + 1, 60)
        )
        claimed += any(look.is_proved for look in looks)
    assert claimed <= 5


@pytest.mark.parametrize(
    ("share", "freedom", "exact"),
    [(0.975, 1, 12.706), (0.975, 2, 4.303), (0.975, 4, 2.776), (0.95, 10, 1.812)],
)
def test_quantiles_of_students_distribution(share: float, freedom: float, exact: float) -> None:
    assert t_quantile(share, freedom) == pytest.approx(exact, rel=0.01)

"""Experiments under noise that is known: what they find, how often they are wrong, and what they
say then."""

import math
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.judge.step_rows import make_steps
from tfwatch.core.rows import Flag
from tfwatch.judge.effects.interval import Estimate
from tfwatch.tuner.experiment import (
    ALPHA,
    block_means,
    counted_steps,
    estimate,
    evaluate,
    half_width,
)

Floats = NDArray[np.float64]

BLOCK, SETTLE, BUDGET = 12, 6, 600


def noise(rng: np.random.Generator, resembling: float, spread: float, slow: float = 0.0) -> Floats:
    """Logs of step times, AR(1) with that correlation between neighbours; a share of steps is
    slower by some 40 %."""
    fresh = rng.normal(0, spread, BUDGET)
    logs = fresh.copy()
    for at in range(1, BUDGET):
        logs[at] = resembling * logs[at - 1] + math.sqrt(1 - resembling**2) * fresh[at]
    return logs + np.log1p((rng.random(BUDGET) < slow) * rng.exponential(0.4, BUDGET))


def experiment(
    rng: np.random.Generator, logs: Floats, of: Callable[[int, Floats], Floats]
) -> Estimate:
    """Blocks in random order over steps that take `of(setting, plain)`, until it is clear or the
    budget is spent."""
    times: list[list[Floats]] = [[], []]
    at, before = 0, -1
    while True:
        for setting in rng.permutation(2).tolist():
            at += SETTLE if setting != before else 0
            before = setting
            if at + BLOCK > BUDGET:
                rounds = min(map(len, times))
                return evaluate(block_means([blocks[:rounds] for blocks in times]))[0]
            times[setting].append(of(setting, 20 * np.exp(logs[at : at + BLOCK])))
            at += BLOCK
        found, is_clear = evaluate(block_means(times))
        if is_clear:
            return found


NOISES = [(0.0, 0.03, 0.0), (0.9, 0.03, 0.0), (0.99, 0.1, 0.0), (0.5, 0.03, 0.1), (0.0, 0.1, 0.25)]


@pytest.mark.parametrize(("resembling", "spread", "slow"), NOISES)
def test_where_nothing_differs_seldom_anything_is_found(
    resembling: float, spread: float, slow: float
) -> None:
    rng = np.random.default_rng(7)
    runs = [
        experiment(rng, noise(rng, resembling, spread, slow), lambda _, ms: ms) for _ in range(100)
    ]
    answers = Counter(run.answer for run in runs)
    assert answers["faster"] + answers["slower"] <= 0.05 * len(runs)
    assert sum(run.low <= 1 <= run.high for run in runs) >= 0.95 * len(runs)


@pytest.mark.parametrize(
    ("resembling", "spread", "slow"), [(0.0, 0.03, 0.0), (0.9, 0.03, 0.0), (0.5, 0.03, 0.1)]
)
def test_five_percent_are_found_within_600_steps(
    resembling: float, spread: float, slow: float
) -> None:
    rng = np.random.default_rng(9)
    runs = [
        experiment(
            rng,
            noise(rng, resembling, spread, slow),
            lambda setting, ms: ms * (1.05, 1.0)[setting],
        )
        for _ in range(100)
    ]
    assert sum(run.answer == "faster" for run in runs) >= 90
    assert sum(run.low <= 1.05 <= run.high for run in runs) >= 95


def test_a_batch_that_is_late_every_eighth_time_counts() -> None:
    def every_eighth(setting: int, ms: Floats) -> Floats:
        return ms + np.where((np.arange(len(ms)) % 8 == 3) & (setting == 0), 20.0, 0.0)

    rng = np.random.default_rng(11)
    runs = [experiment(rng, noise(rng, 0.5, 0.03, 0.02), every_eighth) for _ in range(50)]
    assert all(run.answer == "faster" for run in runs)
    assert np.median([run.ratio for run in runs]) == pytest.approx(1.0 + 2 / 12, rel=0.02)


def test_the_interval_holds_at_every_look_at_once() -> None:
    rng = np.random.default_rng(12)
    missed = 0
    for _ in range(200):
        differences = rng.normal(0.1, 0.05, 60)
        looks = (differences[:n] for n in range(2, 61))
        missed += any(abs(float(seen.mean()) - 0.1) > half_width(seen) for seen in looks)
    assert missed <= ALPHA * 200


def test_the_half_width_is_that_of_the_published_sequence() -> None:
    """The mixture's ratio of likelihoods is exactly 1 / alpha there."""
    seen = np.random.default_rng(13).normal(0, 1, 9)
    n, c = len(seen), 0.1
    supposed = seen - (seen.mean() - half_width(seen))
    total, squares = supposed.sum(), (supposed**2).sum()
    evidence = math.sqrt(c / (n + c)) * (squares / (squares - total**2 / (n + c))) ** (n / 2)
    assert evidence == pytest.approx(20)


def test_three_rounds_tell_nothing() -> None:
    assert estimate(np.full(3, 0.5)) == Estimate(1.0, 0.0, math.inf)
    assert not evaluate(np.array([[20.0, 10.0]] * 3))[1]
    assert evaluate(np.empty((0, 2)))[0].answer == "unclear"


def test_steps_without_noise_answer_as_soon_as_may_be() -> None:
    found, is_clear = evaluate(np.array([[20.0, 10.0]] * 4))
    assert (found.answer, is_clear) == ("faster", True)
    assert found.ratio == pytest.approx(2.0)
    assert evaluate(np.array([[10.0, 20.0]] * 4))[0].answer == "slower"
    assert not evaluate(np.array([[10.0, 10.0]] * 4))[1]
    assert evaluate(np.array([[10.0, 10.0]] * 8))[1]


@pytest.mark.parametrize(
    ("found", "answer", "clear"),
    [
        (Estimate(1.68, 1.61, 1.74), "faster", True),
        (Estimate(1.6, 1.2, 2.1), "faster", False),
        (Estimate(0.8, 0.79, 0.81), "slower", True),
        (Estimate(1.0, 0.98, 1.02), "same", True),
        (Estimate(1.001, 1.0005, 1.0015), "same", True),
        (Estimate(1.02, 1.01, 1.03), "same", True),
        (Estimate(1.025, 1.01, 1.04), "faster", True),
        (Estimate(1.0, 0.9, 1.1), "unclear", False),
    ],
)
def test_what_an_interval_proves(found: Estimate, answer: str, clear: bool) -> None:
    assert (found.answer, found.is_clear) == (answer, clear)


def test_stalls_flagged_steps_and_ends_of_epochs_do_not_count() -> None:
    rows = make_steps(np.full(24, 10.0), compute=2.0, host=1.0)
    rows["flags"][3] = Flag.EPOCH_START
    rows["wait_ms"][[3, 17]] = 4000.0
    first, second = counted_steps([rows[:12], rows[12:]])
    assert (len(first), len(second)) == (10, 11)
    assert np.concatenate([first, second]) == pytest.approx(13.0)
    assert counted_steps([]) == []

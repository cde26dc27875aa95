"""The cost of data wait."""

from __future__ import annotations

import numpy as np
import pytest

from tests.judge.samples import make_samples
from tests.judge.step_rows import make_steps, plain
from tfwatch.core.rows import Flag
from tfwatch.judge.starving_cost import (
    GAP_S,
    Energy,
    cost_of_data_wait,
    cost_text,
    energy,
    energy_curve,
)
from tfwatch.judge.steps.time_breakdown import TimeSpent

STEPS = TimeSpent(steps=1000, compute_s=50.0, host_s=10.0, data_wait_s=30.0, validation_s=10.0)


def test_time_examples_and_energy() -> None:
    found = cost_of_data_wait(
        STEPS, 100.0, 32_000, Energy(joules=9000.0, known_s=100.0, starving_j=1200.0)
    )
    assert (found.share, found.without_s, found.energy_j) == (0.3, 70.0, 1200.0)
    assert found.examples == pytest.approx(16_000)
    assert (
        cost_text(found)
        == "without data wait: 1:10 at best, or 16 000 more examples in the same time"
    )


def test_what_is_not_known_is_left_out() -> None:
    found = cost_of_data_wait(STEPS, 100.0, None, None)
    assert (found.examples, found.energy_j) == (None, None)
    assert cost_text(found) == "without data wait: 1:10 at best"
    assert cost_of_data_wait(TimeSpent(data_wait_s=3.0), 3.0, 32, None).examples is None


def test_a_run_with_little_data_wait_has_no_sentence() -> None:
    assert (
        cost_text(cost_of_data_wait(TimeSpent(compute_s=99.8, data_wait_s=0.2), 100.0, 32, None))
        == ""
    )
    assert cost_of_data_wait(TimeSpent(), 0.0, None, None).share == 0.0


NAN = float("nan")


def test_between_two_samples_power_is_the_mean_of_both() -> None:
    curve = energy_curve(np.array([0.0, 1.0, 2.0]), np.array([10.0, 20.0, 20.0]))

    assert curve is not None
    assert curve.joules.tolist() == [0.0, 15.0, 35.0]
    assert curve.between(np.array([0.5]), np.array([1.5]))[0] == pytest.approx(7.5 + 10.0)


def test_energy_in_a_gap_and_beyond_the_ends_is_unknown() -> None:
    curve = energy_curve(np.array([0.0, 1.0, 2.0 + GAP_S, 3.0 + GAP_S]), np.array([10.0] * 4))

    assert curve is not None
    assert (curve.joules[-1], curve.known_s[-1]) == (20.0, 2.0)
    joules, known_s = curve.between(np.array([-5.0]), np.array([0.5]))
    assert (joules.tolist(), known_s.tolist()) == ([5.0], [0.5])


@pytest.mark.parametrize(
    "power_w", [[NAN, NAN, NAN], [10.0, NAN, NAN], []], ids=["none", "a single one", "no sample"]
)
def test_without_power_there_is_no_energy(power_w: list[float]) -> None:
    samples = make_samples(np.arange(len(power_w)) * 0.5, gpu_power_w=np.array(power_w))

    assert energy(samples, plain(50), accelerated=True) is None


def test_joules_per_step_and_while_starving() -> None:
    """100 steps of 1 s that wait for 0.4 s of it, at 30 W."""
    steps = make_steps(np.full(100, 400.0), compute=600.0, host=0.0)
    samples = make_samples(np.arange(0, 100.5, 0.5), gpu_power_w=30.0)

    found = energy(samples, steps, accelerated=True)

    assert found is not None
    assert found.joules == pytest.approx(3000)
    assert found.known_s == pytest.approx(100)
    assert found.steps == 100
    assert found.per_step_j == pytest.approx(30)
    assert found.starving_j == pytest.approx(1200)


def test_a_long_wait_is_charged_with_its_own_energy() -> None:
    """A stall of 20 s at 5 W, then compute at 40 W: samples are finer than the step."""
    at_s = np.arange(0, 30.5, 0.5)
    samples = make_samples(at_s, gpu_power_w=np.where(at_s < 20, 5.0, 40.0))

    found = energy(samples, make_steps(20_000.0, compute=10_000.0, host=0.0), accelerated=True)

    assert found is not None
    assert found.starving_j == pytest.approx(20 * 5, rel=0.1)
    assert found.joules == pytest.approx(20 * 5 + 10 * 40, rel=0.02)


def test_what_trains_on_the_cpu_is_charged_with_its_power() -> None:
    samples = make_samples(np.arange(0, 5, 0.5), gpu_power_w=300.0, cpu_power_w=10.0)
    steps = plain(100)

    for accelerated, watts in ((True, 300), (False, 10)):
        found = energy(samples, steps, accelerated)
        assert found is not None
        assert found.joules == pytest.approx(4.5 * watts)


def test_steps_whose_power_is_not_known_are_not_in_the_mean() -> None:
    """Power was read from second 1 on; the 50 steps of 20 ms before it have none."""
    samples = make_samples(np.arange(0, 2.5, 0.5), gpu_power_w=np.array([NAN, NAN, 50, 50, 50]))

    found = energy(samples, plain(100), accelerated=True)

    assert found is not None
    assert found.steps == pytest.approx(50, abs=1)
    assert found.per_step_j == pytest.approx(50 * 0.02, rel=0.02)


def test_a_step_that_compiles_is_in_the_sum_and_not_in_the_mean() -> None:
    steps = make_steps(np.zeros(100), compute=np.repeat([10_000.0, 100.0], [1, 99]), host=0.0)
    steps["flags"][0] = Flag.COMPILE
    found = energy(make_samples(np.arange(0, 20.5, 0.5), gpu_power_w=50.0), steps, accelerated=True)

    assert found is not None
    assert found.steps == 99
    assert found.per_step_j == pytest.approx(5.0, rel=0.01)
    assert found.joules == pytest.approx(1000)

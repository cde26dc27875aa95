"""The cost of data wait."""

from __future__ import annotations

import pytest

from tfwatch.judge.findings.starving_cost import Energy, cost_of_data_wait, cost_text
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

"""Known delays in each part of a step are measured as such."""

from pathlib import Path

import pytest


@pytest.mark.tensorflow
def test_a_known_delay_is_measured(tmp_path: Path) -> None:
    from tests.bench.injected import InjectedTrainings, Schedule

    trainings = InjectedTrainings(tmp_path, seed=1)
    run, (*parts, whole) = trainings.train(Schedule((0, 20), (0, 2), (0, 5), steps=60))

    assert run.steps["step"].tolist() == list(range(1, 61))
    assert [case.name for case in parts] == [
        "fit, wait, 20 ms",
        "fit, compute, 2 ms",
        "fit, host, 5 ms",
    ]
    assert all(case.injected >= slept for case, slept in zip(parts, (20, 2, 5), strict=True))
    assert all(case.measured > 0 for case in parts)
    # A part that is missing makes 20 and more; another program that takes the core between two
    # callbacks made 0.4.
    assert abs(whole.measured - 100) < 5

"""The trainings of the selftest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tfwatch.checks.selftest import FIT, LOOP, Schedule

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.checks.injected_trainings import InjectedTrainings


@pytest.fixture
def trainings(tmp_path: Path) -> InjectedTrainings:
    from tfwatch.checks.injected_trainings import InjectedTrainings

    return InjectedTrainings(tmp_path, seed=1)


@pytest.mark.tensorflow
def test_a_known_delay_is_measured(trainings: InjectedTrainings) -> None:
    run = trainings.train(Schedule((0, 20), (0, 2), (0, 5), steps=60, switches=((40, "2"),)))

    assert len(run.run.steps) == 60
    *parts, whole = run.cases
    assert [case.name for case in parts] == [
        "wait, fit, 20 ms",
        "compute, fit, 2 ms",
        "host, fit, 5 ms",
    ]
    assert all(case.injected >= slept for case, slept in zip(parts, (20, 2, 5), strict=True))
    assert all(case.measured > 0 for case in parts)
    # A part that is missing makes 20 and more; another program that takes the core between two
    # callbacks made 0.4.
    assert abs(whole.measured - 100) < 5


@pytest.mark.tensorflow
@pytest.mark.parametrize("kind", [FIT, LOOP])
def test_every_kind_trains_as_many_steps_as_it_is_asked(
    trainings: InjectedTrainings, kind: str
) -> None:
    for _ in range(2):  # trainings in a row share no run
        run = trainings.train(Schedule((0.0, 1.0), kind=kind, steps=24))

        assert run.run.steps["step"].tolist() == list(range(1, 25))

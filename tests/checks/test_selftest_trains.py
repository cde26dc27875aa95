"""The trainings of the selftest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.judge.step_rows import make_steps
from tfwatch.checks.selftest_cases import AHEAD, LOOP, ON_DEMAND, PartComparison, Schedule
from tfwatch.runs.library import list_runs
from tfwatch.runs.run import open_run

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
    assert {found.part for found in run.comparisons} == {"wait", "compute", "host"}
    assert all(found.injected_ms >= found.slept_ms for found in run.comparisons)
    assert all(found.measured_ms > 0 for found in run.comparisons)
    # A part that is missing makes 0.2 and more; another program that takes the core between two
    # callbacks made 0.004.
    assert run.wall_error < 0.05


@pytest.mark.tensorflow
@pytest.mark.parametrize("kind", [ON_DEMAND, AHEAD, LOOP])
def test_every_kind_trains_as_many_steps_as_it_is_asked(
    trainings: InjectedTrainings, kind: str
) -> None:
    for _ in range(2):  # trainings in a row share no run
        run = trainings.train(Schedule((0.0, 1.0), kind=kind, steps=24))

        assert run.run.steps["step"].tolist() == list(range(1, 25))


@pytest.mark.tensorflow
def test_what_watch_costs_is_found(tmp_path: Path) -> None:
    from tfwatch.checks.injected_trainings import rounds_ms

    rows = rounds_ms(tmp_path, rounds=2, steps=5)

    assert min(min(row.values()) for row in rows) > 0
    assert all(
        open_run(run).ended for run in list_runs(tmp_path)
    )  # none writes on into a folder that goes


@pytest.mark.tensorflow
@pytest.mark.parametrize("error_ms", [-1.0, 0.0, 1.0])
def test_a_wait_that_is_wrong_is_an_error(error_ms: float) -> None:
    found = batches_ahead(40, error_ms)

    assert found.measured_ms - found.injected_ms == pytest.approx(error_ms, abs=0.01)


def batches_ahead(count: int, error_ms: float) -> PartComparison:
    """Compare steps of which every other waits for a batch that is there 10 ms after the step
    before.

    A fetch takes 0.1 ms of its own.
    """
    from tfwatch.checks.injected_trainings import Sleeps, compare_parts

    planned = np.tile([10.0, 0.0], count // 2)
    end_ns = 1 + np.arange(count) * 30_000_000
    sleeps = Sleeps(planned)
    sleeps.drawn_ms = planned.tolist()
    sleeps.end_ns = (np.concatenate([[0], end_ns[:-1]]) + planned * 1e6).astype(np.int64).tolist()
    sleeps.begin_ns = [end - int(ms * 1e6) for end, ms in zip(sleeps.end_ns, planned, strict=True)]
    rows = make_steps(np.where(planned > 0, planned + error_ms, 0.0) + 0.1)
    schedule = Schedule((0.0, 10.0), kind=AHEAD)
    (found,) = compare_parts(rows, schedule, {"wait": sleeps, "compute": sleeps}, end_ns)
    return found

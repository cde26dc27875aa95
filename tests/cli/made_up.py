"""Trainings for the selftest that are made up."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tests.runs.folders import add_steps, make_writer, read_back
from tfwatch.checks.injected_schedule import PartComparison, Schedule, TrainingResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.checks.injected_trainings import Trainings
    from tfwatch.checks.selftest_cases import Experiment
    from tfwatch.core.events import Event
    from tfwatch.core.rows import Rows
    from tfwatch.runs.snapshot import Snapshot


def run_of(rows: Rows, *events: Event) -> Snapshot:
    writer = make_writer(None)
    add_steps(writer, rows)
    for event in events:
        writer.event(event)
    return read_back(writer)


class Made:
    """Trainings that come out as they are made up, one after another."""

    def __init__(self, *trained: Callable[[Schedule], TrainingResult] | TrainingResult) -> None:
        self.asked: list[Schedule] = []
        self._trained = list(trained)

    def train(self, schedule: Schedule) -> TrainingResult:
        self.asked.append(schedule)
        made = self._trained.pop(0) if len(self._trained) > 1 else self._trained[0]
        return made if isinstance(made, TrainingResult) else made(schedule)

    def copy(self, kind: str, megabytes: int) -> str:
        return "no GPU"


def outcome(
    experiment: Experiment, *trained: Callable[[Schedule], TrainingResult] | TrainingResult
) -> dict[str, bool]:
    """Return by group and name if each case passes."""
    found = experiment(cast("Trainings", Made(*trained)))
    return {f"{case.group}: {case.case}": case.passed for case in found}


def trained(
    rows: Rows,
    *events: Event,
    comparisons: tuple[PartComparison, ...] = (),
    wall_error: float = 0.0,
) -> TrainingResult:
    return TrainingResult(list(comparisons), wall_error, run_of(rows, *events))

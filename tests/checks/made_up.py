"""Trainings for the selftest that are made up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.runs.folders import add_steps, make_writer, read_back
from tfwatch.checks.selftest_cases import PartComparison, Schedule, TrainingResult

if TYPE_CHECKING:
    from tfwatch.checks.selftest_cases import Experiment
    from tfwatch.core.events import Event
    from tfwatch.core.rows import Rows


def trained(
    rows: Rows, *events: Event, comparison: PartComparison | None = None, wall_error: float = 0.0
) -> TrainingResult:
    writer = make_writer(None)
    add_steps(writer, rows)
    for event in events:
        writer.event(event)
    return TrainingResult([comparison] if comparison else [], wall_error, read_back(writer))


class _Made:
    """Trainings that come out as they are made up."""

    def __init__(self, result: TrainingResult, copy: tuple[float, float] | str) -> None:
        self._result = result
        self._copy = copy

    def train(self, _: Schedule) -> TrainingResult:
        return self._result

    def copy(self, _kind: str, _megabytes: int) -> tuple[float, float] | str:
        return self._copy


def outcome(
    experiment: Experiment, result: TrainingResult, copy: tuple[float, float] | str = "no GPU"
) -> dict[str, bool]:
    """Return by its name if each case passes."""
    return {case.name: case.passed for case in experiment(_Made(result, copy))}

"""All steps of a group for its chart, read in a thread: 64 ranks of a million steps take 15 s of CPU."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.errors import fails_open

if TYPE_CHECKING:
    from tfwatch.analysis.groups.step_sums import GroupSteps
    from tfwatch.live.groups.history import GroupHistory


class HistoryReader:
    """Reads a group's steps, and those that follow. steps: up to the last time that all were read; None before that."""

    def __init__(self, history: GroupHistory) -> None:
        self._history = history
        self._is_reading = False
        self._read_to = 0
        self._failed = ""
        self.steps: GroupSteps | None = None

    def begin(self) -> None:
        """Read the new steps in a thread, unless the last read still runs."""
        if not self._is_reading:
            self._is_reading = True
            threading.Thread(target=self._run, name="tfwatch-group-steps", daemon=True).start()

    def note(self, last_step: int) -> str:
        """Return why the steps are not there yet, of a group that has come to a step; empty where they are."""
        if self.steps is not None or self._failed:
            return self._failed
        return f"reading all steps, {units.percent(self._read_to / last_step)}" if last_step else ""

    def _run(self) -> None:
        failures: list[str] = []
        with fails_open(failures.append):
            for last in self._history.read():
                self._read_to = last
            self.steps = self._history.steps
        self._failed = f"all steps: n/a, {failures[0]}" if failures else ""
        self._is_reading = False

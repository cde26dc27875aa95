"""Runs built second by second, with the events of `fit`."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tfwatch.core.events import EpochEnded, EpochStarted, Event, RunEnded, ValidationEnded
from tfwatch.core.rows import STEP, Flag, Phase, Rows
from tfwatch.judge.steps.time_breakdown import TimeBreakdown, make_time_breakdown
from tfwatch.runs.sums import EpochSums

STEPS = 100
#: Data wait, compute and host of a step, ms.
WAIT, COMPUTE, HOST = 2.0, 17.0, 1.0


class RunBuilder:
    """Builds the rows and events of a run, second by second."""

    metrics: ClassVar[dict[str, float]] = {"loss": 1.0}

    def __init__(self, copy_ms: float = np.nan) -> None:
        self.at_s = 0.0
        self.copy_ms = copy_ms
        self.rows: list[tuple[float, ...]] = []
        self.events: list[Event] = []

    def started(self) -> RunBuilder:
        self.at_s = 10.0
        return self

    def begin(self, epoch: int, first_wait: float = WAIT, compile_ms: float = 0.0) -> RunBuilder:
        self.events.append(EpochStarted(self._ns(), epoch, 3, STEPS))
        self.at_s += 0.5
        flags = Flag.EPOCH_START | (Flag.COMPILE if compile_ms else 0)
        return self.step(epoch, first_wait, COMPUTE + compile_ms, flags=int(flags))

    def step(
        self, epoch: int, wait: float = WAIT, compute: float = COMPUTE, flags: int = 0
    ) -> RunBuilder:
        self.rows.append(
            (self._ns(), len(self.rows) + 1, epoch, flags, wait, 1.0, compute, HOST, self.copy_ms)
        )
        self.at_s += (wait + compute + HOST) / 1e3
        return self

    def end(self, epoch: int, validation_s: float = 0.0, callbacks_s: float = 0.0) -> RunBuilder:
        for _ in range(STEPS - 1):
            self.step(epoch)
        self.at_s += validation_s
        self.events.append(ValidationEnded(self._ns(), epoch, validation_s * 1e3))
        self.events.append(EpochEnded(self._ns(), epoch, len(self.rows), self.metrics))
        self.at_s += callbacks_s
        return self

    def _ns(self) -> int:
        return round(self.at_s * 1e9)

    def sums(self) -> Rows:
        sums = EpochSums()
        sums.add(np.array(self.rows, dtype=STEP))
        return sums.rows

    def time_breakdown(self, doing: Phase | None = None) -> TimeBreakdown:
        return make_time_breakdown(self.sums(), self.events, self.at_s, doing)


def whole_run(copy_ms: float = np.nan) -> RunBuilder:
    """Three epochs: 4 s of compile, a shuffle buffer that fills for 3 s each, validation, a
    checkpoint."""
    built = RunBuilder(copy_ms).started()
    for epoch in range(3):
        built.begin(epoch, 3000.0, compile_ms=0.0 if epoch else 4000.0).end(
            epoch, validation_s=2.0, callbacks_s=1.0
        )
    built.events.append(RunEnded(round(built.at_s * 1e9), "finished", 300))
    return built

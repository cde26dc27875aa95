"""The learning curves of a run: its loss and its metrics over its steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tfwatch.core.events import EpochEnded

if TYPE_CHECKING:
    from tfwatch.core.rows import Rows
    from tfwatch.runs.snapshot import Snapshot

Floats = NDArray[np.float64]

#: With fewer epochs the curve is that of the progress, twice a second.
_LEAST_EPOCHS = 4
#: The most points of the loss between them.
_POINTS = 2048
_VALIDATION = "val_"


@dataclass(frozen=True, eq=False)
class MetricCurve:
    """Values over steps, both of n points."""

    steps: Floats
    values: Floats

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def last(self) -> float | None:
        """The newest value; None without one, and where it is not finite."""
        return float(self.values[-1]) if len(self) and math.isfinite(self.values[-1]) else None


@dataclass(frozen=True, eq=False)
class MetricChart:
    """One figure of the training over its steps."""

    name: str
    training: MetricCurve
    validation: MetricCurve


NO_CURVE = MetricCurve(np.empty(0), np.empty(0))


class LearningCurves:
    """Collects the figures of the epochs while the run goes on."""

    def __init__(self) -> None:
        self._steps: list[int] = []
        self._values: dict[str, list[float]] = {}
        self._since_ns = 0

    def take(self, snapshot: Snapshot) -> tuple[MetricChart, ...]:
        """Return the charts: the loss and each metric. Every call passes the same run."""
        for event in snapshot.events.between(EpochEnded, self._since_ns, 2**63):
            self._add(event)
        return tuple(self._of_epochs(snapshot))

    def _add(self, event: EpochEnded) -> None:
        self._since_ns = event.at_ns + 1
        for name, value in event.metrics.items():
            self._values.setdefault(name, [math.nan] * len(self._steps)).append(value)
        self._steps.append(event.step)
        for values in self._values.values():
            values += [math.nan] * (len(self._steps) - len(values))

    def _of_epochs(self, snapshot: Snapshot) -> list[MetricChart]:
        names = [name for name in self._values if not name.startswith(_VALIDATION)]
        metrics = list(dict.fromkeys(["loss", *names]))
        return [chart for name in metrics if (chart := self._chart(name, snapshot)) is not None]

    def _chart(self, name: str, snapshot: Snapshot) -> MetricChart | None:
        training, validation = self._curve(name), self._curve(_VALIDATION + name)
        if name == "loss" and len(training) < _LEAST_EPOCHS:
            training = _reported_loss(snapshot) or training
        if not len(training) and not len(validation):
            return None
        return MetricChart(name, training, validation)

    def _curve(self, name: str) -> MetricCurve:
        values = np.array(self._values.get(name, ()), dtype=np.float64)
        known = np.isfinite(values)
        return MetricCurve(
            np.array(self._steps[: len(values)], dtype=np.float64)[known], values[known]
        )


def _reported_loss(snapshot: Snapshot) -> MetricCurve:
    """Return the curve of the loss while the steps ran."""
    every = len(snapshot.progress) // _POINTS + 1
    rows: Rows = snapshot.progress[::every]
    known = np.isfinite(rows["loss"])
    return MetricCurve(
        rows["step"][known].astype(np.float64), rows["loss"][known].astype(np.float64)
    )

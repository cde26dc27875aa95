"""A long run as a whole: its learning curves, and the steps of its epochs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from tfwatch.core import units
from tfwatch.core.events import EpochEnded
from tfwatch.runs.sums import BUCKET_S

if TYPE_CHECKING:
    from tfwatch.core.rows import Rows
    from tfwatch.runs.snapshot import Snapshot

Floats = NDArray[np.float64]

STEP_TIME = "step time"
#: With fewer epochs the curve is that of the progress, twice a second.
_LEAST_EPOCHS = 4
#: The most points of the loss between them.
_POINTS = 2048
#: Between so many columns and twice as many, the step time is drawn: a column's width is a power of
#: two.
_COLUMNS = 128
#: Parts of a metric's name that say which way it gets better; Keras' own `mode="auto"` has fewer.
_HIGHER = ("acc", "auc", "precision", "recall", "f1", "fbeta", "iou", "dice", "r2", "bleu")
_LOWER = (
    "loss",
    "error",
    "mse",
    "mae",
    "rmse",
    "msle",
    "mape",
    "perplexity",
    "divergence",
    "entropy",
)
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


@dataclass(frozen=True, slots=True)
class BestValue:
    """The best value so far, the step it was reached at, and its epoch, counted from 0."""

    value: float
    step: float
    epoch: int


@dataclass(frozen=True, eq=False)
class MetricChart:
    """One figure of the training over its steps. best: None where it is unknown which way it gets
    better."""

    name: str
    training: MetricCurve
    validation: MetricCurve
    best: BestValue | None = None


NO_CURVE = MetricCurve(np.empty(0), np.empty(0))


class LearningCurves:
    """Collects the figures of the epochs while the run goes on."""

    def __init__(self) -> None:
        self._steps: list[int] = []
        self._epochs: list[int] = []
        self._values: dict[str, list[float]] = {}
        self._since_ns = 0

    def take(self, snapshot: Snapshot) -> tuple[MetricChart, ...]:
        """Return the charts: the loss, each metric, the step time. Every call passes the same
        run."""
        for event in snapshot.events.between(EpochEnded, self._since_ns, 2**63):
            self._add(event)
        return (*self._of_epochs(snapshot), step_time(snapshot))

    def _add(self, event: EpochEnded) -> None:
        self._since_ns = event.at_ns + 1
        for name, value in event.metrics.items():
            self._values.setdefault(name, [math.nan] * len(self._steps)).append(value)
        self._steps.append(event.step)
        self._epochs.append(event.epoch)
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
        return MetricChart(name, training, validation, self._best(name))

    def _curve(self, name: str) -> MetricCurve:
        values = np.array(self._values.get(name, ()), dtype=np.float64)
        known = np.isfinite(values)
        return MetricCurve(
            np.array(self._steps[: len(values)], dtype=np.float64)[known], values[known]
        )

    def _best(self, name: str) -> BestValue | None:
        better = better_way(name)
        values = np.array(
            self._values.get(_VALIDATION + name, self._values.get(name, ())), dtype=np.float64
        )
        if better is None or not np.isfinite(values).any():
            return None
        at = int(
            np.nanargmax(values)
            if better == "higher"
            else np.nanargmin(np.where(np.isinf(values), np.nan, values))
        )
        return BestValue(float(values[at]), self._steps[at], self._epochs[at])


def better_way(name: str) -> Literal["higher", "lower"] | None:
    """Return which way a metric gets better; None where its name does not say."""
    name = name.lower()
    if any(part in name for part in _LOWER):
        return "lower"
    return "higher" if any(part in name for part in _HIGHER) else None


def _reported_loss(snapshot: Snapshot) -> MetricCurve:
    """Return the curve of the loss while the steps ran."""
    every = len(snapshot.progress) // _POINTS + 1
    rows: Rows = snapshot.progress[::every]
    known = np.isfinite(rows["loss"])
    return MetricCurve(
        rows["step"][known].astype(np.float64), rows["loss"][known].astype(np.float64)
    )


def step_time(snapshot: Snapshot) -> MetricChart:
    """Return the mean step time over the run's steps, milliseconds."""
    width_s = BUCKET_S
    while width_s * _COLUMNS * 2 < snapshot.now_s:
        width_s *= 2
    columns = snapshot.time_sums.columns(snapshot.now_s, width_s, int(snapshot.now_s / width_s) + 1)
    steps = np.cumsum(columns.steps) - columns.steps / 2
    ran = columns.steps > 0
    values = columns.wait_ms + columns.compute_ms + columns.host_ms
    return MetricChart(STEP_TIME, MetricCurve(steps[ran].astype(np.float64), values[ran]), NO_CURVE)


#: Rows of steps hold the lower bits of an epoch's number.
_NUMBER = 0xFFFF


@dataclass(frozen=True, slots=True)
class EpochSteps:
    """The steps of an epoch."""

    #: Their mean, milliseconds.
    step_ms: float
    #: Data wait as a share of step time, 0 to 1.
    wait_share: float

    @property
    def text(self) -> str:
        """`23.4 ms/step, data wait 41 %`."""
        return f"{self.step_ms:.1f} ms/step, data wait {units.percent(self.wait_share)}"


def epoch_steps(rows: Rows, ended: EpochEnded) -> EpochSteps | None:
    """Return the steps of an epoch that ended; None without any. rows: of `core.rows.EPOCH`."""
    at = int(np.searchsorted(rows["first_ns"], ended.at_ns, side="right")) - 1
    if at < 0 or int(rows["epoch"][at]) != ended.epoch & _NUMBER:
        return None
    row = rows[at]
    # Compute stands there without the copies.
    total_ms = sum(float(row[name]) for name in ("wait_ms", "compute_ms", "copy_ms", "host_ms"))
    share = float(row["wait_ms"]) / total_ms if total_ms > 0 else 0.0
    return EpochSteps(total_ms / int(row["steps"]), share)

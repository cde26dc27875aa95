"""A long run as a whole: its learning curves, its epochs, and the machine's figures over time."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Literal, overload

import numpy as np
from numpy.typing import NDArray

from tfwatch.core.events import (
    EpochEnded,
    GpuFound,
    PipelineSwitched,
    SensorMissing,
    ValidationEnded,
    without_experiments,
)
from tfwatch.judge.findings.machine import gpu_status
from tfwatch.runs.reading.sums import BUCKET_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfwatch.core.rows import Rows
    from tfwatch.judge.steps.stalls import Stall
    from tfwatch.runs.reading.buffers import Events
    from tfwatch.runs.reading.reader import Snapshot

Floats = NDArray[np.float64]

STEP_TIME = "step time"
#: With fewer epochs the curve is that of the progress, twice a second.
_LEAST_EPOCHS = 4
#: Between so many columns and twice as many, the step time is drawn: a column's width is a power of two.
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
    """One figure of the training over its steps. best: None where it is unknown which way it gets better."""

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
        """Return the charts: the loss, each metric, the step time. Every call passes the same run."""
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
        metric = snapshot.manifest.metric
        metrics = list(dict.fromkeys(["loss", *names, *([metric] if metric else [])]))
        return [chart for name in metrics if (chart := self._chart(name, snapshot)) is not None]

    def _chart(self, name: str, snapshot: Snapshot) -> MetricChart | None:
        training, validation = self._curve(name), self._curve(_VALIDATION + name)
        if len(training) < _LEAST_EPOCHS:
            training = _of_progress(name, snapshot) or training
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


def _of_progress(name: str, snapshot: Snapshot) -> MetricCurve | None:
    """Return the curve of the reported progress; None where it does not hold this figure."""
    column = "loss" if name == "loss" else "metric" if name == snapshot.manifest.metric else None
    if column is None:
        return None
    rows: Rows = snapshot.progress_thinned
    known = np.isfinite(rows[column])
    return MetricCurve(
        rows["step"][known].astype(np.float64), rows[column][known].astype(np.float64)
    )


def step_time(snapshot: Snapshot) -> MetricChart:
    """Return the mean step time over the run's steps, milliseconds."""
    width_s = BUCKET_S
    while width_s * _COLUMNS * 2 < snapshot.now_s:
        width_s *= 2
    columns = snapshot.pyramid.columns(snapshot.now_s, width_s, int(snapshot.now_s / width_s) + 1)
    steps = np.cumsum(columns.steps) - columns.steps / 2
    ran = columns.steps > 0
    values = columns.wait_ms + columns.compute_ms + columns.host_ms
    return MetricChart(STEP_TIME, MetricCurve(steps[ran].astype(np.float64), values[ran]), NO_CURVE)


_LAST_NS = 2**63
#: Rows of steps hold the lower bits of an epoch's number.
_NUMBER = 0xFFFF


@dataclass(frozen=True, slots=True)
class EpochFigures:
    """One epoch, counted from 0, of `steps` steps so far.

    step_ms: its mean step. wait_share: its data wait as a share of step time, 0 to 1. metrics: empty before its end.
    validation_ms: None without a validation.
    """

    epoch: int
    begin_ns: int
    steps: int
    step_ms: float
    wait_share: float
    metrics: Mapping[str, float]
    switches: tuple[PipelineSwitched, ...] = ()
    stalls: tuple[Stall, ...] = ()
    traced: int = 0
    validation_ms: float | None = None


class EpochTable(Sequence[EpochFigures]):
    """The epochs of a run, oldest first. rows: of `core.rows.EPOCH`. stalls: oldest first."""

    def __init__(self, rows: Rows, events: Events, stalls: Sequence[Stall]) -> None:
        self._rows = rows
        self._events = events
        self._stalls = stalls

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> EpochFigures: ...
    @overload
    def __getitem__(self, at: slice) -> list[EpochFigures]: ...
    def __getitem__(self, at: int | slice) -> EpochFigures | list[EpochFigures]:
        place = range(len(self._rows))[at]
        return (
            self._figures(place)
            if isinstance(place, int)
            else [self._figures(each) for each in place]
        )

    def _figures(self, at: int) -> EpochFigures:
        row = self._rows[at]
        begin_ns = int(row["first_ns"])
        end_ns = int(self._rows["first_ns"][at + 1]) if at + 1 < len(self._rows) else _LAST_NS
        number = int(row["epoch"])
        ended = [
            one
            for one in self._events.between(EpochEnded, begin_ns, end_ns)
            if one.epoch & _NUMBER == number
        ]
        validated = self._events.between(ValidationEnded, begin_ns, end_ns)
        total_ms = _total_ms(row)
        return EpochFigures(
            epoch=ended[-1].epoch if ended else number,
            begin_ns=begin_ns,
            steps=int(row["steps"]),
            step_ms=total_ms / int(row["steps"]),
            wait_share=float(row["wait_ms"]) / total_ms if total_ms > 0 else 0.0,
            metrics=ended[-1].metrics if ended else {},
            switches=tuple(
                without_experiments(self._events.between(PipelineSwitched, begin_ns, end_ns))
            ),
            stalls=tuple(self._stalls_between(begin_ns, end_ns)),
            traced=int(row["traced"]),
            validation_ms=sum(one.took_ms for one in validated) if validated else None,
        )

    def _stalls_between(self, begin_ns: int, end_ns: int) -> Sequence[Stall]:
        first, end = (
            bisect_left(self._stalls, at_ns, key=attrgetter("start_ns"))
            for at_ns in (begin_ns, end_ns)
        )
        return self._stalls[first:end]


def _total_ms(row: np.void) -> float:
    """Return the time of an epoch's steps; compute stands there without the copies."""
    return sum(float(row[name]) for name in ("wait_ms", "compute_ms", "copy_ms", "host_ms"))


#: The most samples to average: a long run uses every n-th.
_SAMPLES = 4000


@dataclass(frozen=True, eq=False)
class SensorLane:
    """One figure of the machine over n columns of the run; NaN without samples. most: its largest value.

    limit: the most that the machine has; None where it has none, or it is unknown.
    """

    column: str
    means: Floats
    first: float
    last: float
    most: float
    limit: float | None = None


def sensor_lanes(snapshot: Snapshot, names: tuple[str, ...], columns: int) -> list[SensorLane]:
    """Return a lane for each named column of `core.rows.SAMPLE` that has figures; the whole run fills the columns."""
    samples = snapshot.samples
    seen = samples[:: max(1, -(-len(samples) // _SAMPLES))]
    width_ns = max(snapshot.now_s, 1e-9) * 1e9 / columns
    at = np.minimum(seen["at_ns"] / width_ns, columns - 1).astype(np.int64)
    limits = _limits(snapshot)
    lanes = (_lane(name, seen[name].astype(np.float64), at, columns) for name in names)
    return [replace(lane, limit=limits.get(lane.column)) for lane in lanes if lane]


def _limits(snapshot: Snapshot) -> dict[str, float | None]:
    gpu = gpu_status(snapshot.events.of(GpuFound, SensorMissing))
    gpu_bytes = gpu.memory_bytes if isinstance(gpu, GpuFound) and not gpu.unified else None
    return {
        "gpu_busy": 1.0,
        "gpu_memory_bytes": gpu_bytes,
        "cpu_cores": snapshot.manifest.machine.get("cores"),
    }


def _lane(name: str, values: Floats, at: NDArray[np.int64], columns: int) -> SensorLane | None:
    known = np.isfinite(values)
    if not known.any():
        return None
    values, at = values[known], at[known]
    counts = np.bincount(at, minlength=columns)
    sums = np.bincount(at, weights=values, minlength=columns)
    means = np.divide(sums, counts, out=np.full(columns, np.nan), where=counts > 0)
    return SensorLane(name, _held(means), float(values[0]), float(values[-1]), float(values.max()))


def _held(means: Floats) -> Floats:
    """Return the means with gaps of columns narrower than a sample filled from the left."""
    known = np.flatnonzero(np.isfinite(means))
    inside = np.arange(known[0], known[-1] + 1)
    filled = means.copy()
    filled[inside] = means[known[np.searchsorted(known, inside, side="right") - 1]]
    return filled

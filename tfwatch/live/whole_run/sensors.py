"""The machine's figures over the whole run, in columns of time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tfwatch.analysis.findings.hardware.machine import gpu_status
from tfwatch.core.events import GpuFound, SensorMissing

if TYPE_CHECKING:
    from tfwatch.runs.reader import Snapshot

Floats = NDArray[np.float64]

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
    return {"gpu_busy": 1.0, "gpu_memory_bytes": gpu_bytes, "cpu_cores": snapshot.manifest.machine.get("cores")}


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

"""What the samples say of the machine: the GPU, heat, memory pressure, and what else holds a training back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tfwatch.core.events import GpuFound, SensorMissing
from tfwatch.core.rows import SAMPLE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from tfwatch.analysis.evidence import Evidence
    from tfwatch.analysis.memory import Growth
    from tfwatch.core.rows import Rows

    _Of: TypeAlias = Callable[[NDArray[np.float64]], np.floating]

#: The stretch whose mean is told as now, seconds: counters of a GPU flicker from one half second to the next.
NOW_S = 5.0
#: `SensorMissing.sensor` of the GPU.
GPU = "GPU"
#: And of what reads the stages of the input pipeline.
PIPELINE = "pipeline"
_COLUMNS = tuple(name for name in SAMPLE.names or () if name != "at_ns")
#: Words of `thermal_level` and `memory_level` in `core.rows.SAMPLE`.
HEAT = ("nominal", "light", "moderate", "heavy", "critical")
PRESSURE = ("normal", "warning", "critical")


@dataclass(frozen=True, slots=True)
class GpuFigures:
    """Of a GPU over some samples; None is n/a. `busy`, `ours`: 0 to 1, of all programs and of the one that trains.

    late_ms: how old the figures are beyond their period.
    """

    busy: float | None = None
    ours: float | None = None
    power_w: float | None = None
    freq_mhz: float | None = None
    temperature_c: float | None = None
    memory_bytes: float | None = None
    late_ms: float | None = None

    @property
    def others(self) -> float | None:
        """What other programs make of it: busy less ours, 0 to 1. None where one of the two is not known."""
        return None if self.busy is None or self.ours is None else max(0.0, self.busy - self.ours)


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine over some samples; None is n/a.

    found: whose GPU figures these are.
    heat, pressure: levels of `HEAT` and `PRESSURE`. stalled: the share of time in which something waited for memory.
    swap_bytes_s: read and written. growth: of the memory in use.
    evidence: step times and the GPU's counter side by side.
    row: every column of the newest sample, or the median of each over a whole run; None is missing.
    """

    gpu: GpuFigures | None = None
    found: GpuFound | None = None
    cpu_power_w: float | None = None
    heat: int | None = None
    pressure: int | None = None
    stalled: float | None = None
    swap_bytes_s: float | None = None
    on_mains: bool | None = None
    growth: Growth | None = None
    evidence: Evidence | None = None
    row: Mapping[str, float | None] = field(default_factory=dict)


def machine_of(
    rows: Rows, events: Sequence[object], growth: Growth | None = None, *, since_s: float = 0.0, typical: bool = False
) -> Machine:
    """The machine over these rows of `core.rows.SAMPLE`: means, and the newest level of what has levels.

    since_s: what the GPU did before is of another setting. typical: medians instead, as is fit for a whole run.
    """
    of = np.median if typical else np.mean
    word = gpu_word(events)
    swapped = [_figure(rows[f"swap_{way}_bytes_s"], of) for way in ("in", "out")]
    known = [value for value in swapped if value is not None]
    mains = _newest(rows["on_mains"])
    return Machine(
        gpu=gpu_figures(rows[rows["at_ns"] >= max(since_s, 0.0) * 1e9], of),
        found=word if isinstance(word, GpuFound) else None,
        cpu_power_w=_figure(rows["cpu_power_w"], of),
        heat=_level(rows["thermal_level"], HEAT),
        pressure=_level(rows["memory_level"], PRESSURE),
        stalled=_figure(rows["memory_stalled"], of),
        swap_bytes_s=sum(known) if known else None,
        on_mains=None if mains is None else mains > 0,
        growth=growth,
        row=medians(rows if typical else rows[-1:], _COLUMNS),
    )


def gpu_word(events: Sequence[object]) -> GpuFound | SensorMissing | None:
    """The newest word on the GPU's figures: whose they are, or why there are none."""
    for event in reversed(events):
        if isinstance(event, GpuFound) or (isinstance(event, SensorMissing) and event.sensor == GPU):
            return event
    return None


def missing_sensors(events: Sequence[object]) -> list[SensorMissing]:
    """The newest word of each sensor that gives nothing; of the whole GPU none where one was found later."""
    newest: dict[str, SensorMissing] = {}
    for event in events:
        if isinstance(event, SensorMissing):
            newest.pop(event.sensor, None)
            newest[event.sensor] = event
        elif isinstance(event, GpuFound):
            newest.pop(GPU, None)
    return list(newest.values())


def gpu_figures(rows: Rows, of: _Of = np.mean) -> GpuFigures | None:
    """The GPU's columns over some samples; None where all of them are missing."""
    columns = (*("gpu_busy", "gpu_process_busy", "gpu_power_w", "gpu_freq_mhz", "gpu_temperature_c"),)
    means = [_figure(rows[name], of) for name in (*columns, "gpu_memory_bytes", "gpu_late_ms")]
    return None if all(mean is None for mean in means[:-1]) else GpuFigures(*means)


def recent(samples: Rows, now_s: float) -> Rows:
    """The samples of the last `NOW_S` seconds."""
    tail = samples[-64:]
    rows: Rows = tail[tail["at_ns"] >= max(now_s - NOW_S, 0.0) * 1e9]
    return rows


def medians(rows: Rows, columns: Sequence[str]) -> dict[str, float | None]:
    """The median of each column over the samples that hold it; None where none does."""
    return {name: _figure(rows[name], np.median) for name in columns}


def _figure(values: NDArray[np.floating], of: _Of) -> float | None:
    known = values[np.isfinite(values)].astype(np.float64)
    return float(of(known)) if len(known) else None


def _newest(values: NDArray[np.floating]) -> float | None:
    known = values[np.isfinite(values)]
    return float(known[-1]) if len(known) else None


def _level(values: NDArray[np.floating], words: Sequence[str]) -> int | None:
    newest = _newest(values)
    return None if newest is None else min(max(round(newest), 0), len(words) - 1)

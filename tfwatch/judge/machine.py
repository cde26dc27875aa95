"""The machine in figures from its samples: GPU, heat, memory pressure and memory growth; now, and
over a whole run.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tfwatch.core import units
from tfwatch.core.events import GpuFound, SensorMissing
from tfwatch.core.rows import SAMPLE, chosen, step_ms
from tfwatch.judge.gpus import GpuLane, figure, find_gpus, gpu_lanes, others_share
from tfwatch.judge.starving_cost import Energy, energy
from tfwatch.judge.steps.causes import limit_time_s
from tfwatch.judge.steps.quantiles import median

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from tfwatch.core.rows import Rows

    _Of: TypeAlias = Callable[[NDArray[np.float64]], np.floating | float]

#: A process that grew by less, in bytes or as a share, is described by one figure.
_GREW_BYTES, _GREW = 0.2 * 2**30, 0.1


@dataclass(frozen=True, slots=True)
class MemoryOverRun:
    """Bytes of the training process in the first and the last sample, and the largest."""

    begin_bytes: float
    end_bytes: float
    peak_bytes: float

    @property
    def grew(self) -> bool:
        """True where the peak lies well above the begin."""
        return self.peak_bytes - self.begin_bytes >= max(_GREW_BYTES, _GREW * self.begin_bytes)

    @property
    def text(self) -> str:
        """The figures, e.g. `8.0 GB at the start, 28.0 at the end, peak 28.5`."""
        begin, end, peak = (
            size / 2**30 for size in (self.begin_bytes, self.end_bytes, self.peak_bytes)
        )
        if not self.grew:
            return units.gigabytes(self.peak_bytes)
        return f"{begin:.1f} GB at the start, {end:.1f} at the end, peak {peak:.1f}"


def memory_over_run(samples: Rows) -> MemoryOverRun | None:
    """Return the memory over these rows of `core.rows.SAMPLE`; None where no row has the process'
    memory."""
    known = samples["process_bytes"][np.isfinite(samples["process_bytes"])]
    return (
        MemoryOverRun(float(known[0]), float(known[-1]), float(known.max())) if len(known) else None
    )


#: The window, seconds: half an hour separates a leak of 0.1 GB/h from the changes that other
#: programs cause.
WINDOW_S = 1800.0
#: A shorter time is not enough: a start fills caches and buffers.
LEAST_S = 120.0
#: The number of medians that stand for the window: Theil and Sen's slope uses every pair of them.
_POINTS = 48
#: The slope counts where memory grew by this much, bytes, ...
_LEAST_BYTES = 64 * 2**20
#: ... more pairs point up than down by this share (Kendall's tau), and the newer half of the window
#: still rises at this share of the slope: a buffer that has filled up is no leak.
_LEAST_TAU = 0.6
_STILL = 0.5


@dataclass(frozen=True, slots=True)
class Growth:
    """The growth of the memory in use. bytes_s: 0 where it is steady. left_s: until none is
    available; None: never."""

    bytes_s: float = 0.0
    left_s: float | None = None

    @property
    def bytes_h(self) -> float:
        """The growth in bytes per hour."""
        return self.bytes_s * 3600


def growth(samples: Rows) -> Growth | None:
    """Return the robust slope of the available memory at the end of `samples`; None where it is
    unknown for too long.

    Theil and Sen's estimator, the median of the slopes between all pairs of points, which single
    jumps do not move. In a container `memory_available_bytes` counts to its limit.
    """
    # At two samples a second, this is the window.
    recent = samples[-round(2 * WINDOW_S) :]
    recent = recent[np.isfinite(recent["memory_available_bytes"])]
    if not len(recent):
        return None
    recent = recent[recent["at_ns"] >= float(recent["at_ns"][-1]) - WINDOW_S * 1e9]
    at_s, available = recent["at_ns"] / 1e9, recent["memory_available_bytes"].astype(np.float64)
    if float(at_s[-1] - at_s[0]) < LEAST_S or len(at_s) < _POINTS:
        return None
    at_s, used = _thinned(at_s), -_thinned(available)
    bytes_s = _rise(at_s, used)
    if bytes_s is None:
        return Growth()
    return Growth(bytes_s, max(0.0, float(available[-1])) / bytes_s)


def _thinned(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the medians of `_POINTS` stretches of equal length, the newest rows in the last."""
    each = len(values) // _POINTS
    medians: NDArray[np.float64] = np.median(
        values[-each * _POINTS :].reshape(_POINTS, each), axis=1
    )
    return medians


def _rise(at_s: NDArray[np.float64], used: NDArray[np.float64]) -> float | None:
    """Return the slope, bytes per second; None where it is not significant, or falls."""
    slopes = _slopes(at_s, used)
    slope = float(np.median(slopes))
    half = len(at_s) // 2
    newer = float(np.median(_slopes(at_s[half:], used[half:])))
    significant = (
        slope * float(at_s[-1] - at_s[0]) >= _LEAST_BYTES
        and float(np.sign(slopes).mean()) >= _LEAST_TAU
        and newer >= _STILL * slope
    )
    return slope if significant else None


def _slopes(at_s: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the slopes between all pairs."""
    first, second = np.triu_indices(len(at_s), 1)
    apart = at_s[second] - at_s[first]
    slopes: NDArray[np.float64] = (values[second] - values[first]) / np.maximum(apart, 1e-9)
    return slopes


#: The window of current figures, seconds: counters of a GPU vary from one half second to the next.
NOW_S = 5.0
#: `SensorMissing.sensor` of the GPU.
GPU = "GPU"
#: `SensorMissing.sensor` of the reader of the input pipeline's stages.
PIPELINE = "pipeline"
_COLUMNS = tuple(name for name in SAMPLE.names or () if name != "at_ns")
#: The words of `thermal_level` and `memory_level` in `core.rows.SAMPLE`.
HEAT = ("nominal", "light", "moderate", "heavy", "critical")
PRESSURE = ("normal", "warning", "critical")


@dataclass(frozen=True, slots=True)
class GpuFigures:
    """The figures of a GPU over some samples; None is n/a."""

    #: 0 to 1, of all programs and of the training.
    busy: float | None = None
    ours: float | None = None
    power_w: float | None = None
    freq_mhz: float | None = None
    temperature_c: float | None = None
    memory_bytes: float | None = None
    #: The age of the figures beyond their period.
    late_ms: float | None = None
    #: The share of other programs, see `others_share`.
    others: float | None = None


@dataclass(frozen=True, slots=True)
class MachineFigures:
    """The machine over some samples; None is n/a."""

    gpu: GpuFigures | None = None
    #: The source of the GPU figures.
    found: GpuFound | None = None
    cpu_power_w: float | None = None
    #: Levels of `HEAT` and `PRESSURE`.
    heat: int | None = None
    pressure: int | None = None
    #: The share of time in which a process waited for memory.
    stalled: float | None = None
    #: Read and written.
    swap_bytes_s: float | None = None
    on_mains: bool | None = None
    #: Of the memory in use.
    growth: Growth | None = None
    #: Every column of the newest sample, or the median of each over a whole run; None is missing.
    row: Mapping[str, float | None] = field(default_factory=dict)
    #: Of a whole run.
    process_memory: MemoryOverRun | None = None
    #: Each of a strategy over several, over the same seconds; `gpu` is all of them, see
    #: `sensors.protocol.combine`.
    gpus: tuple[GpuLane, ...] = ()


def summarise_machine(
    rows: Rows,
    events: Sequence[object],
    growth: Growth | None = None,
    *,
    since_s: float = 0.0,
    typical: bool = False,
) -> MachineFigures:
    """Sum up these rows of `core.rows.SAMPLE`: means, and the newest level of heat and memory
    pressure.

    since_s: the start of the current setting, for the GPU. typical: medians instead of means, for a
    whole run.
    """
    of = median if typical else np.mean
    status = gpu_status(events)
    swapped = [figure(rows[f"swap_{way}_bytes_s"], of) for way in ("in", "out")]
    known = [value for value in swapped if value is not None]
    mains = _newest(rows["on_mains"])
    return MachineFigures(
        gpu=gpu_figures(rows[bisect_left(rows["at_ns"], max(since_s, 0.0) * 1e9) :], of),
        found=status if isinstance(status, GpuFound) else None,
        cpu_power_w=figure(rows["cpu_power_w"], of),
        heat=_level(rows["thermal_level"], HEAT),
        pressure=_level(rows["memory_level"], PRESSURE),
        stalled=figure(rows["memory_stalled"], of),
        swap_bytes_s=sum(known) if known else None,
        on_mains=None if mains is None else mains > 0,
        growth=growth,
        row=medians(rows if typical else rows[-1:], _COLUMNS),
    )


def gpu_status(events: Sequence[object]) -> GpuFound | SensorMissing | None:
    """Return the newest event on the GPU's figures: their source, or the reason for none."""
    for event in reversed(events):
        if isinstance(event, GpuFound) or (
            isinstance(event, SensorMissing) and event.sensor == GPU
        ):
            return event
    return None


def missing_sensors(events: Sequence[object]) -> list[SensorMissing]:
    """Return the newest event of each sensor without figures; of the GPU none where one was found
    later."""
    newest: dict[str, SensorMissing] = {}
    for event in events:
        if isinstance(event, SensorMissing):
            newest.pop(event.sensor, None)
            newest[event.sensor] = event
        elif isinstance(event, GpuFound):
            newest.pop(GPU, None)
    return list(newest.values())


def gpu_figures(rows: Rows, of: _Of = np.mean) -> GpuFigures | None:
    """Return the GPU's figures over some samples; None where all of them are missing."""
    columns = (
        *("gpu_busy", "gpu_process_busy", "gpu_power_w", "gpu_freq_mhz", "gpu_temperature_c"),
    )
    means = [figure(rows[name], of) for name in (*columns, "gpu_memory_bytes", "gpu_late_ms")]
    if all(mean is None for mean in means[:-1]):
        return None
    figures = [*means, others_share(rows["gpu_busy"], rows["gpu_process_busy"])]
    return GpuFigures(*figures)


def recent(samples: Rows, now_s: float) -> Rows:
    """Return the samples of the last `NOW_S` seconds."""
    tail = samples[-64:]
    rows: Rows = tail[tail["at_ns"] >= max(now_s - NOW_S, 0.0) * 1e9]
    return rows


def medians(rows: Rows, columns: Sequence[str]) -> dict[str, float | None]:
    """Return the median of each column over the samples that hold it; None where none does."""
    return {name: figure(rows[name], median) for name in columns}


def _newest(values: NDArray[np.floating]) -> float | None:
    known = values[np.isfinite(values)]
    return float(known[-1]) if len(known) else None


def _level(values: NDArray[np.floating], words: Sequence[str]) -> int | None:
    newest = _newest(values)
    return None if newest is None else min(max(round(newest), 0), len(words) - 1)


#: The columns of `core.rows.SAMPLE` whose medians are reported.
MEDIAN_COLUMNS = (
    *(
        "gpu_busy",
        "gpu_process_busy",
        "gpu_power_w",
        "gpu_freq_mhz",
        "gpu_temperature_c",
        "gpu_memory_bytes",
    ),
    *(
        "cpu_power_w",
        "cpu_cores",
        "process_cores",
        "process_bytes",
        "memory_used_bytes",
        "memory_available_bytes",
    ),
    *("swap_used_bytes", "swap_in_bytes_s", "swap_out_bytes_s", "disk_read_bytes_s", "own_cores"),
)


@dataclass(frozen=True, slots=True)
class Hardware:
    """The machine over a whole run."""

    #: The source of the GPU figures; None where no sensor read a GPU.
    found: GpuFound | None
    #: The sensors without figures.
    missing: tuple[SensorMissing, ...]
    #: Of each column of `MEDIAN_COLUMNS` over the samples from the first step to the last; None is
    #: n/a.
    medians: Mapping[str, float | None]
    #: Of the device that trained; None where no power was read, for the reason in
    #: `energy_missing`.
    energy: Energy | None
    energy_missing: str
    #: The seconds for which heat and swapping slowed the run.
    heat_s: float
    swap_s: float
    #: The GPU's share of other programs, see `others_share`.
    others: float | None = None
    #: From the first step to the last.
    process_memory: MemoryOverRun | None = None
    #: Medians of each GPU of a strategy over several, over the same samples.
    gpus: tuple[GpuLane, ...] = ()


def summarise_hardware(
    samples: Rows,
    steps: Rows,
    events: Sequence[object],
    accelerated: bool,
    gpus: Rows | None = None,
) -> Hardware:
    """Sum up the machine of a run; rows of `core.rows.SAMPLE`, plausible ones of `STEP`, and rows
    of `GPU`.

    accelerated: steps ran on a GPU.
    """
    spent = energy(samples, steps, accelerated)
    missing = missing_sensors(events)
    gpu_events = [event for event in events if isinstance(event, GpuFound)]
    training = _while_training(samples, steps)
    return Hardware(
        found=gpu_events[-1] if gpu_events else None,
        missing=tuple(missing),
        medians=medians(training, MEDIAN_COLUMNS),
        energy=spent,
        energy_missing="" if spent else _why_no_energy(samples, missing, accelerated),
        heat_s=limit_time_s(events, "thermal limit"),
        swap_s=limit_time_s(events, "swap"),
        others=others_share(training["gpu_busy"], training["gpu_process_busy"]),
        process_memory=memory_over_run(training),
        gpus=()
        if gpus is None
        else gpu_lanes(_while_training(gpus, steps), find_gpus(events), median),
    )


def _while_training(samples: Rows, steps: Rows) -> Rows:
    if not len(steps):
        return samples[:0]
    return chosen(
        samples, (samples["at_ns"] >= steps["start_ns"][0]) & (samples["at_ns"] <= _end_ns(steps))
    )


def _end_ns(steps: Rows) -> float:
    last = steps[-1]
    return float(last["start_ns"]) + float(step_ms(last)) * 1e6


def _why_no_energy(samples: Rows, missing: Sequence[SensorMissing], accelerated: bool) -> str:
    if len(samples) < 2:
        return "the machine was not sampled"
    if not accelerated:
        return "the steps ran on the CPU, and no sensor read its power"
    power = [event for event in missing if event.sensor == GPU or "power" in event.sensor]
    return power[-1].reason if power else "no sensor read the GPU's power"

"""The machine's samples: GPU, heat, memory pressure and growth; now, and over a whole run.

What the GPU's counter says beside the step times: where the two disagree it is said, and the step times decide.

Memory as a slope: how fast what is available shrinks, and when nothing is left.

What the samples say of the machine: the GPU, heat, memory pressure, and what else holds a training back.

A whole run's machine in figures: medians while it trained, energy, and for how long heat or memory held it back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tfwatch.analysis.findings.starving_cost import Energy, energy
from tfwatch.analysis.steps.causes import limit_time_s
from tfwatch.analysis.steps.verdict import HIGHLY_FROM, Bound
from tfwatch.core import units
from tfwatch.core.events import GpuFound, SensorMissing
from tfwatch.core.rows import SAMPLE, plausible, step_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from tfwatch.core.rows import Rows

    _Of: TypeAlias = Callable[[NDArray[np.float64]], np.floating]

#: The seconds that both are looked at for, and the samples with a figure that they have to hold.
_WINDOW_S = 5.0
_LEAST_SAMPLES = 3
#: A sample is of the half second before it: the first one belongs to the steps before.
_PERIOD_S = 0.5
#: Steps have to fill the window by this share, and the newest one not to have ended for so long: a counter also counts
#: what lies between the steps, and a stall that is still open.
_FILLED = 0.95
_OPEN_S = 0.5
#: Keras waits for the device at the end of each step, so a device that starves for a share of the time cannot be
#: busy for more than the rest. Counters average over up to a second: what passes the rest by less is no contradiction.
#: At the line of HIGHLY, 20 %, that is a counter at 90 %.
_MARGIN = 0.10
#: A step that is compute by three quarters (neither 5 % data wait nor 20 % host) and a GPU with a kernel on it for less
#: than this: in more than half of the compute the GPU had nothing to do.
_HARDLY_BUSY = 0.30


@dataclass(frozen=True, slots=True)
class Evidence:
    """Data wait over step time, and how busy the training kept the GPU, over the same seconds; both 0 to 1."""

    wait_share: float
    busy: float


def evidence(steps: Rows, samples: Rows, now_s: float, since_s: float = 0.0) -> Evidence | None:
    """Step times and counter over the last seconds; None where they do not cover the same ones.

    The newest rows of `core.rows.STEP` and `SAMPLE`. The training's own share of the GPU counts where it is known:
    another program keeps a GPU busy without any contradiction. since_s: what was before is of another setting.
    """
    if not len(steps):
        return None
    total_s = step_ms(steps, np.float64) / 1e3
    begins_s = steps["start_ns"] / 1e9
    end_s = float(begins_s[-1] + total_s[-1])
    begin_s = max(end_s - _WINDOW_S, since_s)
    seen = begins_s >= begin_s
    filled_s = float(total_s[seen].sum())
    if now_s - end_s > _OPEN_S or filled_s < _FILLED * (end_s - begin_s) or steps["flags"][seen].any():
        return None
    busy = _busy(samples[-64:], begin_s + _PERIOD_S, end_s + _PERIOD_S / 2)
    return (
        None if busy is None else Evidence(float(steps["wait_ms"][seen].sum(dtype=np.float64)) / 1e3 / filled_s, busy)
    )


def _busy(samples: Rows, begin_s: float, end_s: float) -> float | None:
    rows = samples[(samples["at_ns"] > begin_s * 1e9) & (samples["at_ns"] <= end_s * 1e9)]
    for name in ("gpu_process_busy", "gpu_busy"):
        known = rows[name][np.isfinite(rows[name])].astype(np.float64)
        if len(known) >= _LEAST_SAMPLES:
            return float(known.mean())
    return None


def disagreement(found: Evidence | None, bound: Bound | None, accelerated: bool) -> str:
    """What to say where counter and step times tell different stories; empty where they do not.

    bound: what the steps are bound by. accelerated: they run on the GPU.
    """
    if found is None or bound is None or not accelerated:
        return ""
    says = f"GPU counter says {units.percent(found.busy)}"
    if found.wait_share >= HIGHLY_FROM and found.busy + found.wait_share >= 1 + _MARGIN:
        return f"{says}: short kernels keep it high; step times decide"
    if bound is Bound.COMPUTE and found.busy < _HARDLY_BUSY:
        return f"{says}: gaps between short kernels, or work on the CPU"
    return ""


#: The stretch looked at, seconds: half an hour tells a leak of 0.1 GB an hour from what other programs take and give.
WINDOW_S = 1800.0
#: Less than this says nothing: a start fills caches and buffers.
LEAST_S = 120.0
#: Medians that the stretch is thinned to: Theil and Sen's slope looks at every pair of them.
_POINTS = 48
#: The slope counts where so much was taken, bytes, ...
_LEAST_BYTES = 64 * 2**20
#: ... of all pairs so many more point up than down (Kendall's tau), and the newer half of the stretch still rises at
#: so much of the slope: a buffer that has filled up is no leak.
_LEAST_TAU = 0.6
_STILL = 0.5


@dataclass(frozen=True, slots=True)
class Growth:
    """How fast memory is used up. bytes_s: 0 where it is steady. left_s: until none is available; None is never."""

    bytes_s: float = 0.0
    left_s: float | None = None

    @property
    def bytes_h(self) -> float:
        """Bytes an hour."""
        return self.bytes_s * 3600


def growth(samples: Rows) -> Growth | None:
    """The robust slope of what is available at the end of `samples`; None where that is not known for long enough.

    Theil and Sen's estimator, the median of the slopes between all pairs of points, which single jumps do not move.
    In a container `memory_available_bytes` counts to its limit.
    """
    # Twice a second: more rows than the window holds are not looked at.
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
    """Medians of `_POINTS` stretches of equal length, the newest rows in the last."""
    each = len(values) // _POINTS
    medians: NDArray[np.float64] = np.median(values[-each * _POINTS :].reshape(_POINTS, each), axis=1)
    return medians


def _rise(at_s: NDArray[np.float64], used: NDArray[np.float64]) -> float | None:
    """The slope, bytes a second; None where it is not significant, or falls."""
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
    """Between all pairs."""
    first, second = np.triu_indices(len(at_s), 1)
    apart = at_s[second] - at_s[first]
    slopes: NDArray[np.float64] = (values[second] - values[first]) / np.maximum(apart, 1e-9)
    return slopes


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


def summarise_machine(
    rows: Rows, events: Sequence[object], growth: Growth | None = None, *, since_s: float = 0.0, typical: bool = False
) -> Machine:
    """The machine over these rows of `core.rows.SAMPLE`: means, and the newest level of what has levels.

    since_s: what the GPU did before is of another setting. typical: medians instead, as is fit for a whole run.
    """
    of = np.median if typical else np.mean
    word = gpu_status(events)
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


def gpu_status(events: Sequence[object]) -> GpuFound | SensorMissing | None:
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


#: Columns of `core.rows.SAMPLE` whose medians are told.
MEDIAN_COLUMNS = (
    *("gpu_busy", "gpu_process_busy", "gpu_power_w", "gpu_freq_mhz", "gpu_temperature_c", "gpu_memory_bytes"),
    *("cpu_power_w", "cpu_cores", "process_cores", "process_bytes", "memory_used_bytes", "memory_available_bytes"),
    *("swap_used_bytes", "swap_in_bytes_s", "swap_out_bytes_s", "disk_read_bytes_s", "own_cores"),
)


@dataclass(frozen=True, slots=True)
class Hardware:
    """found: whose GPU figures these are; None where no sensor read one. missing: the sensors that gave none.

    medians: of each column of `MEDIAN_COLUMNS` over the samples from the first step to the last; None is n/a.
    energy: of the device that trained; None where no power was read, for the reason in `energy_missing`.
    heat_s, swap_s: for how long heat and swapping held the run back.
    """

    found: GpuFound | None
    missing: tuple[SensorMissing, ...]
    medians: Mapping[str, float | None]
    energy: Energy | None
    energy_missing: str
    heat_s: float
    swap_s: float

    @property
    def others(self) -> float | None:
        """What other programs made of the GPU, 0 to 1; None is n/a."""
        busy, ours = self.medians["gpu_busy"], self.medians["gpu_process_busy"]
        return None if busy is None or ours is None else max(0.0, busy - ours)


def hardware(samples: Rows, steps: Rows, events: Sequence[object], accelerated: bool) -> Hardware:
    """Sum a run's machine up; rows of `core.rows.SAMPLE` and of `STEP`. accelerated: the steps ran on a GPU."""
    steps = steps[plausible(steps)]
    spent = energy(samples, steps, accelerated)
    missing = missing_sensors(events)
    found = [event for event in events if isinstance(event, GpuFound)]
    return Hardware(
        found=found[-1] if found else None,
        missing=tuple(missing),
        medians=medians(_while_training(samples, steps), MEDIAN_COLUMNS),
        energy=spent,
        energy_missing="" if spent else _why_no_energy(samples, missing, accelerated),
        heat_s=limit_time_s(events, "thermal limit"),
        swap_s=limit_time_s(events, "swap"),
    )


def _while_training(samples: Rows, steps: Rows) -> Rows:
    if not len(steps):
        return samples[:0]
    rows: Rows = samples[(samples["at_ns"] >= steps["start_ns"][0]) & (samples["at_ns"] <= _end_ns(steps))]
    return rows


def _end_ns(steps: Rows) -> float:
    last = steps[-1]
    return float(last["start_ns"]) + float(step_ms(last)) * 1e6


def _why_no_energy(samples: Rows, missing: Sequence[SensorMissing], accelerated: bool) -> str:
    if len(samples) < 2:
        return "the machine was not sampled"
    if not accelerated:
        return "the steps ran on the CPU, and no sensor read its power"
    told = [event for event in missing if event.sensor == GPU or "power" in event.sensor]
    return told[-1].reason if told else "no sensor read the GPU's power"

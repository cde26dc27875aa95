"""The machine in figures from its samples: GPUs, heat, memory and its growth; now, and over a whole
run.

A GPU that waits for another one does so inside a collective operation, and its counter reads busy
then: where they differ, the idlest one has less work, or finished first and waits outside it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tfwatch.core import units
from tfwatch.core.events import (
    ExperimentEnded,
    GpuFound,
    GpusFound,
    PipelineSwitched,
    SensorMissing,
    without_experiments,
)
from tfwatch.core.rows import SAMPLE
from tfwatch.judge.other_programs import OtherPrograms, other_programs_of_run
from tfwatch.judge.steps.stalls import limit_time_s
from tfwatch.runs.liveness import Life

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from tfwatch.core.rows import Rows
    from tfwatch.runs.buffers import Events
    from tfwatch.runs.format import Manifest
    from tfwatch.runs.snapshot import Snapshot

    _Of: TypeAlias = Callable[[Any], Any]

#: `SensorMissing.sensor` of the GPU, and of the reader of the input pipeline's stages.
GPU, PIPELINE = "GPU", "pipeline"
#: The words of `thermal_level` and `memory_level` in `core.rows.SAMPLE`.
HEAT = ("nominal", "light", "moderate", "heavy", "critical")
PRESSURE = ("normal", "warning", "critical")
#: The level `moderate`, from which on clocks are lowered.
_HOT = 2
#: Other programs' share of the GPU that is reported: idle desktops read 12 to 18 % (window
#: compositing).
OTHERS_FROM = 0.20
#: Swap traffic that means too little memory, bytes per second: half of what `sensors.pressure`
#: calls a pause.
SWAPPING_BYTES_S = 16 * 2**20


# -- memory ----------------------------------------------------------------------------------------

#: A process that grew by less, in bytes or as a share, is described by one figure.
_GREW_BYTES, _GREW = 0.2 * 2**30, 0.1


@dataclass(frozen=True, slots=True)
class MemoryOverRun:
    """Bytes of the training process in the first and in the last sample, and the most."""

    begin_bytes: float
    end_bytes: float
    peak_bytes: float

    @property
    def grew(self) -> bool:
        """True where the peak lies well above the begin."""
        return self.peak_bytes - self.begin_bytes >= max(_GREW_BYTES, _GREW * self.begin_bytes)

    @property
    def text(self) -> str:
        """The figures, e.g. `8.0 → 28.0 GB, peak 28.5`."""
        if not self.grew:
            return units.memory(self.end_bytes)
        sizes = (self.begin_bytes, self.end_bytes, self.peak_bytes)
        begin, end, peak = (size / 2**30 for size in sizes)
        return f"{begin:.1f} → {end:.1f} GB, peak {peak:.1f}"

    def then(self, later: MemoryOverRun) -> MemoryOverRun:
        """Return the memory over both times."""
        peak_bytes = max(self.peak_bytes, later.peak_bytes)
        return MemoryOverRun(self.begin_bytes, later.end_bytes, peak_bytes)


def memory_over_run(samples: Rows) -> MemoryOverRun | None:
    """Return the memory over these rows of `core.rows.SAMPLE`; None where no row has the process'
    memory."""
    known = samples["process_bytes"][np.isfinite(samples["process_bytes"])]
    return (
        MemoryOverRun(float(known[0]), float(known[-1]), float(known.max())) if len(known) else None
    )


# -- GPUs ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GpuFigures:
    """The figures of a GPU over some samples, or of all together; None is n/a."""

    #: 0 to 1, of all programs and of the training.
    busy: float | None = None
    ours: float | None = None
    power_w: float | None = None
    memory_bytes: float | None = None
    #: The share of other programs, see `others_share`.
    others: float | None = None
    #: Of one GPU of a strategy over several: TensorFlow's name, e.g. `GPU:0`; its memory.
    device: str = ""
    total_bytes: float | None = None

    @property
    def is_shared(self) -> bool:
        """True if other programs use enough of it to slow the training."""
        return self.others is not None and self.others > OTHERS_FROM


def gpu_figures(rows: Rows, of: _Of = np.mean) -> GpuFigures | None:
    """Return the GPU's figures over rows of `core.rows.SAMPLE`; None where all of them are
    missing."""
    columns = "gpu_busy", "gpu_process_busy", "gpu_power_w", "gpu_memory_bytes"
    busy, ours, power_w, memory_bytes = (figure(rows[column], of) for column in columns)
    others = others_share(rows["gpu_busy"], rows["gpu_process_busy"])
    found = GpuFigures(busy, ours, power_w, memory_bytes, others)
    return None if found == GpuFigures() else found


def gpu_lanes(rows: Rows, gpus: GpusFound | None, of: _Of = np.mean) -> tuple[GpuFigures, ...]:
    """Return each GPU over rows of `core.rows.GPU`; none without a strategy over several."""
    if gpus is None or len(gpus.names) < 2:
        return ()
    own = (rows[rows["gpu"] == index] for index in range(len(gpus.names)))
    return tuple(
        GpuFigures(
            busy=figure(seen["busy"], of),
            memory_bytes=figure(seen["memory_bytes"], of),
            device=device,
            total_bytes=gpus.memory_bytes.get(device),
        )
        for seen, device in zip(own, gpus.names, strict=True)
    )


def extremes(lanes: Sequence[GpuFigures]) -> tuple[GpuFigures, GpuFigures] | None:
    """Return the busiest and the idlest GPU; None where fewer than two have figures."""
    known = sorted(
        (lane for lane in lanes if lane.busy is not None), key=lambda lane: lane.busy or 0.0
    )
    return (known[-1], known[0]) if len(known) >= 2 else None


#: The two counters average over windows of their own. One program alone on an H100 with steady work
#: read differences of up to 1.4 points over 5 s, and on an idle H200 of 4 points.
COUNTERS_DIFFER = 0.05
#: Work in bursts of a second read up to 15 points over 5 s there, and single samples up to 76: two
#: standard errors.
_ERRORS = 2.0


def others_share(busy: NDArray[np.floating], ours: NDArray[np.floating]) -> float | None:
    """Return the mean share that other programs use, 0 to 1, of samples of both counters.

    None where no sample has both, and where the counters differ by no more than they do with one
    program alone.
    """
    apart = (busy - ours)[np.isfinite(busy) & np.isfinite(ours)].astype(np.float64)
    if not len(apart):
        return None
    error = float(apart.std()) / len(apart) ** 0.5
    share = float(apart.mean())
    return min(share, 1.0) if share > COUNTERS_DIFFER + _ERRORS * error else None


# -- the machine -----------------------------------------------------------------------------------

#: The window of current figures, seconds: counters of a GPU vary from one half second to the next;
#: and the most rows in it, four a second of each GPU.
NOW_S = 5.0
_MOST_ROWS = 512
#: Of these columns the newest value counts.
_NEWEST = ("thermal_level", "memory_level")
#: Counters of a GPU average over up to a second, and so lag behind a switch.
_LAG_S = 1.0


@dataclass(frozen=True, slots=True)
class MachineFigures:
    """The machine over the last seconds, or over a whole run; None is n/a."""

    #: Of each column of `core.rows.SAMPLE`: the mean, over a whole run the median while steps ran;
    #: of `_NEWEST` the newest value.
    figures: Mapping[str, float | None] = field(default_factory=dict)
    #: Since the present setting; of a strategy over several, all of them.
    gpu: GpuFigures | None = None
    #: Each of a strategy over several.
    gpus: tuple[GpuFigures, ...] = ()
    #: The source of the GPU figures.
    found: GpuFound | None = None
    #: The sensors without figures.
    missing: tuple[SensorMissing, ...] = ()
    #: Of the training so far.
    process_memory: MemoryOverRun | None = None
    #: Of a whole run: the seconds for which heat and swapping slowed it.
    heat_s: float = 0.0
    swap_s: float = 0.0
    #: Of a whole run.
    others: OtherPrograms = field(default_factory=OtherPrograms)

    @property
    def heat(self) -> int | None:
        """A level of `HEAT`."""
        return self._level("thermal_level", HEAT)

    @property
    def is_hot(self) -> bool:
        """True if heat lowers clocks."""
        return self.heat is not None and self.heat >= _HOT

    @property
    def pressure(self) -> int | None:
        """A level of `PRESSURE`."""
        return self._level("memory_level", PRESSURE)

    @property
    def swap_bytes_s(self) -> float | None:
        """Bytes a second, read and written."""
        return self.figures.get("swap_bytes_s")

    @property
    def is_swapping(self) -> bool:
        """True if memory is swapped to and from the disk."""
        return (self.swap_bytes_s or 0.0) >= SWAPPING_BYTES_S

    def is_gpu_unused(self, manifest: Manifest, steps: int) -> bool:
        """Return True if there is a GPU that TensorFlow does not use, once steps have run."""
        return self.found is not None and not manifest.accelerated and bool(steps)

    def _level(self, column: str, words: Sequence[str]) -> int | None:
        level = self.figures.get(column)
        return None if level is None else min(max(round(level), 0), len(words) - 1)


def machine_of_run(run: Snapshot) -> MachineFigures:
    """Return the machine over a whole run, from the start of its first step to the end of the last
    one."""
    epochs = run.epochs
    begin_s, end_s = (
        (epochs["first_ns"][0] / 1e9, epochs["end_ns"][-1] / 1e9) if len(epochs) else (0.0, 0.0)
    )
    samples, gpus = (_between(rows, begin_s, end_s) for rows in (run.samples, run.gpus))
    return replace(
        _summarise(samples, samples, gpus, run.events, np.median),
        process_memory=memory_over_run(samples),
        heat_s=limit_time_s(run.events, "thermal limit"),
        swap_s=limit_time_s(run.events, "swap"),
        others=other_programs_of_run(run),
    )


def machine_now(snapshot: Snapshot, memory: MemoryOverRun | None = None) -> MachineFigures:
    """Return the machine over the last seconds. memory: of the process so far."""
    events, now_s = snapshot.events, snapshot.now_s
    changes_ns = [switch.at_ns for switch in without_experiments(events.of(PipelineSwitched))]
    changes_ns += [ended.at_ns for ended in events.of(ExperimentEnded)]
    samples, gpus = (
        _between(rows[-_MOST_ROWS:], now_s - NOW_S, math.inf)
        for rows in (snapshot.samples, snapshot.gpus)
    )
    since_s = max(changes_ns) / 1e9 + _LAG_S if changes_ns else 0.0
    of_setting = _between(samples, since_s, math.inf)
    return replace(
        _summarise(samples, of_setting, gpus, events, np.mean),
        process_memory=memory,
    )


def _between(rows: Rows, begin_s: float, end_s: float) -> Rows:
    """Return the rows of a time; not by `searchsorted`, which copies the whole column first."""
    end_ns = min(end_s * 1e9, 2.0**63)
    first, end = (bisect_left(rows["at_ns"], at_ns) for at_ns in (max(begin_s, 0) * 1e9, end_ns))
    between: Rows = rows[first:end]
    return between


def _summarise(samples: Rows, of_gpu: Rows, gpus: Rows, events: Events, of: _Of) -> MachineFigures:
    missing = missing_sensors(events.of(GpuFound, SensorMissing))
    is_gpu_missing = any(one.sensor == GPU for one in missing)
    return MachineFigures(
        {
            name: figure(samples[name], itemgetter(-1) if name in _NEWEST else of)
            for name in SAMPLE.names or ()
            if name != "at_ns"
        },
        gpu_figures(of_gpu, of),
        gpu_lanes(gpus, events.newest(GpusFound), of),
        None if is_gpu_missing else events.newest(GpuFound),
        tuple(missing),
    )


def missing_sensors(events: Iterable[GpuFound | SensorMissing]) -> list[SensorMissing]:
    """Return the newest event of each sensor without figures, of none that has them again."""
    newest: dict[str, SensorMissing] = {}
    for event in events:
        newest.pop(event.sensor if isinstance(event, SensorMissing) else GPU, None)
        if isinstance(event, SensorMissing) and event.reason:
            newest[event.sensor] = event
    return list(newest.values())


def figure(values: Any, of: _Of) -> float | None:
    """Return one figure of the values that are known; None without one."""
    # Of a column in the rows each look costs as much as the copy.
    values = np.ascontiguousarray(values)
    known = values[np.isfinite(values)].astype(np.float64)
    return float(of(known)) if len(known) else None


class MachineFollower:
    """Follows the machine of a run."""

    def __init__(self) -> None:
        self._memory: MemoryOverRun | None = None
        self._seen = 0
        self._whole: tuple[int, MachineFigures] | None = None

    def machine(self, snapshot: Snapshot) -> MachineFigures | None:
        """Return the machine over the last seconds, over the whole run where that has ended; None
        before a first sample."""
        count = len(snapshot.samples)
        if not count:
            return None
        if snapshot.life is not Life.ENDED:
            self._take_memory(snapshot.samples)
            return machine_now(snapshot, self._memory)
        if self._whole is None or self._whole[0] != count:
            self._whole = count, machine_of_run(snapshot)
        return self._whole[1]

    def _take_memory(self, samples: Rows) -> None:
        """Take the memory of the newest samples: all those of days are 100 MB to read."""
        if self._memory is None:
            self._memory = memory_over_run(samples[:_MOST_ROWS])
        newest = memory_over_run(samples[max(self._seen, len(samples) - _MOST_ROWS) :])
        if self._memory and newest:
            self._memory = self._memory.then(newest)
        self._seen = len(samples)

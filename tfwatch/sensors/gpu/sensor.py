"""The GPU's figures from the sources that work here, each on a thread of its own, and a reason for those that do not.

What the GPU does: the figures of the sources that work here, and a word about those that do not.

One source of GPU figures on a thread of its own, so that one that hangs holds nobody up.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from dataclasses import asdict
from statistics import fmean
from typing import TYPE_CHECKING

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import fails_open
from tfwatch.core.events import GpuFound, SensorMissing
from tfwatch.core.system_tool import spent_ns
from tfwatch.sensors.gpu import ioreg, nvml, powermetrics
from tfwatch.sensors.protocol import Availability, Available, FullReading, Unavailable, reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tfwatch.runs.writer import RunWriter
    from tfwatch.sensors.protocol import GpuIdentity, GpuReading, GpuSource

#: In this order: the first that tells a figure is believed.
_OF_SYSTEM = {"darwin": ("powermetrics", "ioreg")}
_ELSEWHERE = ("nvml",)
_SOURCES = {"powermetrics": powermetrics.Source, "ioreg": ioreg.Source, "nvml": nvml.Source}
#: The column of `core.rows.SAMPLE` for a field of a reading.
_COLUMNS = {
    "busy": "gpu_busy",
    "process_busy": "gpu_process_busy",
    "freq_mhz": "gpu_freq_mhz",
    "power_w": "gpu_power_w",
    "temperature_c": "gpu_temperature_c",
    "memory_bytes": "gpu_memory_bytes",
    "cpu_power_w": "cpu_power_w",
    "thermal_level": "thermal_level",
}
#: What a field of `GpuReading` is called where it is missing.
_WORDS = {
    "busy": "activity",
    "power_w": "power",
    "freq_mhz": "frequency",
    "temperature_c": "temperature",
    "memory_bytes": "memory",
    "process_busy": "process share",
}
#: A figure is shown for so long after its period: it is late, and not yet stale.
_HELD_NS = 1_000_000_000
_STOP_S = 0.5


def sources_of(choice: str, system: str = sys.platform, clock: Clock = SYSTEM) -> list[GpuSource]:
    """The sources that a choice of `GPU_SENSORS` means on a system, the one that tells most first."""
    names = {"auto": _OF_SYSTEM.get(system, _ELSEWHERE), "none": ()}.get(choice, (choice,))
    return [_SOURCES[name](clock) for name in names]


class GpuSensor:
    """Asks each source on a thread of its own, and puts together what they say.

    limited_by: what kept the GPU below its clock since the last `read`, in words; empty where nothing did.
    """

    name = "GPU"

    def __init__(self, writer: RunWriter, clock: Clock = SYSTEM, sources: Sequence[GpuSource] = ()) -> None:
        self.limited_by = ""
        self._writer = writer
        self._lanes = [Lane(source, clock) for source in sources]
        self._newest: dict[Lane, tuple[int, GpuReading]] = {}
        self._shown: Lane | None = None
        self._told: dict[str, set[str]] = {}
        self._resets: int | None = None

    @property
    def cpu_ns(self) -> int:
        """CPU time of its threads."""
        return sum(lane.cpu_ns for lane in self._lanes)

    def available(self) -> Availability:
        """Unless it is switched off: a source that has nothing says so later, by an event."""
        if not self._lanes:
            return Unavailable("switched off with --gpu-sensor none", "--gpu-sensor auto")
        for lane in self._lanes:
            lane.start()
        return Available()

    def stop(self) -> None:
        """End the threads; one that hangs is left behind."""
        for lane in self._lanes:
            lane.stop()
        for lane in self._lanes:
            lane.join(_STOP_S)

    def read(self, now_ns: int) -> Mapping[str, float]:
        """The means since the last call, and `gpu_late_ms`: how much older than its period the newest reading is."""
        working = [lane for lane in self._lanes if lane.works and not lane.hangs(now_ns)]
        self._tell(now_ns, working)
        for lane in self._lanes:
            lane.is_beside = bool(working) and lane is not working[0]
        figures: dict[str, float] = {}
        self.limited_by = ""
        for lane in working:
            readings = self._readings(lane, now_ns)
            self._look_at(readings)
            for field, column in _COLUMNS.items():
                if column not in figures and (values := _values(readings, field)):
                    figures[column] = fmean(values)
        if self._shown in self._newest:
            figures["gpu_late_ms"] = self._late_ns(self._newest[self._shown][0], now_ns, self._shown) / 1e6
        return figures

    # -- figures ----------------------------------------------------------------------------------

    def _readings(self, lane: Lane, now_ns: int) -> list[GpuReading]:
        """Those that have come since the last call, or the last one where it is not stale."""
        new = [lane.readings.popleft() for _ in range(len(lane.readings))]
        if new:
            self._newest[lane] = new[-1]
        elif lane not in self._newest or self._late_ns(self._newest[lane][0], now_ns, lane) > _HELD_NS:
            self._newest.pop(lane, None)
            return []
        return [reading for _, reading in new or [self._newest[lane]]]

    def _late_ns(self, at_ns: int, now_ns: int, lane: Lane) -> int:
        return max(now_ns - at_ns - round(max(lane.source.period_s, lane.pace_s) * 1e9), 0)

    def _look_at(self, readings: Iterable[GpuReading]) -> None:
        """Take what is no figure."""
        for reading in readings:
            if not isinstance(reading, FullReading):
                continue
            self.limited_by = reading.limited_by or self.limited_by
            if reading.resets is not None:
                if self._resets is not None and reading.resets > self._resets:
                    self._writer.note("the GPU was reset by the system: what it computed then may be lost")
                self._resets = reading.resets

    # -- words ------------------------------------------------------------------------------------

    def _tell(self, now_ns: int, working: Sequence[Lane]) -> None:
        """Whose figures the samples hold from now on, and what gives none: each reason once, until it works again."""
        troubles = {lane: why for lane in self._lanes if (why := _trouble(lane, now_ns))}
        if any(lane not in working and lane not in troubles for lane in self._lanes):
            return  # it is new, and works or does not within `PATIENCE_NS`
        if working:
            self._found(working[0])
            missing = {lane.source.name: why for lane, why in troubles.items()}
            missing |= _unknown([lane.gaps for lane in working])
        else:
            self._shown = None
            missing = {self.name: _together(troubles.values())}
        for lane in working:
            self._told.pop(lane.source.name, None)
        for sensor, why in missing.items():
            if why.reason not in self._told.setdefault(sensor, set()):
                self._told[sensor].add(why.reason)
                self._writer.event(SensorMissing(self._writer.now_ns(), sensor, why.reason, why.fix))

    def _found(self, lane: Lane) -> None:
        if lane is self._shown or lane.identity is None:
            return
        self._shown = lane
        self._told.clear()
        self._writer.event(GpuFound(self._writer.now_ns(), lane.source.name, **asdict(lane.identity)))


def _trouble(lane: Lane, now_ns: int) -> Unavailable | None:
    if lane.hangs(now_ns):
        return Unavailable(f"{lane.source.name} has not answered for {PATIENCE_NS / 1e9:g} s", "tfwatch waits for it")
    return lane.trouble


def _together(reasons: Iterable[Unavailable]) -> Unavailable:
    """Several reasons as one."""
    reasons = list(reasons)
    fixes = dict.fromkeys(why.fix for why in reasons if why.fix)
    return Unavailable("; ".join(why.reason for why in reasons), "; ".join(fixes))


def _unknown(gaps: Sequence[Mapping[str, Unavailable]]) -> dict[str, Unavailable]:
    """Figures that no working source tells, by name, those with one reason together: `GPU power, frequency`."""
    whys: dict[Unavailable, list[str]] = {}
    for field, word in _WORDS.items():
        if all(field in each for each in gaps):
            whys.setdefault(gaps[-1][field], []).append(word)
    return {f"GPU {', '.join(words)}": why for why, words in whys.items()}


def _values(readings: Iterable[GpuReading], field: str) -> list[float]:
    """The figures of one field that are there."""
    return [value for reading in readings if (value := getattr(reading, field, None)) is not None]


#: A source that has not come back for so long is told to hang; the next sample, half a second later, tells it.
PATIENCE_NS = 1_500_000_000
#: How often a source is asked, seconds: at most, beside another that tells more, and where a call costs much.
PACE_S = 0.25
_BESIDE_S = 1.0
_SLOWEST_S = 2.0
#: What a source may cost, in cores, its tools included: all sensors together have one hundredth of a core.
_BUDGET = 0.004
#: A source that failed is tried again after so long, and after twice as long each time it fails again.
_AGAIN_S = 1.0
_LAST_AGAIN_S = 300.0
#: Figures for so long forgive the failures before.
_STEADY_NS = 60_000_000_000
#: Readings that nobody has fetched: half a minute of them.
_KEPT = 120


class Lane:
    """Asks one source again and again, from `start` to `stop`.

    Its thread writes, and one other reads: readings: (monotonic ns, reading), not fetched yet. works: whether the
    newest call gave figures. trouble: why not; None while it works, or before the first answer.
    identity, gaps: of the source, where it works. cpu_ns: what its thread has cost.
    """

    def __init__(self, source: GpuSource, clock: Clock = SYSTEM) -> None:
        self.source = source
        self.readings: deque[tuple[int, GpuReading]] = deque(maxlen=_KEPT)
        self.works = False
        self.trouble: Unavailable | None = None
        self.identity: GpuIdentity | None = None
        self.gaps: Mapping[str, Unavailable] = {}
        self.is_beside = False
        self.pace_s = PACE_S
        self.cpu_ns = 0
        self._clock = clock
        self._is_ready = False
        self._has_worked = False
        self._failures = 0
        self._since_ns: int | None = None
        self._cost_s = 0.0
        self._began_ns: int | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"tfwatch-{source.name}", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the call that it is in."""
        self._stopping.set()
        self.source.leave()

    def join(self, seconds: float) -> None:
        """Wait for the thread's end; one that hangs is left behind."""
        if self._thread.is_alive():
            self._thread.join(seconds)

    def hangs(self, now_ns: int) -> bool:
        """Whether a call lasts for longer than `PATIENCE_NS`."""
        began_ns = self._began_ns
        return began_ns is not None and now_ns - began_ns >= PATIENCE_NS

    def _run(self) -> None:
        wait_s: float | None = 0.0
        while wait_s is not None and not self._stopping.wait(wait_s):
            wait_s = self.turn()
        self.source.close()

    def turn(self) -> float | None:
        """Ask once: the seconds until the next time, or None where the source has nothing for this run."""
        self._began_ns = self._clock.now_ns()
        spent_before_ns = self._clock.thread_ns() + spent_ns()
        failures: list[str] = []
        try:
            with fails_open(failures.append, reason):
                return self._ask()
            return self._failed(failures[0])
        finally:
            self._began_ns = None
            self.cpu_ns = self._clock.thread_ns()
            self._pace(max(self.cpu_ns + spent_ns() - spent_before_ns, 0) / 1e9)

    def _ask(self) -> float | None:
        if not self._is_ready:
            answer = self.source.available()
            if isinstance(answer, Unavailable):
                if self._has_worked:
                    return self._failed(answer.reason)
                self.trouble = answer
                return None
            self._is_ready = True
        reading = self.source.read()
        now_ns = self._clock.now_ns()
        self.readings.append((now_ns, reading))
        if self._since_ns is None:
            self._since_ns = now_ns
            self.identity = self.source.identity()
        elif now_ns - self._since_ns >= _STEADY_NS:
            self._failures = 0
        self.gaps = dict(self.source.gaps())
        self.works, self._has_worked, self.trouble = True, True, None
        return self.pace_s

    def _failed(self, why: str) -> float:
        """Let go of the source and say why; the seconds until it is tried again."""
        failures = [why]
        again_s: float = min(_AGAIN_S * 2**self._failures, _LAST_AGAIN_S)
        self.works, self._is_ready, self._since_ns = False, False, None
        with fails_open(failures.append, reason):
            self.source.close()
        self.trouble = Unavailable("; ".join(failures), f"tfwatch tries again in {again_s:g} s")
        self._failures = min(self._failures + 1, 20)
        return again_s

    def _pace(self, cost_s: float) -> None:
        """As often as the budget allows, given a mean of what the last calls cost."""
        self._cost_s += 0.2 * (cost_s - self._cost_s)
        least_s = _BESIDE_S if self.is_beside else PACE_S
        self.pace_s = min(max(self._cost_s / _BUDGET, least_s), _SLOWEST_S)

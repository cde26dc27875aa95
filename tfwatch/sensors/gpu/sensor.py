"""The GPU's figures from the sources that work here, and reasons for the others.

Each source has its own thread, so that a hung one does not block the others.
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
from tfwatch.core.events import GpuFound, GpusFound, SensorMissing
from tfwatch.core.system_tool import spent_ns
from tfwatch.sensors.gpu import ioreg, nvml, powermetrics
from tfwatch.sensors.protocol import Availability, Available, FullReading, Unavailable, reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tfwatch.runs.writer import RunWriter
    from tfwatch.sensors.protocol import CardReading, GpuIdentity, GpuReading, GpuSource

#: The sources in order of preference: each figure comes from the first source that has it.
_SYSTEM_SOURCES = {"darwin": ("powermetrics", "ioreg")}
_OTHER_SOURCES = ("nvml",)
_SOURCES = {
    "powermetrics": powermetrics.PowermetricsSource,
    "ioreg": ioreg.IoregSource,
    "nvml": nvml.NvmlSource,
}
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
#: The names of missing fields of `GpuReading`.
_FIELD_NAMES = {
    "busy": "activity",
    "power_w": "power",
    "freq_mhz": "frequency",
    "temperature_c": "temperature",
    "memory_bytes": "memory",
    "process_busy": "process share",
}
#: The columns of `core.rows.GPU`: fields of a reading. A row a GPU each second: the samples come
#: twice as often.
_CARD_COLUMNS = ("busy", "process_busy", "power_w", "temperature_c", "freq_mhz", "memory_bytes")
_CARDS_NS = 900_000_000
_UNLISTED = "NVML does not list this GPU of the strategy"
#: A figure is shown for this time after its period; then it is stale.
_STALE_NS = 1_000_000_000
_STOP_S = 0.5


def choose_sources(
    choice: str, system: str = sys.platform, clock: Clock = SYSTEM
) -> list[GpuSource]:
    """Return the sources of a choice of `config.GPU_SENSORS` on a system, in order of
    preference."""
    names = {"auto": _SYSTEM_SOURCES.get(system, _OTHER_SOURCES), "none": ()}.get(choice, (choice,))
    return [_SOURCES[name](clock) for name in names]


class GpuSensor:
    """Reads each source on its own thread, and combines their figures.

    limited_by: the reason for a limited GPU clock since the last `read`; empty where it was not
    limited.
    """

    name = "GPU"

    def __init__(
        self, writer: RunWriter, clock: Clock = SYSTEM, sources: Sequence[GpuSource] = ()
    ) -> None:
        self.limited_by = ""
        self._writer = writer
        self._threads = [SourceThread(source, clock) for source in sources]
        self._newest: dict[SourceThread, tuple[int, GpuReading]] = {}
        self._shown: SourceThread | None = None
        self._reported: dict[str, set[str]] = {}
        self._cards: list[Sequence[CardReading]] = []
        self._cards_due_ns = 0
        self._reported_cards: dict[str, str] = {}

    @property
    def cpu_ns(self) -> int:
        """CPU time of the threads."""
        return sum(thread.cpu_ns for thread in self._threads)

    def available(self) -> Availability:
        """Return `Unavailable` where it is switched off; later events report sources without
        figures."""
        if not self._threads:
            return Unavailable("switched off with --gpu-sensor none", "--gpu-sensor auto")
        for thread in self._threads:
            thread.start()
        return Available()

    def stop(self) -> None:
        """End the threads; a hung one is left behind."""
        for thread in self._threads:
            thread.stop()
        for thread in self._threads:
            thread.join(_STOP_S)

    def read(self, now_ns: int) -> Mapping[str, float]:
        """Return the means since the last call, and `gpu_late_ms`: the age of the newest reading
        beyond its period."""
        working = [
            thread for thread in self._threads if thread.is_working and not thread.is_hung(now_ns)
        ]
        self._report(now_ns, working)
        for thread in self._threads:
            thread.is_secondary = bool(working) and thread is not working[0]
            thread.source.follow(tuple(self._writer.strategy_gpus.values()))
        figures: dict[str, float] = {}
        self.limited_by = ""
        for thread in working:
            readings = self._readings(thread, now_ns)
            limits = (getattr(reading, "limited_by", "") for reading in readings)
            self.limited_by = next(filter(None, limits), self.limited_by)
            self._add_cards(readings, now_ns)
            for field, column in _COLUMNS.items():
                if column not in figures and (values := _values(readings, field)):
                    figures[column] = fmean(values)
        if self._shown in self._newest:
            figures["gpu_late_ms"] = (
                self._late_ns(self._newest[self._shown][0], now_ns, self._shown) / 1e6
            )
        return figures

    # -- figures ----------------------------------------------------------------------------------

    def _readings(self, thread: SourceThread, now_ns: int) -> list[GpuReading]:
        """Return the readings since the last call, or the last one if it is not stale."""
        new = [thread.readings.popleft() for _ in range(len(thread.readings))]
        if new:
            self._newest[thread] = new[-1]
        elif (
            thread not in self._newest
            or self._late_ns(self._newest[thread][0], now_ns, thread) > _STALE_NS
        ):
            self._newest.pop(thread, None)
            return []
        return [reading for _, reading in new or [self._newest[thread]]]

    def _late_ns(self, at_ns: int, now_ns: int, thread: SourceThread) -> int:
        return max(now_ns - at_ns - round(max(thread.source.period_s, thread.interval_s) * 1e9), 0)

    def _add_cards(self, readings: Iterable[GpuReading], now_ns: int) -> None:
        """Write the mean of the readings of each of several GPUs, once a second."""
        self._cards += [
            reading.cards
            for reading in readings
            if isinstance(reading, FullReading) and reading.cards
        ]
        if not self._cards or now_ns < self._cards_due_ns:
            return
        newest, self._cards_due_ns = self._cards[-1], now_ns + _CARDS_NS
        self._report_cards(newest)
        for index in range(len(newest)):
            seen = [cards[index] for cards in self._cards if len(cards) == len(newest)]
            means = {
                column: fmean(known) for column in _CARD_COLUMNS if (known := _values(seen, column))
            }
            self._writer.gpu(self._writer.now_ns(), index, means)
        self._cards = []

    def _report_cards(self, cards: Sequence[CardReading]) -> None:
        card_of = dict(zip(self._writer.strategy_gpus, cards, strict=False))
        names = {device: card.name for device, card in card_of.items()}
        if names == self._reported_cards:
            return
        self._reported_cards, now_ns = names, self._writer.now_ns()
        totals = {
            device: card.total_bytes
            for device, card in card_of.items()
            if card.total_bytes is not None
        }
        self._writer.event(GpusFound(now_ns, names, totals))
        for device in [device for device, name in names.items() if not name]:
            self._writer.event(SensorMissing(now_ns, device, _UNLISTED, ""))

    # -- events -----------------------------------------------------------------------------------

    def _report(self, now_ns: int, working: Sequence[SourceThread]) -> None:
        """Report the GPU of the samples and why figures are missing: each reason once, until its
        source works."""
        troubles = {thread: why for thread in self._threads if (why := _trouble(thread, now_ns))}
        if any(thread not in working and thread not in troubles for thread in self._threads):
            return  # a new source, whose state is unknown for up to `PATIENCE_NS`
        if working:
            self._report_found(working[0])
            missing = {thread.source.name: why for thread, why in troubles.items()}
            missing |= _missing_figures([thread.gaps for thread in working])
        else:
            self._shown = None
            missing = {self.name: _join(troubles.values())}
        for thread in working:
            self._reported.pop(thread.source.name, None)
        for sensor, why in missing.items():
            if why.reason not in self._reported.setdefault(sensor, set()):
                self._reported[sensor].add(why.reason)
                self._writer.event(
                    SensorMissing(self._writer.now_ns(), sensor, why.reason, why.fix)
                )

    def _report_found(self, thread: SourceThread) -> None:
        if thread is self._shown or thread.identity is None:
            return
        self._shown = thread
        self._reported.clear()
        self._writer.event(
            GpuFound(self._writer.now_ns(), thread.source.name, **asdict(thread.identity))
        )


def _trouble(thread: SourceThread, now_ns: int) -> Unavailable | None:
    if thread.is_hung(now_ns):
        return Unavailable(
            f"{thread.source.name} has not responded for {PATIENCE_NS / 1e9:g} s",
            "tfwatch waits for it",
        )
    return thread.trouble


def _join(reasons: Iterable[Unavailable]) -> Unavailable:
    """Return several reasons as one."""
    reasons = list(reasons)
    fixes = dict.fromkeys(why.fix for why in reasons if why.fix)
    return Unavailable("; ".join(why.reason for why in reasons), "; ".join(fixes))


def _missing_figures(gaps: Sequence[Mapping[str, Unavailable]]) -> dict[str, Unavailable]:
    """Return the figures that no working source has, by name, grouped by reason: `GPU power,
    frequency`."""
    by_reason: dict[Unavailable, list[str]] = {}
    for field, word in _FIELD_NAMES.items():
        if all(field in each for each in gaps):
            by_reason.setdefault(gaps[-1][field], []).append(word)
    return {f"GPU {', '.join(words)}": why for why, words in by_reason.items()}


def _values(readings: Iterable[GpuReading], field: str) -> list[float]:
    """Return the known figures of one field."""
    return [value for reading in readings if (value := getattr(reading, field, None)) is not None]


#: A call that takes this long counts as hung; the next sample, half a second later, reports it.
PATIENCE_NS = 1_500_000_000
#: The interval of a source, seconds: the shortest, that of a secondary source, and the longest, for
#: costly calls.
INTERVAL_S = 0.25
_SECONDARY_S = 1.0
_SLOWEST_S = 2.0
#: The CPU budget of a source and its tools, cores: all sensors together have one hundredth of a
#: core.
_BUDGET = 0.004
#: The wait after a failure; it doubles with each further failure, up to a limit.
_AGAIN_S = 1.0
_LAST_AGAIN_S = 300.0
#: After this time with figures, earlier failures no longer count.
_STEADY_NS = 60_000_000_000
#: Readings that are not fetched yet: half a minute of them.
_MAX_READINGS = 120


class SourceThread:
    """Reads one source at an interval, from `start` to `stop`.

    Its thread writes these, and one other thread reads them.
    readings: (monotonic ns, reading), not fetched yet. is_working: the last call returned figures.
    trouble: why it did not; None while it works, or before the first result.
    identity, gaps: of a working source. cpu_ns: CPU time of the thread.
    """

    def __init__(self, source: GpuSource, clock: Clock = SYSTEM) -> None:
        self.source = source
        self.readings: deque[tuple[int, GpuReading]] = deque(maxlen=_MAX_READINGS)
        self.is_working = False
        self.trouble: Unavailable | None = None
        self.identity: GpuIdentity | None = None
        self.gaps: Mapping[str, Unavailable] = {}
        self.is_secondary = False
        self.interval_s = INTERVAL_S
        self.cpu_ns = 0
        self._clock = clock
        self._is_ready = False
        self._has_worked = False
        self._failures = 0
        self._since_ns: int | None = None
        self._cost_s = 0.0
        self._began_ns: int | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"tfwatch-{source.name}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread after its present call."""
        self._stopping.set()
        self.source.cancel()

    def join(self, seconds: float) -> None:
        """Wait for the thread's end; a hung one is left behind."""
        if self._thread.is_alive():
            self._thread.join(seconds)

    def is_hung(self, now_ns: int) -> bool:
        """Return whether the present call takes longer than `PATIENCE_NS`."""
        began_ns = self._began_ns
        return began_ns is not None and now_ns - began_ns >= PATIENCE_NS

    def _run(self) -> None:
        wait_s: float | None = 0.0
        while wait_s is not None and not self._stopping.wait(wait_s):
            wait_s = self.read_once()
        self.source.close()

    def read_once(self) -> float | None:
        """Read once; return the seconds until the next time, None where the source is unavailable
        in this run."""
        self._began_ns = self._clock.now_ns()
        spent_before_ns = self._clock.thread_ns() + spent_ns()
        failures: list[str] = []
        try:
            with fails_open(failures.append, reason):
                return self._read()
            return self._handle_failure(failures[0])
        finally:
            self._began_ns = None
            self.cpu_ns = self._clock.thread_ns()
            self._adapt_interval(max(self.cpu_ns + spent_ns() - spent_before_ns, 0) / 1e9)

    def _read(self) -> float | None:
        if not self._is_ready:
            availability = self.source.available()
            if isinstance(availability, Unavailable):
                if self._has_worked:
                    return self._handle_failure(availability.reason)
                self.trouble = availability
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
        self.is_working, self._has_worked, self.trouble = True, True, None
        return self.interval_s

    def _handle_failure(self, why: str) -> float:
        """Close the source and set the reason; return the seconds until the next try."""
        failures = [why]
        again_s: float = min(_AGAIN_S * 2**self._failures, _LAST_AGAIN_S)
        self.is_working, self._is_ready, self._since_ns = False, False, None
        with fails_open(failures.append, reason):
            self.source.close()
        self.trouble = Unavailable("; ".join(failures), f"tfwatch tries again in {again_s:g} s")
        self._failures = min(self._failures + 1, 20)
        return again_s

    def _adapt_interval(self, cost_s: float) -> None:
        """Set the shortest interval that the budget allows, from the mean cost of the last
        calls."""
        self._cost_s += 0.2 * (cost_s - self._cost_s)
        least_s = _SECONDARY_S if self.is_secondary else INTERVAL_S
        self.interval_s = min(max(self._cost_s / _BUDGET, least_s), _SLOWEST_S)

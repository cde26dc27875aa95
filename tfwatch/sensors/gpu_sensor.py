"""The GPU's figures, read on a thread of their own: a driver that hangs blocks no other sensor."""

from __future__ import annotations

import math
import sys
import threading
from collections import deque
from statistics import fmean
from typing import TYPE_CHECKING

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import fails_open
from tfwatch.core.events import GpuFound, GpusFound, SensorMissing
from tfwatch.sensors.apple import AppleSource
from tfwatch.sensors.nvml import NvmlSource
from tfwatch.sensors.sensor import (
    GpuReading,
    MissingFigures,
    Sensor,
    Unavailable,
    combine,
    known,
    reason,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tfwatch.runs.writer import RunWriter
    from tfwatch.sensors.sensor import GpuSource

#: The columns of a reading, and the names of those that are missing.
_COLUMNS = {
    "gpu_busy": "activity",
    "gpu_power_w": "power",
    "gpu_freq_mhz": "frequency",
    "gpu_memory_bytes": "memory",
    "gpu_process_busy": "process share",
    "thermal_level": "heat",
}
#: A row a GPU each second: the samples come twice as often.
_CARDS_NS = 900_000_000
_UNLISTED = "NVML does not list this GPU of the strategy"
#: A figure is shown for this time after its period; then it is stale.
_STALE_NS = 1_000_000_000
_STOP_S = 0.5
#: A call that takes this long counts as hung; the next sample, half a second later, reports it.
PATIENCE_NS = 1_500_000_000
#: The longest interval of a source, seconds, and its CPU budget, cores: all sensors together have
#: one hundredth of a core.
_SLOWEST_S = 2.0
_BUDGET = 0.004
#: The wait after a failure.
_AGAIN_S = 10.0
#: Readings that are not fetched yet: half a minute of them.
_MAX_READINGS = 120


def choose_source(system: str = sys.platform, clock: Clock = SYSTEM) -> GpuSource:
    """Return the source of a system."""
    return AppleSource(clock) if system == "darwin" else NvmlSource(clock)


class GpuSensor(Sensor):
    """Reads the source on a thread.

    interval_s: of its readings.
    """

    name = "GPU"

    def __init__(self, source: GpuSource, writer: RunWriter, clock: Clock = SYSTEM) -> None:
        self.interval_s = source.period_s
        self._source = source
        self._writer = writer
        self._clock = clock
        # The thread writes these, and `read` reads them.
        self._readings: deque[tuple[int, Sequence[GpuReading]]] = deque(maxlen=_MAX_READINGS)
        self._trouble: Unavailable | None = None
        self._gaps: Mapping[str, Unavailable] = {}
        self._began_ns: int | None = None
        # The thread alone uses these.
        self._is_ready = self._has_worked = False
        self._cost_s = 0.0
        # `read` alone uses these.
        self._newest: tuple[int, Sequence[GpuReading]] | None = None
        self._found: GpuFound | None = None
        self._missing = MissingFigures(writer)
        self._cards: list[Sequence[GpuReading]] = []
        self._cards_due_ns = 0
        self._reported_cards: dict[str, str] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"tfwatch-{source.name}", daemon=True
        )

    def why_unavailable(self) -> Unavailable | None:
        """Start the thread; later events report a source without figures."""
        self._thread.start()
        return None

    def stop(self) -> None:
        """End the thread after its present call; a hung one is left behind."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_S)

    def read(self, now_ns: int) -> Mapping[str, float]:
        """Return the means since the last call."""
        self._source.follow(tuple(self._writer.strategy_gpus.values()))
        began_ns, trouble = self._began_ns, self._trouble
        if began_ns is not None and now_ns - began_ns >= PATIENCE_NS:
            why = f"{self._source.name} has not responded for {PATIENCE_NS / 1e9:g} s"
            trouble = Unavailable(why, "tfwatch waits for it")
        readings = [] if trouble else self._take(now_ns)
        self._report(trouble, readings)
        if not readings:
            return {}
        self._add_cards(readings, now_ns)
        means = [combine(gpus) for gpus in readings]
        return {column: fmean(values) for column in _COLUMNS if (values := known(means, column))}

    # -- figures ----------------------------------------------------------------------------------

    def _take(self, now_ns: int) -> list[Sequence[GpuReading]]:
        """Return the readings since the last call, or the last one if it is not stale."""
        new = [self._readings.popleft() for _ in range(len(self._readings))]
        self._newest = new[-1] if new else self._newest
        shown_ns = round(self.interval_s * 1e9) + _STALE_NS
        if self._newest and now_ns - self._newest[0] > shown_ns:
            self._newest = None
        return [gpus for _, gpus in new or ([self._newest] if self._newest else [])]

    def _add_cards(self, readings: Sequence[Sequence[GpuReading]], now_ns: int) -> None:
        """Write the mean of the readings of each of several GPUs, once a second."""
        self._cards += [gpus for gpus in readings if len(gpus) > 1]
        if not self._cards or now_ns < self._cards_due_ns:
            return
        newest, self._cards_due_ns = self._cards[-1], now_ns + _CARDS_NS
        self._report_cards(newest)
        for index in range(len(newest)):
            seen = [gpus[index] for gpus in self._cards if len(gpus) == len(newest)]
            busy, memory = (
                fmean(known(seen, column) or [math.nan])
                for column in ("gpu_busy", "gpu_memory_bytes")
            )
            self._writer.gpu(self._writer.now_ns(), index, busy, memory)
        self._cards = []

    # -- events -----------------------------------------------------------------------------------

    def _report(
        self, trouble: Unavailable | None, readings: Sequence[Sequence[GpuReading]]
    ) -> None:
        """Report the GPU, and why figures are missing, those of one reason together: `GPU power,
        frequency`."""
        if trouble:
            self._found = None
            self._missing.report(self.name, trouble)
        elif readings:
            self._report_found(readings[-1][0])
            by_reason: dict[Unavailable, list[str]] = {}
            for column, why in self._gaps.items():
                by_reason.setdefault(why, []).append(_COLUMNS[column])
            missing = {f"GPU {', '.join(words)}": why for why, words in by_reason.items()}
            self._missing.withdraw_others(missing)
            for name, why in missing.items():
                self._missing.report(name, why)

    def _report_found(self, gpu: GpuReading) -> None:
        if self._found and self._found.source == self._source.name:
            return
        self._missing.forget(self.name)
        source, now_ns = self._source, self._writer.now_ns()
        facts = (gpu.name, gpu.total_bytes, gpu.unified, source.gpus)
        self._found = GpuFound(now_ns, source.name, *facts)
        if gpu.name:
            self._writer.event(self._found)

    def _report_cards(self, cards: Sequence[GpuReading]) -> None:
        card_of = dict(zip(self._writer.strategy_gpus, cards, strict=False))
        names = {device: card.name for device, card in card_of.items()}
        if names == self._reported_cards:
            return
        self._reported_cards, now_ns = names, self._writer.now_ns()
        bytes_of = {device: card.total_bytes for device, card in card_of.items()}
        totals = {device: total for device, total in bytes_of.items() if total is not None}
        self._writer.event(GpusFound(now_ns, names, totals))
        for device, name in names.items():
            if not name:
                self._writer.event(SensorMissing(now_ns, device, _UNLISTED, ""))

    # -- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        wait_s: float | None = 0.0
        while wait_s is not None and not self._stopping.wait(wait_s):
            wait_s = self.read_once()
        self._source.close()

    def read_once(self) -> float | None:
        """Read once; return the seconds until the next time, None where the source is unavailable
        in this run."""
        self._began_ns = self._clock.now_ns()
        before_ns = self._clock.thread_ns()
        failures: list[str] = []
        try:
            with fails_open(failures.append, reason):
                return self._read()
            return self._handle_failure(failures[0])
        finally:
            self._began_ns = None
            # The shortest interval that the budget allows, from the mean cost of the last calls.
            cost_s = (self._clock.thread_ns() - before_ns) / 1e9
            self._cost_s += 0.2 * (cost_s - self._cost_s)
            self.interval_s = min(max(self._cost_s / _BUDGET, self._source.period_s), _SLOWEST_S)

    def _read(self) -> float | None:
        if not self._is_ready and (why := self._source.why_unavailable()):
            if self._has_worked:
                return self._handle_failure(why.reason)
            self._trouble = why
            return None
        self._is_ready = True
        gpus = self._source.read()
        self._readings.append((self._clock.now_ns(), gpus))
        self._gaps = dict(self._source.gaps())
        self._has_worked, self._trouble = True, None
        return self.interval_s

    def _handle_failure(self, why: str) -> float:
        """Close the source and set the reason; return the seconds until the next try."""
        failures = [why]
        self._is_ready = False
        with fails_open(failures.append, reason):
            self._source.close()
        self._trouble = Unavailable("; ".join(failures), f"tfwatch tries again in {_AGAIN_S:g} s")
        return _AGAIN_S

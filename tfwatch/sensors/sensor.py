"""Sensors of the machine: what every one has, the readings of a GPU, and the rate of a counter."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING

from tfwatch.core import errors
from tfwatch.core.events import SensorMissing
from tfwatch.core.system_tool import run

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from tfwatch.runs.writer import RunWriter


@dataclass(frozen=True, slots=True)
class Unavailable:
    """There are no figures on this machine. reason: why. fix: how to get them."""

    reason: str
    fix: str = ""


class SensorError(Exception):
    """A source has no more figures; the message is the reason."""


def output_of(command: Sequence[str], patience_s: float) -> str:
    """Return what a tool of the system prints.

    Raises:
        SensorError: it fails, or takes longer than this.
    """
    result = run(command, patience_s)
    if result.failure:
        raise SensorError(f"{os.path.basename(command[0])}: {result.failure}")
    return result.out


def reason(error: Exception) -> str:
    """Return an error as text: a `SensorError`'s message, and of any other error the class too."""
    return str(error) if isinstance(error, SensorError) else errors.reason(error)


class Sensor:
    """A source of figures. The thread of `runner.Sensors` makes all calls."""

    #: On the screen, e.g. `disk`.
    name = ""

    def why_unavailable(self) -> Unavailable | None:
        """Return why it cannot be read here, None where it can; called once, before `read`."""
        return None

    def read(self, now_ns: int) -> Mapping[str, float]:
        """Return columns of `core.rows.SAMPLE` and their figures; NaN for a rate that needs a
        second reading.

        now_ns: the monotonic clock. It may raise anything: the runner publishes the error and reads
        again next time.
        """
        raise NotImplementedError


class Rate:
    """The change of a counter per second."""

    def __init__(self) -> None:
        self._before: tuple[int, float] | None = None

    def of(self, now_ns: int, value: float) -> float:
        """Return the rate since the last call; NaN at the first call, and where the counter fell
        (it was reset)."""
        before, self._before = self._before, (now_ns, value)
        if before is None or now_ns <= before[0] or not value >= before[1]:
            return math.nan
        return (value - before[1]) / (now_ns - before[0]) * 1e9


#: A figure that comes and goes has at most one report in so many nanoseconds.
_REPORT_NS = 10 * 10**9


class MissingFigures:
    """Reports the sensors without figures, and those that have them again."""

    def __init__(self, writer: RunWriter) -> None:
        self._writer = writer
        self._reported: dict[str, SensorMissing] = {}

    def report(self, name: str, why: Unavailable) -> None:
        """Report why a sensor has no figures, once for each reason."""
        before = self._reported.get(name)
        if before is None or before.reason != why.reason:
            self._write(SensorMissing(self._writer.now_ns(), name, why.reason, why.fix))

    def withdraw(self, name: str) -> None:
        """Report that a sensor has figures again, if it was reported."""
        before, now_ns = self._reported.get(name), self._writer.now_ns()
        if before is not None and before.reason and now_ns - before.at_ns >= _REPORT_NS:
            self._write(SensorMissing(now_ns, name))

    def forget(self, name: str) -> None:
        """Take it that the sensor works: another event says so."""
        self._reported.pop(name, None)

    def withdraw_others(self, names: Collection[str]) -> None:
        """Report that all sensors but these have figures again."""
        for name in self._reported.keys() - set(names):
            self.withdraw(name)

    def _write(self, event: SensorMissing) -> None:
        self._reported[event.sensor] = event
        self._writer.event(event)


# -- GPUs ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GpuReading:
    """A reading of one GPU."""

    #: Columns of `core.rows.SAMPLE`; None is n/a.
    figures: Mapping[str, float | None] = field(default_factory=dict)
    #: Empty where the source does not list the GPU.
    name: str = ""
    #: The GPU's own memory, or with `unified` the machine's, which the GPU shares.
    total_bytes: int | None = None
    unified: bool = False


#: The figure of several GPUs: means of their activity, the sum of their power, and of the others
#: the worst: the lowest clock, the fullest memory.
_COMBINED: Mapping[str, Callable[[Sequence[float]], float]] = {
    "gpu_busy": fmean,
    "gpu_process_busy": fmean,
    "gpu_freq_mhz": min,
    "gpu_power_w": sum,
    "gpu_memory_bytes": max,
    "thermal_level": max,
}


def known(readings: Sequence[GpuReading], column: str) -> list[float]:
    """Return the known figures of a column."""
    values = (reading.figures.get(column) for reading in readings)
    return [value for value in values if value is not None]


def combine(readings: Sequence[GpuReading]) -> GpuReading:
    """Return the reading of several GPUs as one. A sum that lacks a GPU is unknown."""
    if len(readings) == 1:
        return readings[0]
    figures = {
        column: of(values)
        for column, of in _COMBINED.items()
        if (values := known(readings, column)) and (of is not sum or len(values) == len(readings))
    }
    return GpuReading(figures)


class GpuSource:
    """A source of GPU figures. A `GpuSensor` calls it from its own thread, so a call may take
    long."""

    #: As in `core.events.GpuFound.source`.
    name = ""
    #: The shortest interval of its readings, seconds.
    period_s = 0.25
    #: The GPUs of the machine.
    gpus = 1

    def why_unavailable(self) -> Unavailable | None:
        """Return why it cannot be read here, else prepare `read`. Called again after a failure."""
        raise NotImplementedError

    def follow(self, gpus: Sequence[str]) -> None:
        """Read these GPUs from the next `read` on, given by their UUIDs; none: the first one."""

    def read(self) -> Sequence[GpuReading]:
        """Return the newest reading of each GPU.

        Raises:
            SensorError: there are no more figures.
        """
        raise NotImplementedError

    def gaps(self) -> Mapping[str, Unavailable]:
        """Return the reasons why columns are missing, as of the last `read`."""
        return {}

    def close(self) -> None:
        """Release the resources of `why_unavailable`. Never raises."""

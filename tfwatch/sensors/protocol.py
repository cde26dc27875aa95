"""What a sensor is: its readings, its availability with a reason, and a counter's rate.

What the machine does while it trains: sensors that fill columns of `core.rows.SAMPLE`, and what reads them.

A counter's change per second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from tfwatch.core import errors

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What `--gpu-sensor` takes.
GPU_SENSORS = ("auto", "powermetrics", "ioreg", "nvml", "none")


@dataclass(frozen=True, slots=True)
class Available:
    """The sensor gives figures."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """The sensor gives none on this machine: why, and how a user gets them."""

    reason: str
    fix: str


@dataclass(frozen=True, slots=True)
class GpuReading:
    """What a GPU does. `busy`, `process_busy`: 0 to 1, of all programs and of the one that trains. None is n/a."""

    busy: float | None = None
    freq_mhz: float | None = None
    power_w: float | None = None
    memory_bytes: float | None = None
    temperature_c: float | None = None
    process_busy: float | None = None


@dataclass(frozen=True, slots=True)
class FullReading(GpuReading):
    """What a GPU's source may tell besides. None is n/a.

    thermal_level: as in `core.rows.SAMPLE`. limited_by: what keeps the GPU below the clock it could have, in words;
    empty where nothing does. resets: how often the GPU was reset since the machine booted.
    """

    cpu_power_w: float | None = None
    ane_power_w: float | None = None
    thermal_level: float | None = None
    limited_by: str = ""
    resets: int | None = None


@dataclass(frozen=True, slots=True)
class GpuIdentity:
    """Whose figures they are; the fields are those of `core.events.GpuFound`."""

    name: str
    memory_bytes: int | None = None
    unified: bool = False
    gpus: int = 1


Availability: TypeAlias = Available | Unavailable


class SensorError(Exception):
    """A source has stopped giving figures; its text is the reason."""


def reason(error: Exception) -> str:
    """Why a sensor gives nothing: a `SensorError`'s text, and of any other error also what it is."""
    return str(error) if isinstance(error, SensorError) else errors.reason(error)


class GpuSource(Protocol):
    """One way to a GPU's figures. `gpu.Lane` calls it from one thread of its own, so that a call may take long."""

    @property
    def name(self) -> str:
        """As `--gpu-sensor` takes it."""

    @property
    def period_s(self) -> float:
        """How often a reading holds something new."""

    def available(self) -> Availability:
        """Whether it can be read here. Asked again after it failed; makes it ready for `read`."""

    def read(self) -> GpuReading:
        """The newest figures.

        Raises:
            SensorError: there are none any more.
        """

    def identity(self) -> GpuIdentity:
        """Of the GPU that is read, after a first `read`."""

    def gaps(self) -> Mapping[str, Unavailable]:
        """Why fields of `GpuReading` are None, by name, as of the last `read`."""

    def close(self) -> None:
        """Let go of what `available` took. Never raises."""

    def leave(self) -> None:
        """Let a `read` that waits in another thread return soon."""


class Sensor(Protocol):
    """One source of figures. Both calls come from the one thread of `runner.Sensors`."""

    @property
    def name(self) -> str:
        """What it measures, as the screen names it, e.g. `disk`."""

    def available(self) -> Availability:
        """Whether it can be read here; asked once, before the first `read`."""

    def read(self, now_ns: int) -> Mapping[str, float]:
        """Columns of `core.rows.SAMPLE` and their figures; NaN for a rate that needs a second reading.

        now_ns: the monotonic clock. May raise anything: the runner publishes it and reads again the next time.
        """


class Rate:
    """The change of a counter per second."""

    def __init__(self) -> None:
        self._before: tuple[int, float] | None = None

    def of(self, now_ns: int, value: float) -> float:
        """Since the last call; NaN at the first one, and where the counter fell (it started anew)."""
        before, self._before = self._before, (now_ns, value)
        if before is None or now_ns <= before[0] or not value >= before[1]:
            return math.nan
        return (value - before[1]) / (now_ns - before[0]) * 1e9

"""The protocols of sensors, their readings, their availability with a reason, and the rate of a
counter."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Protocol, TypeAlias

from tfwatch.core import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Available:
    """The sensor has figures."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """The sensor has no figures on this machine. reason: why. fix: how to get them."""

    reason: str
    fix: str


@dataclass(frozen=True, slots=True)
class GpuReading:
    """A reading of a GPU. busy, process_busy: 0 to 1, by all programs and by the training process.
    None is n/a."""

    busy: float | None = None
    freq_mhz: float | None = None
    power_w: float | None = None
    memory_bytes: float | None = None
    temperature_c: float | None = None
    process_busy: float | None = None


@dataclass(frozen=True, slots=True)
class FullReading(GpuReading):
    """A reading with more figures than every source has. None is n/a.

    thermal_level: as in `core.rows.SAMPLE`. limited_by: the reason why the GPU's clock is limited,
    as text; empty where it is not. cards: of several GPUs that train together, each.
    """

    cpu_power_w: float | None = None
    thermal_level: float | None = None
    limited_by: str = ""
    cards: tuple[CardReading, ...] = ()


@dataclass(frozen=True, slots=True)
class CardReading(FullReading):
    """One of several GPUs that train together. name: empty where the source does not find it;
    total_bytes: memory."""

    name: str = ""
    total_bytes: int | None = None


def combine(cards: Sequence[CardReading]) -> FullReading:
    """Return the reading of several GPUs as one, for the known ones of each figure.

    Means of their activity, the sum of their power, and of the others the worst: the lowest clock,
    the fullest memory, the hottest temperature. A sum that lacks a GPU is unknown.
    """
    limits = [
        (card.thermal_level, card.limited_by) for card in cards if card.thermal_level is not None
    ]
    level, limited_by = max(limits, default=(None, ""), key=lambda limit: limit[0] or 0.0)
    power = _known(cards, "power_w")
    return FullReading(
        busy=_of(fmean, _known(cards, "busy")),
        freq_mhz=_of(min, _known(cards, "freq_mhz")),
        power_w=sum(power) if len(power) == len(cards) else None,
        memory_bytes=_of(max, _known(cards, "memory_bytes")),
        temperature_c=_of(max, _known(cards, "temperature_c")),
        process_busy=_of(fmean, _known(cards, "process_busy")),
        thermal_level=level,
        limited_by=limited_by,
        cards=tuple(cards),
    )


def _known(cards: Sequence[CardReading], field: str) -> list[float]:
    return [value for card in cards if (value := getattr(card, field)) is not None]


def _of(combined: Callable[[Sequence[float]], float], values: Sequence[float]) -> float | None:
    return combined(values) if values else None


@dataclass(frozen=True, slots=True)
class GpuIdentity:
    """The GPU of the figures; the fields are those of `core.events.GpuFound`."""

    name: str
    memory_bytes: int | None = None
    unified: bool = False
    gpus: int = 1


Availability: TypeAlias = Available | Unavailable


class SensorError(Exception):
    """A source has no more figures; the message is the reason."""


def reason(error: Exception) -> str:
    """Return an error as text: a `SensorError`'s message, and of any other error the class too."""
    return str(error) if isinstance(error, SensorError) else errors.reason(error)


class GpuSource(Protocol):
    """A source of GPU figures. A `SourceThread` calls it from its own thread, so a call may take
    long."""

    @property
    def name(self) -> str:
        """The name, as in `--gpu-sensor`."""

    @property
    def period_s(self) -> float:
        """The interval of new readings, seconds."""

    def available(self) -> Availability:
        """Return whether it can be read here, and prepare `read`. Called again after a failure."""

    def follow(self, gpus: Sequence[str]) -> None:
        """Read these GPUs from the next `read` on, given by their UUIDs; none: the first one."""

    def read(self) -> GpuReading:
        """Return the newest figures.

        Raises:
            SensorError: there are no more figures.
        """

    def identity(self) -> GpuIdentity:
        """Return the identity of the GPU, after a first `read`."""

    def gaps(self) -> Mapping[str, Unavailable]:
        """Return the reasons why fields of `GpuReading` are None, by name, as of the last
        `read`."""

    def close(self) -> None:
        """Release the resources of `available`. Never raises."""

    def cancel(self) -> None:
        """Make a `read` that waits in another thread return soon."""


class Sensor(Protocol):
    """A source of figures. The thread of `runner.Sensors` makes all calls."""

    @property
    def name(self) -> str:
        """The name on the screen, e.g. `disk`."""

    def available(self) -> Availability:
        """Return whether it can be read here; called once, before the first `read`."""

    def read(self, now_ns: int) -> Mapping[str, float]:
        """Return columns of `core.rows.SAMPLE` and their figures; NaN for a rate that needs a
        second reading.

        now_ns: the monotonic clock. It may raise anything: the runner publishes the error and reads
        again next time.
        """


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

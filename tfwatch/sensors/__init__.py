"""What the machine does while it trains: sensors that fill columns of `core.rows.SAMPLE`, and what reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping


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


Availability: TypeAlias = Available | Unavailable


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

"""A source of GPU figures that a test leads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tfwatch.sensors import Availability, Available, GpuIdentity, GpuReading, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.runs.folders import FakeClock

REFUSED = Unavailable("sudo has no rule for it", "tfwatch doctor --sudoers")


@dataclass
class FakeSource:
    """A source that answers and reads what the test says; an exception is raised."""

    name: str = "nvml"
    period_s: float = 0.25
    answer: Availability | Exception = field(default_factory=Available)
    reading: GpuReading | Exception = field(default_factory=lambda: GpuReading(busy=0.5))
    missing: dict[str, Unavailable] = field(default_factory=dict)
    asked: int = 0
    closed: int = 0
    closing: Exception | None = None
    takes_s: float = 0.0
    clock: FakeClock | None = None

    def available(self) -> Availability:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def read(self) -> GpuReading:
        if self.clock:
            self.clock.at_s += self.takes_s
        if isinstance(self.reading, Exception):
            raise self.reading
        return self.reading

    def identity(self) -> GpuIdentity:
        return GpuIdentity(f"GPU of {self.name}", 2**34, gpus=2)

    def gaps(self) -> Mapping[str, Unavailable]:
        return self.missing

    def close(self) -> None:
        self.closed += 1
        if self.closing:
            raise self.closing

    def leave(self) -> None: ...

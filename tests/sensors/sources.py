"""A fake source of GPU figures, and the sensor over several."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.runs.folders import written
from tfwatch.core.events import Event, decode
from tfwatch.runs.format import EVENTS
from tfwatch.sensors.gpu.sensor import GpuSensor
from tfwatch.sensors.protocol import Availability, Available, GpuIdentity, GpuReading, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.runs.folders import FakeClock
    from tfwatch.runs.writer import RunWriter
    from tfwatch.sensors.gpu.sensor import SourceThread

REFUSED = Unavailable("sudo has no rule for it", "tfwatch doctor --sudoers")
NO_WATTS = Unavailable("ioreg does not report it", "powermetrics does")


@dataclass
class FakeSource:
    """A source with given results; an exception is raised."""

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
    followed: tuple[str, ...] = ()

    def available(self) -> Availability:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def follow(self, gpus: Sequence[str]) -> None:
        self.followed = tuple(gpus)

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

    def cancel(self) -> None: ...


def new_events(writer: RunWriter) -> list[Event | None]:
    """Return the events since the last call."""
    writer.flush()
    lines = written(writer, EVENTS).splitlines()
    before = getattr(writer, "seen", 0)
    writer.seen = len(lines)  # type: ignore[attr-defined]
    return [decode(line) for line in lines[before:]]


class Machine:
    """A sensor whose sources are read at the test's command."""

    def __init__(self, writer: RunWriter, clock: FakeClock, *sources: FakeSource) -> None:
        self.clock = clock
        self.sensor = GpuSensor(writer, clock.clock, sources)
        self.threads = self.sensor._threads

    def sample(self, *threads: SourceThread) -> dict[str, float]:
        for thread in threads or self.threads:
            thread.read_once()
        return dict(self.sensor.read(self.clock.now_ns()))

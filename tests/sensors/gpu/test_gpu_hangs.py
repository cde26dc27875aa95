"""A hung source of GPU figures, with real threads."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from tests.runs.processes import wait_until
from tests.sensors.sources import FakeSource, new_events
from tfwatch.core.events import SensorMissing
from tfwatch.sensors.gpu.sensor import GpuSensor
from tfwatch.sensors.protocol import Available, GpuReading

if TYPE_CHECKING:
    import pytest

    from tests.runs.folders import FakeClock
    from tfwatch.runs.writer import RunWriter


class Hanging(FakeSource):
    """Hangs in `read` from the second call on, until it is released."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.go, self.hangs, self.reads = threading.Event(), threading.Event(), 0

    def read(self) -> GpuReading:
        self.reads += 1
        if self.reads > 1:
            self.hangs.set()
            self.go.wait(60)
        return super().read()


def test_a_hung_source_is_reported_within_two_seconds_and_blocks_no_other(
    writer: RunWriter, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfwatch.sensors.gpu.sensor._SECONDARY_S", 0.02)
    hanging = Hanging(name="powermetrics", reading=GpuReading(busy=0.9))
    sensor = GpuSensor(writer, clock.clock, [hanging, FakeSource("ioreg")])
    assert sensor.available() == Available()
    wait_until(lambda: sensor.read(clock.now_ns()).get("gpu_busy") == 0.9)
    assert hanging.hangs.wait(10)
    new_events(writer)

    seen = []
    for _ in range(4):  # two seconds, a sample every half
        clock.at_s += 0.5
        before = len(sensor._threads[1].readings)
        wait_until(lambda seen_before=before: len(sensor._threads[1].readings) > seen_before)  # type: ignore[misc]
        seen.append(
            (
                sensor.read(clock.now_ns()).get("gpu_busy"),
                [type(event).__name__ for event in new_events(writer)],
            )
        )
    assert seen[0] == (0.9, [])  # not stale yet
    assert seen[-1][0] == 0.5
    assert [names for _, names in seen if names] == [["GpuFound", "SensorMissing"]]

    hanging.go.set()
    wait_until(lambda: sensor.read(clock.now_ns()).get("gpu_busy") == 0.9)
    assert [type(event).__name__ for event in new_events(writer)] == ["GpuFound"]
    sensor.stop()
    assert not [
        thread
        for thread in threading.enumerate()
        if thread.name in ("tfwatch-ioreg", "tfwatch-powermetrics")
    ]


def test_the_only_source_hangs_and_stopping_does_not_wait_for_it(
    writer: RunWriter, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfwatch.sensors.gpu.sensor._STOP_S", 0.05)
    hanging = Hanging()
    hanging.reads = 1
    sensor = GpuSensor(writer, clock.clock, [hanging])
    sensor.available()
    assert hanging.hangs.wait(10)
    assert sensor.read(clock.now_ns()) == {}
    assert new_events(writer) == []
    clock.at_s += 1.5
    assert sensor.read(clock.now_ns()) == {}
    sensor.stop()
    hanging.go.set()

    reason = "nvml has not responded for 1.5 s"
    assert new_events(writer) == [
        SensorMissing(2_500_000_000, "GPU", reason, "tfwatch waits for it")
    ]

"""The thread of one source of GPU figures: its interval and its failures."""

from __future__ import annotations

import pytest

from tests.runs.folders import FakeClock
from tests.sensors.sources import REFUSED, FakeSource
from tfwatch.sensors.gpu import sensor
from tfwatch.sensors.gpu.sensor import SourceThread
from tfwatch.sensors.protocol import GpuReading, SensorError, Unavailable


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1.0)


def test_an_unavailable_source_is_tried_once() -> None:
    thread = SourceThread(FakeSource(answer=REFUSED))

    assert thread.read_once() is None
    assert (thread.is_working, thread.trouble) == (False, REFUSED)


def test_a_source_that_worked_once_is_tried_again(clock: FakeClock) -> None:
    source = FakeSource()
    thread = SourceThread(source, clock.clock)
    thread.read_once()
    source.reading, source.answer = SensorError("gone"), REFUSED

    assert [thread.read_once(), thread.read_once()] == [1.0, 2.0]
    assert thread.trouble == Unavailable("sudo has no rule for it", "tfwatch tries again in 2 s")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        pytest.param(SensorError("it ended"), "it ended", id="its own"),
        pytest.param(ValueError("no"), "ValueError: no", id="any other"),
        pytest.param(OSError(), "OSError", id="without a message"),
    ],
)
def test_any_exception_of_a_source_is_a_reason(
    error: Exception, reason: str, clock: FakeClock
) -> None:
    thread = SourceThread(FakeSource(answer=error), clock.clock)

    assert thread.read_once() == 1.0
    assert thread.trouble is not None
    assert thread.trouble.reason == reason


def test_repeated_failures_lengthen_the_wait_until_the_source_is_steady(clock: FakeClock) -> None:
    source = FakeSource(reading=SensorError("no"))
    thread = SourceThread(source, clock.clock)
    assert [thread.read_once() for _ in range(11)] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]

    source.reading = GpuReading(busy=0.1)
    thread.read_once()
    source.reading = SensorError("no")
    assert thread.read_once() == 300
    source.reading = GpuReading(busy=0.1)
    thread.read_once()
    clock.at_s += 61
    thread.read_once()
    source.reading = SensorError("no")
    assert thread.read_once() == 1


def test_a_costly_source_is_read_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    spent = iter(range(0, 10**12, 4_000_000))  # 4 ms of tools a call
    monkeypatch.setattr(sensor, "spent_ns", lambda: next(spent))
    thread = SourceThread(FakeSource("ioreg"), FakeClock().clock)
    paces = []
    for _ in range(30):
        thread.read_once()
        paces.append(thread.interval_s)

    assert paces[0] < paces[5] < paces[-1] == pytest.approx(1.0, rel=0.01)
    monkeypatch.setattr(sensor, "spent_ns", lambda: 0)
    for _ in range(30):
        thread.read_once()
    assert thread.interval_s == 0.25

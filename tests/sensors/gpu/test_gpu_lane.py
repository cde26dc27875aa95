"""One source of GPU figures, asked again and again: when next, and what is told of it."""

from __future__ import annotations

import pytest

from tests.runs.folders import FakeClock
from tests.sensors.sources import REFUSED, FakeSource
from tfwatch.sensors.gpu import sensor
from tfwatch.sensors.gpu.sensor import Lane
from tfwatch.sensors.protocol import GpuReading, SensorError, Unavailable


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1.0)


def test_a_source_that_has_nothing_is_asked_once() -> None:
    lane = Lane(FakeSource(answer=REFUSED))

    assert lane.turn() is None
    assert (lane.works, lane.trouble) == (False, REFUSED)


def test_one_that_once_worked_and_has_nothing_now_is_asked_again(clock: FakeClock) -> None:
    source = FakeSource()
    lane = Lane(source, clock.clock)
    lane.turn()
    source.reading, source.answer = SensorError("gone"), REFUSED

    assert [lane.turn(), lane.turn()] == [1.0, 2.0]
    assert lane.trouble == Unavailable("sudo has no rule for it", "tfwatch tries again in 2 s")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        pytest.param(SensorError("it ended"), "it ended", id="its own"),
        pytest.param(ValueError("no"), "ValueError: no", id="any other"),
        pytest.param(OSError(), "OSError", id="one without a word"),
    ],
)
def test_whatever_a_source_raises_is_a_reason(error: Exception, reason: str, clock: FakeClock) -> None:
    lane = Lane(FakeSource(answer=error), clock.clock)

    assert lane.turn() == 1.0
    assert lane.trouble is not None
    assert lane.trouble.reason == reason


def test_a_source_that_cannot_be_let_go_of_is_tried_again_too(clock: FakeClock) -> None:
    lane = Lane(FakeSource(answer=SensorError("it ended"), closing=OSError("gone")), clock.clock)

    assert [lane.turn(), lane.turn()] == [1.0, 2.0]
    assert lane.trouble is not None
    assert lane.trouble.reason == "it ended; OSError: gone"


def test_one_that_fails_again_and_again_is_tried_less_often_until_it_has_worked_for_a_while(clock: FakeClock) -> None:
    source = FakeSource(reading=SensorError("no"))
    lane = Lane(source, clock.clock)
    assert [lane.turn() for _ in range(11)] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]

    source.reading = GpuReading(busy=0.1)
    lane.turn()
    source.reading = SensorError("no")
    assert lane.turn() == 300
    source.reading = GpuReading(busy=0.1)
    lane.turn()
    clock.at_s += 61
    lane.turn()
    source.reading = SensorError("no")
    assert lane.turn() == 1


def test_a_costly_source_is_asked_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    spent = iter(range(0, 10**12, 4_000_000))  # 4 ms of tools a call
    monkeypatch.setattr(sensor, "spent_ns", lambda: next(spent))
    lane = Lane(FakeSource("ioreg"), FakeClock().clock)
    paces = []
    for _ in range(30):
        lane.turn()
        paces.append(lane.pace_s)

    assert paces[0] < paces[5] < paces[-1] == pytest.approx(1.0, rel=0.01)
    monkeypatch.setattr(sensor, "spent_ns", lambda: 0)
    for _ in range(30):
        lane.turn()
    assert lane.pace_s == 0.25

"""The sampling thread under a fake clock."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.runs.folders import written
from tfwatch.core.clock import Clock
from tfwatch.core.events import Event, SensorMissing, Slept, decode
from tfwatch.core.rows import SAMPLE, Rows
from tfwatch.runs.format import EVENTS, SAMPLES, Manifest
from tfwatch.runs.writer import RunWriter
from tfwatch.sensors.runner import Sensors, sample_on_schedule
from tfwatch.sensors.sensor import Sensor, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

MS = 10**6
ORIGIN_NS = 5_000 * MS


@dataclass
class FakeTime:
    now_ns: int = ORIGIN_NS
    wall_ns: int = 1_700_000_000 * 10**9
    cpu_ns: int = 0
    asleep_ns: int | None = None

    def clock(self) -> Clock:
        return Clock(
            lambda: self.now_ns, lambda: self.wall_ns, lambda: self.cpu_ns, lambda: self.asleep_ns
        )

    def pass_ms(self, ms: float) -> None:
        self.now_ns += int(ms * MS)
        self.wall_ns += int(ms * MS)


@dataclass
class FakeSensor(Sensor):
    name: str = "memory"
    figures: Mapping[str, float] = field(default_factory=lambda: {"memory_used_bytes": 7.0})
    missing: Unavailable | Exception | None = None
    error: Exception | None = None
    reads: int = 0

    def why_unavailable(self) -> Unavailable | None:
        if isinstance(self.missing, Exception):
            raise self.missing
        return self.missing

    def read(self, now_ns: int) -> Mapping[str, float]:
        self.reads += 1
        if self.error:
            raise self.error
        return self.figures


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def writer(time: FakeTime) -> RunWriter:
    manifest = Manifest(
        "r", "cnn", origin_ns=ORIGIN_NS, origin_wall_ns=0, pid=1, process_started_s=0, boot_id=""
    )
    return RunWriter(None, manifest, time.clock())


def rows(writer: RunWriter) -> Rows:
    writer.flush()
    return np.frombuffer(written(writer, SAMPLES), dtype=SAMPLE)


def events(writer: RunWriter) -> list[Event | None]:
    writer.flush()
    return [decode(line) for line in written(writer, EVENTS).splitlines()]


def test_a_row_has_each_sensors_figures_and_nan_for_missing_ones(
    time: FakeTime, writer: RunWriter
) -> None:
    sensors = [FakeSensor(), FakeSensor("swap", {"swap_used_bytes": 9.0})]
    sampler = Sensors(writer, time.clock(), sensors)
    sampler.begin()
    time.pass_ms(250)
    sampler.sample()
    (row,) = rows(writer)
    assert row["at_ns"] == 250 * MS
    assert (row["memory_used_bytes"], row["swap_used_bytes"]) == (7.0, 9.0)
    assert np.isnan([row["cpu_cores"], row["process_cores"]]).all()
    assert np.isnan([row["process_bytes"], row["memory_available_bytes"]]).all()
    assert not events(writer)


def test_a_failed_sensor_stops_no_other_and_is_reported_once_until_it_works(
    time: FakeTime, writer: RunWriter
) -> None:
    broken = FakeSensor("swap", {"swap_used_bytes": 9.0}, error=PermissionError("not allowed"))
    unavailable = FakeSensor("CPU", missing=RuntimeError())
    sampler = Sensors(writer, time.clock(), [broken, unavailable, FakeSensor()])
    sampler.begin()
    sampler.sample()
    sampler.sample()
    broken.error = None
    time.pass_ms(10_000)
    sampler.sample()
    sampler.sample()
    assert rows(writer)["memory_used_bytes"].tolist() == [7.0] * 4
    np.testing.assert_array_equal(rows(writer)["swap_used_bytes"], [np.nan, np.nan, 9.0, 9.0])
    assert events(writer) == [
        SensorMissing(0, "CPU", "RuntimeError", "the next run tries again"),
        SensorMissing(
            0, "swap", "PermissionError: not allowed", "tfwatch tries again twice a second"
        ),
        SensorMissing(10_000 * MS, "swap"),
    ]


HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("asleep_ms", "jump_ms", "slept_ms"),
    [
        pytest.param(None, 0, [], id="awake"),
        pytest.param(None, 1_900, [], id="a clock set right"),
        pytest.param(None, -60_000, [], id="a clock set back"),
        pytest.param(None, HOUR_MS, [HOUR_MS], id="an hour asleep"),
        pytest.param(0, HOUR_MS, [], id="counted: the wall clock alone was set"),
        pytest.param(1_900, HOUR_MS, [], id="counted: less than a nap"),
        pytest.param(HOUR_MS, HOUR_MS, [HOUR_MS], id="counted: an hour asleep"),
    ],
)
def test_sleep_is_what_the_system_counts_and_wall_time_where_it_counts_none(
    asleep_ms: int | None, jump_ms: int, slept_ms: list[int], time: FakeTime, writer: RunWriter
) -> None:
    time.asleep_ns = None if asleep_ms is None else 7 * MS
    sampler = Sensors(writer, time.clock(), [])
    sampler.sample()
    if asleep_ms is not None:
        time.asleep_ns = (7 + asleep_ms) * MS
    time.wall_ns += jump_ms * MS
    time.pass_ms(500)
    sampler.sample()
    sampler.sample()
    assert events(writer) == [Slept(500 * MS, ms) for ms in slept_ms]


@pytest.mark.parametrize(
    ("takes_ms", "overslept_ms", "began_ms"),
    [
        pytest.param([10, 10, 10], 0, [0, 500, 1000], id="steady"),
        pytest.param([600, 10, 10], 0, [0, 1000, 1500], id="one takes too long: a time left out"),
        pytest.param([10, 500, 10], 0, [0, 500, 1500], id="one takes the whole period"),
        pytest.param([10, 10, 10], 30, [0, 530, 1000], id="one begins late, the next in time"),
    ],
)
def test_the_schedule_is_absolute(
    takes_ms: list[int], overslept_ms: int, began_ms: list[float], time: FakeTime
) -> None:
    calls = list[float]()
    oversleeps = iter([0, overslept_ms, 0, 0])

    def sample() -> None:
        calls.append((time.now_ns - ORIGIN_NS) / MS)
        time.pass_ms(takes_ms[len(calls) - 1])

    def wait(seconds: float) -> bool:
        time.pass_ms(seconds * 1000 + next(oversleeps))
        return len(calls) == len(takes_ms)

    sample_on_schedule(sample, time.clock(), wait)
    assert calls == began_ms


class SignallingWriter(RunWriter):
    """A writer that signals its first row and its first event."""

    def __init__(self) -> None:
        super().__init__(None, Manifest("r", "cnn", 0, 0, pid=1, process_started_s=0, boot_id=""))
        self.sampled, self.reported = threading.Event(), threading.Event()

    def sample(self, at_ns: int, figures: Mapping[str, float]) -> None:
        super().sample(at_ns, figures)
        self.sampled.set()

    def event(self, event: Event) -> None:
        super().event(event)
        self.reported.set()


def test_the_thread_samples_this_machine_until_it_is_stopped() -> None:
    writer = SignallingWriter()
    sensors = Sensors(writer)
    before = set(threading.enumerate())
    sensors.start()
    assert writer.sampled.wait(timeout=10)
    sensors.stop()
    sensors.stop()
    assert rows(writer)["memory_available_bytes"][0] > 0
    assert not set(threading.enumerate()) - before


def test_a_failed_thread_is_reported() -> None:
    writer = SignallingWriter()
    sensors = Sensors(writer, sensors=[FakeSensor(figures={"swap_used_bytes": "much"})])  # type: ignore[dict-item]
    sensors.start()
    assert writer.reported.wait(timeout=10)
    sensors.stop()
    (event,) = events(writer)
    assert isinstance(event, SensorMissing)
    assert (event.sensor, event.fix) == ("machine", "the next run tries again")

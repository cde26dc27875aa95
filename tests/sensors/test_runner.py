"""The sampling thread under a fake clock."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from tests.runs.folders import FakeClock, make_manifest, read_back
from tfwatch.core.events import Event, SensorMissing, Slept
from tfwatch.runs.snapshot import Snapshot
from tfwatch.runs.writer import RunWriter
from tfwatch.sensors.runner import Sensors, sample_on_schedule
from tfwatch.sensors.sensor import Sensor, Unavailable

MS = 10**6


def run_of(writer: RunWriter) -> Snapshot:
    writer.flush()
    return read_back(writer)


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


def test_a_row_has_each_sensors_figures_and_nan_for_missing_ones(
    writer: RunWriter, clock: FakeClock
) -> None:
    sensors = [FakeSensor(), FakeSensor("swap", {"swap_used_bytes": 9.0})]
    sampler = Sensors(writer, clock.clock, sensors)
    sampler.begin()
    clock.at_s += 0.25
    sampler.sample()
    run = run_of(writer)
    (row,) = run.samples
    assert row["at_ns"] == 1250 * MS
    assert (row["memory_used_bytes"], row["swap_used_bytes"]) == (7.0, 9.0)
    assert np.isnan([row["cpu_cores"], row["process_cores"]]).all()
    assert np.isnan([row["process_bytes"], row["memory_available_bytes"]]).all()
    assert not run.events


def test_a_failed_sensor_stops_no_other_and_is_reported_once_until_it_works(
    writer: RunWriter, clock: FakeClock
) -> None:
    broken = FakeSensor("swap", {"swap_used_bytes": 9.0}, error=PermissionError("not allowed"))
    unavailable = FakeSensor("CPU", missing=RuntimeError())
    sampler = Sensors(writer, clock.clock, [broken, unavailable, FakeSensor()])
    sampler.begin()
    sampler.sample()
    sampler.sample()
    broken.error = None
    clock.at_s += 10
    sampler.sample()
    sampler.sample()
    run = run_of(writer)
    assert run.samples["memory_used_bytes"].tolist() == [7.0] * 4
    np.testing.assert_array_equal(run.samples["swap_used_bytes"], [np.nan, np.nan, 9.0, 9.0])
    assert list(run.events) == [
        SensorMissing(1000 * MS, "CPU", "RuntimeError", "the next run tries again"),
        SensorMissing(
            1000 * MS, "swap", "PermissionError: not allowed", "tfwatch tries again twice a second"
        ),
        SensorMissing(11_000 * MS, "swap"),
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
    asleep_ms: int | None, jump_ms: int, slept_ms: list[int], writer: RunWriter, clock: FakeClock
) -> None:
    asleep_ns = None if asleep_ms is None else 7 * MS
    jumped_ns = 0
    set_clock = replace(
        clock.clock,
        wall_ns=lambda: clock.wall_ns() + jumped_ns,
        asleep_ns=lambda: asleep_ns,
    )
    sampler = Sensors(writer, set_clock, [])
    sampler.sample()
    asleep_ns = None if asleep_ms is None else (7 + asleep_ms) * MS
    jumped_ns = jump_ms * MS
    clock.at_s += 0.5
    sampler.sample()
    sampler.sample()
    assert list(run_of(writer).events) == [Slept(1500 * MS, ms) for ms in slept_ms]


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
    takes_ms: list[int], overslept_ms: int, began_ms: list[float]
) -> None:
    clock, calls = FakeClock(), list[float]()
    oversleeps = iter([0, overslept_ms, 0, 0])

    def sample() -> None:
        calls.append(round(clock.at_s * 1e3))
        clock.at_s += takes_ms[len(calls) - 1] / 1e3

    def wait(seconds: float) -> bool:
        clock.at_s += seconds + next(oversleeps) / 1e3
        return len(calls) == len(takes_ms)

    sample_on_schedule(sample, clock.clock, wait)
    assert calls == began_ms


class SignallingWriter(RunWriter):
    """A writer that signals its first row and its first event."""

    def __init__(self) -> None:
        super().__init__(None, make_manifest())
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
    assert run_of(writer).samples["memory_available_bytes"][0] > 0
    assert not set(threading.enumerate()) - before


def test_a_failed_thread_is_reported() -> None:
    writer = SignallingWriter()
    sensors = Sensors(writer, sensors=[FakeSensor(figures={"swap_used_bytes": "much"})])  # type: ignore[dict-item]
    sensors.start()
    assert writer.reported.wait(timeout=10)
    sensors.stop()
    (event,) = run_of(writer).events
    assert isinstance(event, SensorMissing)
    assert (event.sensor, event.fix) == ("machine", "the next run tries again")

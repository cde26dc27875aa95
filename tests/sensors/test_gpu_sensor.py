"""A GPU source on its thread: its figures, its interval, its failures and their events."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from tests.runs.folders import FakeClock, written
from tests.runs.processes import wait_until
from tfwatch.core.events import Event, GpuFound, GpusFound, SensorMissing, decode
from tfwatch.core.rows import GPU
from tfwatch.runs.format import EVENTS, GPUS
from tfwatch.runs.writer import RunWriter
from tfwatch.sensors import gpu_sensor as module
from tfwatch.sensors.gpu_sensor import GpuSensor
from tfwatch.sensors.sensor import GpuReading, GpuSource, SensorError, Unavailable

REFUSED = Unavailable("no NVIDIA driver", "install it")


def card(name: str = "A100", **figures: float) -> GpuReading:
    named = {f"gpu_{column}": value for column, value in figures.items()}
    return GpuReading(named, name, 2**34)


@dataclass
class FakeSource(GpuSource):
    """A source with given results; an exception is raised."""

    name: str = "nvml"
    missing: Unavailable | Exception | None = None
    reading: Sequence[GpuReading] | Exception = field(default_factory=lambda: [card(busy=0.5)])
    no_figures: dict[str, Unavailable] = field(default_factory=dict)
    closed: int = 0
    followed: Sequence[str] = ()
    gpus: int = 2

    def why_unavailable(self) -> Unavailable | None:
        if isinstance(self.missing, Exception):
            raise self.missing
        return self.missing

    def follow(self, gpus: Sequence[str]) -> None:
        self.followed = gpus

    def read(self) -> Sequence[GpuReading]:
        if isinstance(self.reading, Exception):
            raise self.reading
        return self.reading

    def gaps(self) -> Mapping[str, Unavailable]:
        return self.no_figures

    def close(self) -> None:
        self.closed += 1


class Machine:
    """A sensor whose source is read at the test's command."""

    def __init__(self, writer: RunWriter, clock: FakeClock, source: FakeSource) -> None:
        self.clock, self.writer, self.source = clock, writer, source
        self.sensor = GpuSensor(source, writer, clock.clock)
        self._seen = 0

    def sample(self) -> dict[str, float]:
        self.sensor.read_once()
        return self.read()

    def read(self) -> dict[str, float]:
        return dict(self.sensor.read(self.clock.now_ns()))

    def new_events(self) -> list[Event | None]:
        """Return the events since the last call."""
        self.writer.flush()
        lines = written(self.writer, EVENTS).splitlines()
        new, self._seen = lines[self._seen :], len(lines)
        return [decode(line) for line in new]


@pytest.fixture
def machine(writer: RunWriter, clock: FakeClock) -> Machine:
    return Machine(writer, clock, FakeSource())


# -- figures ---------------------------------------------------------------------------------------


def test_a_sample_is_the_mean_of_the_readings_since_the_last(machine: Machine) -> None:
    machine.source.reading = [card(busy=0.2, freq_mhz=1000, process_busy=0.1)]
    machine.sensor.read_once()
    machine.clock.at_s += 0.25
    machine.source.reading = [card(busy=0.6, freq_mhz=2000)]

    assert machine.sample() == pytest.approx(
        {"gpu_busy": 0.4, "gpu_freq_mhz": 1500, "gpu_process_busy": 0.1}
    )
    assert machine.new_events() == [
        GpuFound(1_250_000_000, "nvml", "A100", 2**34, unified=False, gpus=2)
    ]


def test_a_late_reading_is_shown_until_it_is_stale(machine: Machine) -> None:
    machine.sensor.interval_s = 1.0
    machine.sensor.read_once()
    machine.sensor.interval_s = 1.0
    machine.read()
    seen = []
    for _ in range(5):
        machine.clock.at_s += 0.5
        seen.append(machine.read().get("gpu_busy"))

    assert seen == [0.5, 0.5, 0.5, 0.5, None]


def test_each_gpu_of_a_strategy_has_a_row_a_second_and_a_name(machine: Machine) -> None:
    machine.writer.strategy_gpus = {"GPU:0": "first", "GPU:1": "second"}
    for n in range(5):
        machine.source.reading = [card("A", busy=0.9), card("", busy=0.1 * n)]
        machine.sample()
        machine.clock.at_s += 0.5

    machine.writer.flush()
    rows = np.frombuffer(written(machine.writer, GPUS), GPU)
    assert machine.source.followed == ("first", "second")
    assert rows["gpu"].tolist() == [0, 1] * 3
    assert rows["busy"][1::2] == pytest.approx([0.0, 0.15, 0.35])
    assert np.isnan(rows["memory_bytes"]).all()
    events = machine.new_events()
    assert [event.names for event in events if isinstance(event, GpusFound)] == [
        {"GPU:0": "A", "GPU:1": ""}
    ]
    assert [event.sensor for event in events if isinstance(event, SensorMissing)] == ["GPU:1"]


def test_another_source_of_the_same_gpu_is_an_event(machine: Machine) -> None:
    for machine.source.name in ("ioreg", "powermetrics", "powermetrics", "ioreg"):
        machine.sample()
    found = [event.source for event in machine.new_events() if isinstance(event, GpuFound)]

    assert found == ["ioreg", "powermetrics", "ioreg"]


# -- events ----------------------------------------------------------------------------------------


def test_an_unavailable_source_is_tried_and_reported_once(machine: Machine) -> None:
    machine.source.missing = REFUSED

    assert machine.read() == {}
    assert machine.new_events() == []
    assert machine.sensor.read_once() is None
    assert [machine.read() for _ in range(3)] == [{}] * 3
    assert machine.new_events() == [SensorMissing(10**9, "GPU", REFUSED.reason, REFUSED.fix)]


def test_missing_figures_are_reported_by_reason_until_they_come_back(machine: Machine) -> None:
    old = Unavailable("the driver refuses it", "a newer driver")
    gaps = {"gpu_power_w": old, "gpu_freq_mhz": old, "gpu_memory_bytes": REFUSED}
    machine.source.no_figures = gaps
    for _ in range(3):
        machine.sample()
    machine.source.no_figures = {"gpu_memory_bytes": REFUSED}
    for machine.clock.at_s in (2.0, 11.0, 12.0):
        machine.sample()

    assert machine.new_events()[1:] == [
        SensorMissing(10**9, "GPU power, frequency", old.reason, old.fix),
        SensorMissing(10**9, "GPU memory", REFUSED.reason, REFUSED.fix),
        SensorMissing(11 * 10**9, "GPU power, frequency"),
    ]


def test_a_failed_source_is_reported_and_tried_again(machine: Machine) -> None:
    assert machine.sample()["gpu_busy"] == 0.5
    machine.source.reading = SensorError("NVML: GPU is lost")
    machine.clock.at_s += 0.25
    assert [machine.sample(), machine.sample()] == [{}, {}]
    machine.source.reading = [card(busy=0.7)]
    assert machine.sample()["gpu_busy"] == 0.7

    at_ns = 1_250_000_000
    assert machine.new_events() == [
        GpuFound(10**9, "nvml", "A100", 2**34, unified=False, gpus=2),
        SensorMissing(at_ns, "GPU", "NVML: GPU is lost", "tfwatch tries again in 10 s"),
        GpuFound(at_ns, "nvml", "A100", 2**34, unified=False, gpus=2),
    ]
    assert machine.source.closed == 2


# -- the thread ------------------------------------------------------------------------------------


def test_a_costly_source_is_read_less_often(writer: RunWriter, clock: FakeClock) -> None:
    cpu_ns, cost_ns = 0, 4_000_000

    def thread_ns() -> int:
        nonlocal cpu_ns
        cpu_ns += cost_ns
        return cpu_ns

    sensor = GpuSensor(FakeSource(), writer, replace(clock.clock, thread_ns=thread_ns))
    paces = []
    for _ in range(30):
        sensor.read_once()
        paces.append(sensor.interval_s)

    assert paces[0] < paces[5] < paces[-1] == pytest.approx(1.0, rel=0.01)
    cost_ns = 0
    for _ in range(30):
        sensor.read_once()
    assert sensor.interval_s == 0.25


class Hanging(FakeSource):
    """Hangs in its second `read` until it is released."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.go, self.hangs, self.reads = threading.Event(), threading.Event(), 0

    def read(self) -> Sequence[GpuReading]:
        self.reads += 1
        if self.reads == 2:
            self.hangs.set()
            self.go.wait(60)
        return super().read()


def test_a_hung_source_is_reported_within_two_seconds_and_recovers(
    writer: RunWriter, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_STOP_S", 0.05)
    hanging = Hanging()
    machine = Machine(writer, clock, hanging)
    assert machine.sensor.why_unavailable() is None
    assert hanging.hangs.wait(10)
    assert machine.read()["gpu_busy"] == 0.5
    clock.at_s += 1.5
    assert machine.read() == {}
    machine.sensor.stop()  # does not wait for it
    assert [type(event) for event in machine.new_events()] == [GpuFound, SensorMissing]

    hanging.go.set()
    wait_until(lambda: machine.read().get("gpu_busy") == 0.5)
    assert [type(event) for event in machine.new_events()] == [GpuFound]
    wait_until(lambda: not [one for one in threading.enumerate() if one.name == "tfwatch-nvml"])

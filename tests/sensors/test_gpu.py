"""Several sources of GPU figures: which is believed, what is told of the others, and what a hanging one costs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.runs.folders import FakeClock, make_manifest
from tests.runs.processes import wait_until
from tests.sensors.sources import REFUSED, FakeSource
from tfwatch.core.events import Event, GpuFound, Noted, SensorMissing, decode
from tfwatch.runs.format import EVENTS
from tfwatch.runs.writer import RunWriter
from tfwatch.sensors import GPU_SENSORS, Available, FullReading, GpuReading, SensorError, Unavailable
from tfwatch.sensors.gpu import GpuSensor, sources_of

if TYPE_CHECKING:
    from tfwatch.sensors.gpu_lane import Lane

    pass

NO_WATTS = Unavailable("ioreg does not tell it", "powermetrics does")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1.0)


@pytest.fixture
def writer(clock: FakeClock) -> RunWriter:
    return RunWriter(None, make_manifest(), clock.clock)


def told(writer: RunWriter) -> list[Event | None]:
    """The events since the last call."""
    writer.flush()
    lines = writer.read(EVENTS, 0, 10**6).splitlines()
    before = getattr(writer, "seen", 0)
    writer.seen = len(lines)  # type: ignore[attr-defined]
    return [decode(line) for line in lines[before:]]


class Machine:
    """A sensor whose lanes take their turns when the test says so."""

    def __init__(self, writer: RunWriter, clock: FakeClock, *sources: FakeSource) -> None:
        self.clock = clock
        self.sensor = GpuSensor(writer, clock.clock, sources)
        self.lanes = self.sensor._lanes

    def sample(self, *lanes: Lane) -> dict[str, float]:
        for lane in lanes or self.lanes:
            lane.turn()
        return dict(self.sensor.read(self.clock.now_ns()))


# -- which sources ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "system", "names"),
    [
        pytest.param("auto", "darwin", ["powermetrics", "ioreg"], id="a Mac"),
        pytest.param("auto", "linux", ["nvml"], id="Linux"),
        pytest.param("auto", "win32", ["nvml"], id="Windows"),
        pytest.param("ioreg", "darwin", ["ioreg"], id="forced"),
        pytest.param("nvml", "darwin", ["nvml"], id="forced against all hope"),
        pytest.param("none", "linux", [], id="none"),
    ],
)
def test_the_order_of_sources(choice: str, system: str, names: list[str]) -> None:
    assert choice in GPU_SENSORS
    assert [source.name for source in sources_of(choice, system)] == names


def test_every_choice_has_its_source() -> None:
    assert all(source.name == name for name in GPU_SENSORS[1:-1] for source in sources_of(name))


def test_switched_off_is_a_reason(writer: RunWriter) -> None:
    sensor = GpuSensor(writer)

    assert sensor.available() == Unavailable("switched off with --gpu-sensor none", "--gpu-sensor auto")


# -- figures ------------------------------------------------------------------------------------------


def test_a_sample_is_the_mean_of_the_readings_since_the_last(writer: RunWriter, clock: FakeClock) -> None:
    source = FakeSource(reading=GpuReading(0.2, 1000, 100, 2**30, 60, 0.1))
    machine = Machine(writer, clock, source)
    machine.lanes[0].turn()
    clock.at_s += 0.25
    source.reading = GpuReading(0.6, 2000, 300, 2**30, 62, None)
    figures = machine.sample()

    assert figures == pytest.approx(
        {
            "gpu_busy": 0.4,
            "gpu_freq_mhz": 1500,
            "gpu_power_w": 200,
            "gpu_memory_bytes": 2**30,
            "gpu_temperature_c": 61,
            "gpu_process_busy": 0.1,
            "gpu_late_ms": 0.0,
        }
    )
    assert told(writer) == [GpuFound(1_250_000_000, "nvml", "GPU of nvml", 2**34, unified=False, gpus=2)]


def test_the_first_source_that_tells_a_figure_is_believed(writer: RunWriter, clock: FakeClock) -> None:
    power = FakeSource("powermetrics", 1.0, reading=FullReading(busy=0.9, power_w=20, cpu_power_w=5, thermal_level=1))
    registry = FakeSource("ioreg", reading=GpuReading(busy=0.4, memory_bytes=7, process_busy=0.3))
    figures = Machine(writer, clock, power, registry).sample()

    assert (figures["gpu_busy"], figures["gpu_power_w"], figures["cpu_power_w"]) == (0.9, 20, 5)
    assert (figures["gpu_memory_bytes"], figures["gpu_process_busy"], figures["thermal_level"]) == (7, 0.3, 1)


def test_a_reading_is_held_while_it_is_late_and_not_when_it_is_stale(writer: RunWriter, clock: FakeClock) -> None:
    machine = Machine(writer, clock, FakeSource("powermetrics", 1.0))
    machine.sample()
    seen = []
    for _ in range(5):
        clock.at_s += 0.5
        figures = machine.sensor.read(clock.now_ns())
        seen.append((figures.get("gpu_busy"), figures.get("gpu_late_ms")))

    assert seen == [(0.5, 0.0), (0.5, 0.0), (0.5, 500.0), (0.5, 1000.0), (None, None)]


def test_a_source_beside_another_is_asked_less_often(writer: RunWriter, clock: FakeClock) -> None:
    machine = Machine(writer, clock, FakeSource("powermetrics", 1.0), FakeSource("ioreg"))
    machine.sample()
    machine.sample()

    assert [lane.pace_s for lane in machine.lanes] == [0.25, 1.0]


def test_what_limits_the_clock_is_of_this_sample(writer: RunWriter, clock: FakeClock) -> None:
    source = FakeSource(reading=FullReading(busy=1, limited_by="power brake"))
    machine = Machine(writer, clock, source)
    limits = []
    for reading in (source.reading, FullReading(busy=1), FullReading(busy=1, limited_by="heat")):
        source.reading = reading
        machine.sample()
        limits.append(machine.sensor.limited_by)
        clock.at_s += 0.5

    assert limits == ["power brake", "", "heat"]


def test_a_reset_of_the_gpu_is_noted(writer: RunWriter, clock: FakeClock) -> None:
    source = FakeSource("ioreg")
    machine = Machine(writer, clock, source)
    for resets in (3, 3, 4, 4, None, 0):
        source.reading = FullReading(busy=1, resets=resets)
        machine.sample()

    notes = [event for event in told(writer) if isinstance(event, Noted)]
    assert [note.text for note in notes] == ["the GPU was reset by the system: what it computed then may be lost"]


# -- words --------------------------------------------------------------------------------------------


def test_a_mac_without_permission_has_ioregs_figures_and_is_told_what_is_missing(
    writer: RunWriter, clock: FakeClock
) -> None:
    gaps = {"power_w": NO_WATTS, "freq_mhz": NO_WATTS, "temperature_c": Unavailable("macOS tells it to no tool", "")}
    machine = Machine(writer, clock, FakeSource("powermetrics", answer=REFUSED), FakeSource("ioreg", missing=gaps))
    figures = [machine.sample() for _ in range(3)][-1]

    assert figures["gpu_busy"] == 0.5
    assert told(writer) == [
        GpuFound(10**9, "ioreg", "GPU of ioreg", 2**34, unified=False, gpus=2),
        SensorMissing(10**9, "powermetrics", "sudo has no rule for it", "tfwatch doctor --sudoers"),
        SensorMissing(10**9, "GPU power, frequency", "ioreg does not tell it", "powermetrics does"),
        SensorMissing(10**9, "GPU temperature", "macOS tells it to no tool", ""),
    ]


def test_only_what_no_source_tells_is_missing(writer: RunWriter, clock: FakeClock) -> None:
    other = Unavailable("powermetrics does not tell it", "ioreg does")
    power = FakeSource("powermetrics", missing={"memory_bytes": other, "temperature_c": other})
    registry = FakeSource("ioreg", missing={"power_w": NO_WATTS, "temperature_c": NO_WATTS})
    Machine(writer, clock, power, registry).sample()

    missing = [event for event in told(writer) if isinstance(event, SensorMissing)]
    assert [(event.sensor, event.reason) for event in missing] == [("GPU temperature", "ioreg does not tell it")]


def test_nothing_is_told_before_every_source_has_said_whether_it_works(writer: RunWriter, clock: FakeClock) -> None:
    machine = Machine(writer, clock, FakeSource("powermetrics"), FakeSource("ioreg", missing={"power_w": NO_WATTS}))

    assert machine.sample(machine.lanes[1]) == {"gpu_busy": 0.5}
    assert told(writer) == []
    machine.sample(machine.lanes[0])
    assert [event.source for event in told(writer) if isinstance(event, GpuFound)] == ["powermetrics"]


def test_where_no_source_works_the_reasons_are_told_together_and_once(writer: RunWriter, clock: FakeClock) -> None:
    none = Unavailable("macOS shows no GPU", "")
    machine = Machine(writer, clock, FakeSource("powermetrics", answer=REFUSED), FakeSource("ioreg", answer=none))

    assert machine.sample(machine.lanes[0]) == {}
    assert told(writer) == []
    assert [machine.sample(machine.lanes[1]) for _ in range(3)] == [{}] * 3
    reason = "sudo has no rule for it; macOS shows no GPU"
    assert told(writer) == [SensorMissing(10**9, "GPU", reason, "tfwatch doctor --sudoers")]


def test_a_source_that_fails_is_dropped_with_a_word_and_tried_again(writer: RunWriter, clock: FakeClock) -> None:
    source = FakeSource()
    machine = Machine(writer, clock, source)
    assert machine.sample()["gpu_busy"] == 0.5
    source.reading = SensorError("NVML: GPU is lost")
    clock.at_s += 0.25
    assert machine.sample() == {}
    assert machine.sample() == {}
    source.reading = GpuReading(busy=0.7)
    assert machine.sample()["gpu_busy"] == 0.7

    found = GpuFound(10**9, "nvml", "GPU of nvml", 2**34, unified=False, gpus=2)
    at_ns = 1_250_000_000
    lost = SensorMissing(at_ns, "GPU", "NVML: GPU is lost", "tfwatch tries again in 1 s")
    assert told(writer) == [found, lost, GpuFound(at_ns, "nvml", "GPU of nvml", 2**34, unified=False, gpus=2)]
    assert (source.asked, source.closed) == (3, 2)


def test_reasons_that_take_turns_are_told_once_each_while_nothing_works(writer: RunWriter, clock: FakeClock) -> None:
    source = FakeSource()
    machine = Machine(writer, clock, source)
    for error in ("hangs", "died", "hangs", "died"):
        source.reading = SensorError(error)
        machine.sample()

    assert [event.reason for event in told(writer) if isinstance(event, SensorMissing)] == ["hangs", "died"]


def test_a_figure_that_comes_and_goes_is_told_once(writer: RunWriter, clock: FakeClock) -> None:
    source = FakeSource()
    machine = Machine(writer, clock, source)
    for missing in ({"power_w": NO_WATTS}, {}, {"power_w": NO_WATTS}):
        source.missing = missing
        machine.sample()

    assert len([event for event in told(writer) if isinstance(event, SensorMissing)]) == 1


def test_another_source_takes_over_at_once(writer: RunWriter, clock: FakeClock) -> None:
    power = FakeSource("powermetrics", reading=GpuReading(busy=0.9, power_w=20))
    machine = Machine(writer, clock, power, FakeSource("ioreg", missing={"power_w": NO_WATTS}))
    machine.sample()
    told(writer)
    power.reading = SensorError("powermetrics: it ended with 1")
    figures = machine.sample()

    assert (figures["gpu_busy"], figures.get("gpu_power_w")) == (0.5, None)
    assert [(type(event).__name__, getattr(event, "sensor", "")) for event in told(writer)] == [
        ("GpuFound", ""),
        ("SensorMissing", "powermetrics"),
        ("SensorMissing", "GPU power"),
    ]


# -- real threads -------------------------------------------------------------------------------------


class Hanging(FakeSource):
    """Hangs in `read` from the second call on, until it is let go."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.go, self.hangs, self.reads = threading.Event(), threading.Event(), 0

    def read(self) -> GpuReading:
        self.reads += 1
        if self.reads > 1:
            self.hangs.set()
            self.go.wait(60)
        return super().read()


def test_a_source_that_hangs_is_told_within_two_seconds_and_holds_no_other_up(
    writer: RunWriter, clock: FakeClock
) -> None:
    hanging = Hanging(name="powermetrics", reading=GpuReading(busy=0.9))
    sensor = GpuSensor(writer, clock.clock, [hanging, FakeSource("ioreg")])
    assert sensor.available() == Available()
    wait_until(lambda: sensor.read(clock.now_ns()).get("gpu_busy") == 0.9)
    assert hanging.hangs.wait(10)
    told(writer)

    seen = []
    for _ in range(4):  # two seconds, a sample every half
        clock.at_s += 0.5
        before = len(sensor._lanes[1].readings)
        wait_until(lambda seen_before=before: len(sensor._lanes[1].readings) > seen_before)  # type: ignore[misc]
        seen.append((sensor.read(clock.now_ns()).get("gpu_busy"), [type(event).__name__ for event in told(writer)]))
    assert seen[0] == (0.9, [])  # not stale yet
    assert seen[-1][0] == 0.5
    assert [names for _, names in seen if names] == [["GpuFound", "SensorMissing"]]

    hanging.go.set()
    wait_until(lambda: sensor.read(clock.now_ns()).get("gpu_busy") == 0.9)
    assert [type(event).__name__ for event in told(writer)] == ["GpuFound"]
    sensor.stop()
    assert not [thread for thread in threading.enumerate() if thread.name in ("tfwatch-ioreg", "tfwatch-powermetrics")]


def test_a_sole_source_that_hangs_is_told_and_stopping_does_not_wait_for_it(
    writer: RunWriter, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfwatch.sensors.gpu._STOP_S", 0.05)
    hanging = Hanging()
    hanging.reads = 1
    sensor = GpuSensor(writer, clock.clock, [hanging])
    sensor.available()
    assert hanging.hangs.wait(10)
    assert sensor.read(clock.now_ns()) == {}
    assert told(writer) == []
    clock.at_s += 1.5
    assert sensor.read(clock.now_ns()) == {}
    sensor.stop()
    hanging.go.set()

    reason = "nvml has not answered for 1.5 s"
    assert told(writer) == [SensorMissing(2_500_000_000, "GPU", reason, "tfwatch waits for it")]


def test_a_sensor_that_was_never_begun_can_be_stopped(writer: RunWriter) -> None:
    GpuSensor(writer, sources=[FakeSource()]).stop()

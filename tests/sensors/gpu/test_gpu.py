"""Several sources of GPU figures, and their order of preference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.sensors.sources import FakeSource, Machine, new_events
from tfwatch.config import GPU_SENSORS
from tfwatch.core.events import GpuFound
from tfwatch.sensors.gpu.sensor import GpuSensor, choose_sources
from tfwatch.sensors.protocol import FullReading, GpuReading, Unavailable

if TYPE_CHECKING:
    from tests.runs.folders import FakeClock
    from tfwatch.runs.writer import RunWriter


# -- which sources ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "system", "names"),
    [
        pytest.param("auto", "darwin", ["powermetrics", "ioreg"], id="a Mac"),
        pytest.param("auto", "linux", ["nvml"], id="Linux"),
        pytest.param("auto", "win32", ["nvml"], id="Windows"),
        pytest.param("ioreg", "darwin", ["ioreg"], id="forced"),
        pytest.param("nvml", "darwin", ["nvml"], id="forced on the wrong system"),
        pytest.param("none", "linux", [], id="none"),
    ],
)
def test_the_order_of_sources(choice: str, system: str, names: list[str]) -> None:
    assert choice in GPU_SENSORS
    assert [source.name for source in choose_sources(choice, system)] == names


def test_switched_off_is_a_reason(writer: RunWriter) -> None:
    sensor = GpuSensor(writer)

    assert sensor.available() == Unavailable(
        "switched off with --gpu-sensor none", "--gpu-sensor auto"
    )


# -- figures ---------------------------------------------------------------------------------------


def test_a_sample_is_the_mean_of_the_readings_since_the_last(
    writer: RunWriter, clock: FakeClock
) -> None:
    source = FakeSource(reading=GpuReading(0.2, 1000, 100, 2**30, 60, 0.1))
    machine = Machine(writer, clock, source)
    machine.threads[0].read_once()
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
    assert new_events(writer) == [
        GpuFound(1_250_000_000, "nvml", "GPU of nvml", 2**34, unified=False, gpus=2)
    ]


def test_a_figure_comes_from_the_first_source_that_has_it(
    writer: RunWriter, clock: FakeClock
) -> None:
    power = FakeSource(
        "powermetrics",
        1.0,
        reading=FullReading(busy=0.9, power_w=20, cpu_power_w=5, thermal_level=1),
    )
    registry = FakeSource("ioreg", reading=GpuReading(busy=0.4, memory_bytes=7, process_busy=0.3))
    figures = Machine(writer, clock, power, registry).sample()

    assert (figures["gpu_busy"], figures["gpu_power_w"], figures["cpu_power_w"]) == (0.9, 20, 5)
    assert (figures["gpu_memory_bytes"], figures["gpu_process_busy"], figures["thermal_level"]) == (
        7,
        0.3,
        1,
    )


def test_a_late_reading_is_shown_until_it_is_stale(writer: RunWriter, clock: FakeClock) -> None:
    machine = Machine(writer, clock, FakeSource("powermetrics", 1.0))
    machine.sample()
    seen = []
    for _ in range(5):
        clock.at_s += 0.5
        figures = machine.sensor.read(clock.now_ns())
        seen.append((figures.get("gpu_busy"), figures.get("gpu_late_ms")))

    assert seen == [(0.5, 0.0), (0.5, 0.0), (0.5, 500.0), (0.5, 1000.0), (None, None)]


def test_a_secondary_source_is_read_less_often(writer: RunWriter, clock: FakeClock) -> None:
    machine = Machine(writer, clock, FakeSource("powermetrics", 1.0), FakeSource("ioreg"))
    machine.sample()
    machine.sample()

    assert [lane.interval_s for lane in machine.threads] == [0.25, 1.0]


def test_the_limit_of_the_clock_belongs_to_its_sample(writer: RunWriter, clock: FakeClock) -> None:
    source = FakeSource(reading=FullReading(busy=1, limited_by="power brake"))
    machine = Machine(writer, clock, source)
    limits = []
    for reading in (source.reading, FullReading(busy=1), FullReading(busy=1, limited_by="heat")):
        source.reading = reading
        machine.sample()
        limits.append(machine.sensor.limited_by)
        clock.at_s += 0.5

    assert limits == ["power brake", "", "heat"]

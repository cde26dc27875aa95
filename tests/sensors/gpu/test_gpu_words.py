"""Events about sources of GPU figures that do not work, that fail, and that recover."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.sensors.sources import NO_WATTS, REFUSED, FakeSource, Machine, new_events
from tfwatch.core.events import GpuFound, SensorMissing
from tfwatch.sensors.protocol import GpuReading, SensorError, Unavailable

if TYPE_CHECKING:
    from tests.runs.folders import FakeClock
    from tfwatch.runs.writer import RunWriter


def test_a_mac_without_permission_has_ioregs_figures_and_reasons_for_the_others(
    writer: RunWriter, clock: FakeClock
) -> None:
    gaps = {
        "power_w": NO_WATTS,
        "freq_mhz": NO_WATTS,
        "temperature_c": Unavailable("no tool of macOS reports it", ""),
    }
    machine = Machine(
        writer, clock, FakeSource("powermetrics", answer=REFUSED), FakeSource("ioreg", missing=gaps)
    )
    figures = [machine.sample() for _ in range(3)][-1]

    assert figures["gpu_busy"] == 0.5
    assert new_events(writer) == [
        GpuFound(10**9, "ioreg", "GPU of ioreg", 2**34, unified=False, gpus=2),
        SensorMissing(10**9, "powermetrics", "sudo has no rule for it", "tfwatch doctor --sudoers"),
        SensorMissing(
            10**9, "GPU power, frequency", "ioreg does not report it", "powermetrics does"
        ),
        SensorMissing(10**9, "GPU temperature", "no tool of macOS reports it", ""),
    ]


def test_nothing_is_reported_before_the_state_of_every_source_is_known(
    writer: RunWriter, clock: FakeClock
) -> None:
    machine = Machine(
        writer,
        clock,
        FakeSource("powermetrics"),
        FakeSource("ioreg", missing={"power_w": NO_WATTS}),
    )

    assert machine.sample(machine.threads[1]) == {"gpu_busy": 0.5}
    assert new_events(writer) == []
    machine.sample(machine.threads[0])
    assert [event.source for event in new_events(writer) if isinstance(event, GpuFound)] == [
        "powermetrics"
    ]


def test_without_a_working_source_the_reasons_are_one_event(
    writer: RunWriter, clock: FakeClock
) -> None:
    none = Unavailable("macOS shows no GPU", "")
    machine = Machine(
        writer, clock, FakeSource("powermetrics", answer=REFUSED), FakeSource("ioreg", answer=none)
    )

    assert machine.sample(machine.threads[0]) == {}
    assert new_events(writer) == []
    assert [machine.sample(machine.threads[1]) for _ in range(3)] == [{}] * 3
    reason = "sudo has no rule for it; macOS shows no GPU"
    assert new_events(writer) == [SensorMissing(10**9, "GPU", reason, "tfwatch doctor --sudoers")]


def test_a_failed_source_is_reported_and_tried_again(writer: RunWriter, clock: FakeClock) -> None:
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
    assert new_events(writer) == [
        found,
        lost,
        GpuFound(at_ns, "nvml", "GPU of nvml", 2**34, unified=False, gpus=2),
    ]
    assert (source.asked, source.closed) == (3, 2)


def test_another_source_takes_over_immediately(writer: RunWriter, clock: FakeClock) -> None:
    power = FakeSource("powermetrics", reading=GpuReading(busy=0.9, power_w=20))
    machine = Machine(writer, clock, power, FakeSource("ioreg", missing={"power_w": NO_WATTS}))
    machine.sample()
    new_events(writer)
    power.reading = SensorError("powermetrics: it ended with 1")
    figures = machine.sample()

    assert (figures["gpu_busy"], figures.get("gpu_power_w")) == (0.5, None)
    assert [
        (type(event).__name__, getattr(event, "sensor", "")) for event in new_events(writer)
    ] == [
        ("GpuFound", ""),
        ("SensorMissing", "powermetrics"),
        ("SensorMissing", "GPU power"),
    ]

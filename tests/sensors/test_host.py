"""The machine's figures from given counters."""

from __future__ import annotations

import math
from collections import namedtuple

import psutil
import pytest

from tests.sensors.conftest import one_after_another
from tfwatch.core.rows import SAMPLE
from tfwatch.sensors import host
from tfwatch.sensors.host import DiskSensor, PowerSupplySensor, host_sensors
from tfwatch.sensors.protocol import Available, Rate, Unavailable

SECOND_NS = 10**9
Counters = namedtuple("Counters", "read_bytes")
Battery = namedtuple("Battery", "power_plugged")


def test_every_column_of_a_sample_that_this_host_can_fill_is_filled() -> None:
    sensors = host_sensors()
    assert all(isinstance(sensor.available(), Available | Unavailable) for sensor in sensors)
    columns = {column for sensor in sensors for column in sensor.read(1)}
    always = set((SAMPLE.names or ())[: (SAMPLE.names or ()).index("late_ms")]) - {
        "at_ns",
        "own_cores",
    }
    assert always <= columns <= set(SAMPLE.names or ())


def test_a_machine_without_a_battery_has_no_sensor_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def names() -> set[str]:
        return {sensor.name for sensor in host_sensors("linux")}

    monkeypatch.setattr(psutil, "sensors_battery", lambda: None)
    plain = names()
    monkeypatch.setattr(psutil, "sensors_battery", lambda: Battery(True))

    assert plain == {"CPU", "process", "memory", "swap", "pressure", "heat", "disk"}
    assert names() - plain == {"mains"}
    assert {sensor.name for sensor in host_sensors("darwin")} == names()


@pytest.mark.parametrize(
    ("answers", "on_mains"),
    [
        pytest.param([True], 1.0, id="on mains"),
        pytest.param([False], 0.0, id="on battery"),
        pytest.param([None], math.nan, id="the system does not know"),
    ],
)
def test_the_power_source(
    answers: list[bool | None], on_mains: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        psutil, "sensors_battery", one_after_another([Battery(answer) for answer in answers])
    )
    sensor = PowerSupplySensor()
    for now_ns in (5, 5 + host.PERIOD_NS - 1):  # the battery is asked once
        assert sensor.read(now_ns)["on_mains"] == pytest.approx(on_mains, nan_ok=True)


def test_a_removed_battery_has_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        psutil, "sensors_battery", one_after_another([Battery(False), Battery(False), None])
    )
    sensor = PowerSupplySensor()
    assert sensor.available() == Available()
    assert [sensor.read(at)["on_mains"] for at in (0, host.PERIOD_NS)] == pytest.approx(
        [0.0, math.nan], nan_ok=True
    )


def test_a_system_without_batteries_is_not_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(psutil, "sensors_battery")
    assert PowerSupplySensor().available() == Unavailable("this machine has no battery", "")


def test_a_rate_is_per_second_and_restarts_with_its_counter() -> None:
    rate = Rate()
    assert math.isnan(rate.of(0, 100))
    assert rate.of(SECOND_NS // 2, 150) == 100
    assert math.isnan(rate.of(SECOND_NS, 10))
    assert rate.of(2 * SECOND_NS, 30) == 20


def test_disk_reads_are_a_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        psutil, "disk_io_counters", one_after_another([Counters(0), Counters(3000), None])
    )
    sensor = DiskSensor()
    assert math.isnan(sensor.read(0)["disk_read_bytes_s"])
    assert sensor.read(3 * SECOND_NS) == {"disk_read_bytes_s": 1000}
    assert math.isnan(sensor.read(4 * SECOND_NS)["disk_read_bytes_s"])


def test_a_machine_without_disks_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "disk_io_counters", lambda **_: None)
    answer = DiskSensor().available()
    assert isinstance(answer, Unavailable)
    assert answer.reason == "this system shows no disk counters"

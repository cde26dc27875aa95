"""The machine's figures from given counters."""

from __future__ import annotations

import math
from collections import namedtuple
from types import SimpleNamespace
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.sensors.conftest import one_after_another
from tfwatch.core.rows import SAMPLE
from tfwatch.runs.machine_info import ProcessLimits
from tfwatch.sensors import host
from tfwatch.sensors.host import (
    CpuSensor,
    MemorySensor,
    PowerSupplySensor,
    SwapSensor,
    has_battery,
    host_sensors,
)
from tfwatch.sensors.sensor import Rate

if TYPE_CHECKING:
    from pathlib import Path

SECOND_NS = 10**9
Battery = namedtuple("Battery", "power_plugged")


def test_every_column_of_a_sample_that_this_host_can_fill_is_filled() -> None:
    sensors = [sensor for sensor in host_sensors() if not sensor.why_unavailable()]
    columns = {column for at in (1, 2) for sensor in sensors for column in sensor.read(at)}
    names = SAMPLE.names or ()
    always = set(names[1 : names.index("late_ms")]) - {"own_cores"}
    assert always <= columns <= set(names)


def test_a_machine_without_a_battery_has_no_sensor_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def names() -> set[str]:
        return {sensor.name for sensor in host_sensors("linux")}

    monkeypatch.setattr(psutil, "sensors_battery", lambda: None)
    plain = names()
    monkeypatch.setattr(psutil, "sensors_battery", lambda: Battery(True))

    assert plain == {"CPU", "process", "memory", "swap", "heat"}
    assert names() - plain == {"mains"}
    assert {sensor.name for sensor in host_sensors("darwin")} == {*names(), "pressure"}
    monkeypatch.delattr(psutil, "sensors_battery")
    assert not has_battery()


def test_the_cores_in_use_and_the_busiest(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = one_after_another([[0.0, 0.0], [50.0, 100.0]])
    monkeypatch.setattr(psutil, "cpu_percent", readings)
    sensor = CpuSensor()

    assert sensor.read(0) == {}
    assert sensor.read(1) == {"cpu_cores": 1.5, "core_max": 1.0}


def test_the_power_source_is_asked_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [Battery(True), Battery(False), Battery(None), None]
    monkeypatch.setattr(psutil, "sensors_battery", one_after_another(answers))
    sensor = PowerSupplySensor()
    moments = [0, host.PERIOD_NS - 1, *(n * host.PERIOD_NS for n in (1, 2, 3))]

    assert [sensor.read(at)["on_mains"] for at in moments] == pytest.approx(
        [1.0, 1.0, 0.0, math.nan, math.nan], nan_ok=True
    )


def test_a_rate_is_per_second_and_restarts_with_its_counter() -> None:
    rate = Rate()
    assert math.isnan(rate.of(0, 100))
    assert rate.of(SECOND_NS // 2, 150) == 100
    assert math.isnan(rate.of(SECOND_NS, 10))
    assert rate.of(2 * SECOND_NS, 30) == 20


@pytest.mark.parametrize(
    ("current", "available", "figures"),
    [
        pytest.param("3000\n", 6000, (2500, 5500), id="limited"),
        pytest.param("9000\n", 6000, (8500, 0), id="over the limit"),
        pytest.param("", 6000, (7_000_000, 6000), id="unknown use"),
        pytest.param("3000", 60, (2500, 60), id="the machine has less"),
        pytest.param(None, 60, (7_000_000, 60), id="without a container"),
    ],
)
def test_memory(
    current: str | None,
    available: int,
    figures: tuple[int, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory = SimpleNamespace(total=10**7, used=7_000_000, available=available)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    (tmp_path / "memory.current").write_text(current or "")
    (tmp_path / "memory.stat").write_text("inactive_file 500\n")
    allowed = ProcessLimits() if current is None else ProcessLimits(8000, tmp_path)

    read = MemorySensor(allowed).read(0)
    assert (read["memory_used_bytes"], read["memory_available_bytes"]) == figures


@pytest.mark.parametrize("system", ["linux", "darwin"])
def test_swap_traffic_is_a_rate_where_the_system_counts_it(
    system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = [SimpleNamespace(used=77, sin=sin, sout=100) for sin in (10, 30)]
    monkeypatch.setattr(psutil, "swap_memory", one_after_another(counts))
    sensor = SwapSensor(system)
    first, then = sensor.read(0), sensor.read(2 * SECOND_NS)

    traffic = {"swap_in_bytes_s": 10.0, "swap_out_bytes_s": 0.0} if system == "linux" else {}
    assert then == {"swap_used_bytes": 77, **traffic}
    assert math.isnan(first.get("swap_in_bytes_s", math.nan))

"""The machine's figures from given counters."""

import math
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from tests.sensors.conftest import Tools, one_after_another
from tfwatch.core.rows import SAMPLE
from tfwatch.runs.machine_info import ProcessLimits
from tfwatch.sensors import host
from tfwatch.sensors.host import (
    CpuSensor,
    MacPressureSensor,
    MacThermalSensor,
    MemorySensor,
    ProcessSensor,
    SwapSensor,
    ToolSensor,
    host_sensors,
)
from tfwatch.sensors.sensor import Rate, SensorError

SECOND_NS = 10**9
SYSCTL = "kern.memorystatus_vm_pressure_level: 2\n"
KEY = "com.apple.system.thermalpressurelevel"


def test_every_column_of_a_sample_that_this_host_can_fill_is_filled() -> None:
    sensors = [sensor for sensor in host_sensors() if not sensor.why_unavailable()]
    columns = {column for at in (1, 2) for sensor in sensors for column in sensor.read(at)}
    names = SAMPLE.names or ()
    always = set(names[1 : names.index("gpu_busy")])
    assert always <= columns <= set(names)


@pytest.mark.parametrize(
    ("bound", "shares"),
    [
        pytest.param([0, 1], [50.0, 100.0], id="all"),
        pytest.param([1, 2], [70.0, 50.0, 100.0, 80.0], id="of those that it is bound to"),
        pytest.param([6, 7], [50.0, 100.0], id="in a container that lists its own"),
    ],
)
def test_the_cores_in_use(
    monkeypatch: pytest.MonkeyPatch, bound: list[int], shares: list[float]
) -> None:
    monkeypatch.setattr(host, "bound_cores", lambda: bound)
    readings = one_after_another([[0.0] * len(shares), shares])
    monkeypatch.setattr(psutil, "cpu_percent", readings)
    sensor = CpuSensor()

    assert sensor.read(0) == {}
    assert sensor.read(1) == {"cpu_cores": 1.5}


def test_cores_of_a_process_that_the_training_began_are_its_own() -> None:
    sensor = ProcessSensor()
    work = "n = 0\nfor _ in range(10**7): n += 1\ninput()"
    command = [sys.executable, "-c", work]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as child:
        sensor.read(0)
        while psutil.Process(child.pid).status() != psutil.STATUS_SLEEPING:
            pass
        cores = sensor.read(10**9 // 100)["process_cores"]
        child.communicate(b"\n")

    assert cores > 10, "the child's work, in a hundredth of a second"


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

    traffic = {"swap_bytes_s": 10.0} if system == "linux" else {}
    assert then == {"swap_used_bytes": 77, **traffic}
    assert math.isnan(first.get("swap_bytes_s", math.nan))


# -- macOS -----------------------------------------------------------------------------------------


def read(tools: Tools, kind: type[ToolSensor], text: str) -> Mapping[str, float]:
    """Return the figures of a sensor whose tool prints a text."""
    sensor = kind()
    sensor.command = (tools.print("tool", text),)
    sensor.why_unavailable()
    return sensor.read(0)


@pytest.mark.parametrize(
    ("kind", "text", "figures"),
    [
        pytest.param(MacPressureSensor, SYSCTL, {"memory_level": 1}, id="warning"),
        pytest.param(
            MacPressureSensor, SYSCTL.replace(": 2", " = 4"), {"memory_level": 2}, id="older form"
        ),
        pytest.param(MacThermalSensor, f"{KEY} 1\n", {"thermal_level": 2.0}, id="moderate"),
        pytest.param(MacThermalSensor, f"x 1\n{KEY} 3\r\n", {"thermal_level": 4.0}, id="trapping"),
    ],
)
def test_levels(
    tools: Tools, kind: type[ToolSensor], text: str, figures: Mapping[str, float]
) -> None:
    assert read(tools, kind, text) == figures


def test_an_output_without_a_level_has_a_reason(tools: Tools) -> None:
    text = f"{KEY}: Failed with code 9"

    with pytest.raises(SensorError, match=f"tool prints '{text}', which tfwatch cannot parse"):
        read(tools, MacThermalSensor, text)


def test_a_level_is_current_for_a_period_and_a_failure_too(tools: Tools) -> None:
    sensor = MacPressureSensor()
    sensor.command = (tools.print("tool", SYSCTL),)
    assert sensor.read(0) == {"memory_level": 1}
    tools.does("tool", "exit 1")
    assert sensor.read(2 * SECOND_NS - 1) == {"memory_level": 1}
    for now_ns in (2 * SECOND_NS, 3 * SECOND_NS):
        with pytest.raises(SensorError, match="tool"):
            sensor.read(now_ns)
    tools.print("tool", SYSCTL)
    assert sensor.read(4 * SECOND_NS) == {"memory_level": 1}


def test_a_heat_of_0_is_unknown_until_macos_reports_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    levels = iter([0, 2, 0])
    monkeypatch.setattr(ToolSensor, "level", lambda *_: next(levels))
    sensor = MacThermalSensor()
    with pytest.raises(SensorError, match="as it does for a level that nothing reports"):
        sensor.read(0)

    assert [sensor.read(0), sensor.read(0)] == [{"thermal_level": 3.0}, {"thermal_level": 0.0}]

"""Memory, swap traffic and memory pressure."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.sensors.conftest import one_after_another
from tfwatch.runs.machine_info import ProcessLimits
from tfwatch.sensors import linux, macos
from tfwatch.sensors.host import MemorySensor, SwapSensor
from tfwatch.sensors.protocol import Available, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.sensors.conftest import Tools

SECOND_NS = 10**9
SYSCTL = "kern.memorystatus_vm_pressure_level: 2\n"


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


@pytest.mark.parametrize(
    ("waited_us", "stalled"),
    [
        pytest.param(250_000, 0.25, id="a quarter of the time"),
        pytest.param(0, 0.0, id="none"),
        pytest.param(2_000_000, 1.0, id="counted late: never more than all"),
        pytest.param(-5, math.nan, id="counter reset"),
    ],
)
def test_time_lost_to_waiting_for_memory(tmp_path: Path, waited_us: int, stalled: float) -> None:
    path = tmp_path / "memory.pressure"
    path.write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=100\nfull avg10=0.00 total=7\n")
    sensor = linux.PressureSensor(ProcessLimits(8000, tmp_path))

    assert sensor.available() == Available()
    assert math.isnan(sensor.read(0)["memory_stalled"])
    path.write_text(f"some avg10=9.00 avg60=0.00 avg300=0.00 total={100 + waited_us}\n")
    assert sensor.read(SECOND_NS)["memory_stalled"] == pytest.approx(stalled, nan_ok=True)


def test_a_kernel_that_counts_no_waits_has_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linux, "_PRESSURE", tmp_path / "none")

    assert linux.PressureSensor(ProcessLimits(8000, tmp_path)).available() == Unavailable(
        "this kernel does not count waits for memory (PSI)", "start Linux 4.20 or newer with psi=1"
    )


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        pytest.param(SYSCTL, {"memory_level": 1}, id="warning"),
        pytest.param(SYSCTL.replace(": 2", " = 4"), {"memory_level": 2}, id="the older form"),
    ],
)
def test_memory_pressure_on_macos(
    text: str, figures: Mapping[str, float], tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(macos, "SYSCTL", (tools.print("sysctl", text),))
    sensor = macos.PressureSensor()

    assert sensor.available() == Available()
    assert sensor.read(0) == figures


@pytest.mark.parametrize(
    ("file", "level"), [("sysctl-all-keys.txt", 0), ("sysctl-pressure-4.txt", 2)]
)
def test_recorded_sysctl(recording: Callable[[str], str], file: str, level: int) -> None:
    assert macos.parse_sysctl(recording(file)) == level

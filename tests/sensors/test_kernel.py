"""Memory pressure and heat on Linux and macOS."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tfwatch.sensors import kernel
from tfwatch.sensors.kernel import MacPressureSensor, MacThermalSensor, ToolSensor
from tfwatch.sensors.sensor import SensorError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.sensors.conftest import Tools

SECOND_NS = 10**9
SYSCTL = "kern.memorystatus_vm_pressure_level: 2\n"
KEY = "com.apple.system.thermalpressurelevel"


def throttled(cpus: Path, number: int, package: int, milliseconds: str) -> None:
    for name, text in ((kernel._PACKAGES, f"{package}\n"), (kernel._THROTTLED, milliseconds)):
        path = cpus / f"cpu{number}" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    ("milliseconds", "figures"),
    [
        pytest.param(0, {"thermal_level": 0.0}, id="never"),
        pytest.param(50, {"thermal_level": 1.0}, id="a moment"),
        pytest.param(400, {"thermal_level": 3.0}, id="much of the time"),
    ],
)
def test_heat_on_linux_is_of_the_hotter_package(
    tmp_path: Path, milliseconds: int, figures: dict[str, float]
) -> None:
    for number in range(4):
        throttled(tmp_path, number, number // 2, "1000\n")
    sensor = kernel.ThermalSensor(tmp_path)
    assert sensor.why_unavailable() is None
    assert sensor.read(0) == {}
    for number in (2, 3):
        throttled(tmp_path, number, 1, f"{1000 + milliseconds}\n")

    assert sensor.read(SECOND_NS) == figures


@pytest.mark.parametrize("milliseconds", [None, "", "hot\n"])
def test_heat_that_linux_does_not_count(tmp_path: Path, milliseconds: str | None) -> None:
    if milliseconds is not None:
        throttled(tmp_path, 0, 0, milliseconds)
    reason = "this kernel does not count the time for which heat slows this processor"

    assert kernel.ThermalSensor(tmp_path).why_unavailable() == Unavailable(reason)


# -- macOS -----------------------------------------------------------------------------------------


def read(tools: Tools, kind: type[ToolSensor], text: str) -> Mapping[str, float] | Unavailable:
    """Return the figures of a sensor whose tool prints a text, or why there are none."""
    sensor = kind()
    sensor.command = (tools.print("tool", text),)
    return sensor.why_unavailable() or sensor.read(0)


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


@pytest.mark.parametrize(
    ("kind", "file", "match"),
    [
        (MacPressureSensor, "sysctl-all-keys.txt", "1"),
        (MacPressureSensor, "sysctl-pressure-4.txt", "4"),
        (MacThermalSensor, "notifyutil-level-0.txt", "0"),
        (MacThermalSensor, "notifyutil-failed.txt", None),
    ],
)
def test_recordings(
    recording: Callable[[str], str], kind: type[ToolSensor], file: str, match: str | None
) -> None:
    found = kind.pattern.search(recording(file))
    assert (found and found[1]) == match


def test_an_output_without_a_level_has_a_reason(tools: Tools) -> None:
    text = f"{KEY}: Failed with code 9"

    assert read(tools, MacThermalSensor, text) == Unavailable(
        f"tool prints '{text}', which tfwatch cannot parse"
    )


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

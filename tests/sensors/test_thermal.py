"""Heat on Linux and macOS."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tfwatch.sensors import linux, macos
from tfwatch.sensors.macos import KEY, parse_notifyutil
from tfwatch.sensors.protocol import Available, SensorError, Unavailable
from tfwatch.sensors.tool_readers import PolledTool

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.sensors.conftest import Tools

SECOND_NS = 10**9


@pytest.mark.parametrize(
    ("file", "level"), [("notifyutil-level-0.txt", 0), ("notifyutil-failed.txt", None)]
)
def test_recorded_notifyutil(recording: Callable[[str], str], file: str, level: int | None) -> None:
    assert parse_notifyutil(recording(file)) == level


@pytest.mark.parametrize(
    ("text", "level"),
    [
        *((f"{KEY} {level}\n", level) for level in range(5)),
        (f"other 1\n{KEY} 3\r\n", 3),
        (f"{KEY} 5\n", None),
        (f"{KEY} 10\n", None),
        (f"{KEY}2 1\n", None),
    ],
)
def test_notifyutil(text: str, level: int | None) -> None:
    assert parse_notifyutil(text) == level


@pytest.mark.parametrize(("level", "figure"), [(1, 2.0), (2, 3.0), (3, 4.0), (4, 4.0)])
def test_heat_on_macos(
    tools: Tools, monkeypatch: pytest.MonkeyPatch, level: int, figure: float
) -> None:
    monkeypatch.setattr(
        macos, "NOTIFYUTIL", (tools.print("notifyutil", f"{KEY} {level}\n"), "-g", KEY)
    )
    sensor = macos.ThermalSensor()

    assert sensor.available() == Available()
    assert sensor.read(0) == {"thermal_level": figure}


def test_a_level_of_0_is_unknown_until_macos_reports_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    levels = iter([0, 0, 2, 0])
    monkeypatch.setattr(PolledTool, "newest", lambda tool, now_ns: (now_ns, next(levels)))
    sensor = macos.ThermalSensor()
    for _ in range(2):
        with pytest.raises(
            SensorError, match="notifyutil prints 0, as it does for a level that nothing reports"
        ):
            sensor.read(0)

    assert [sensor.read(0), sensor.read(0)] == [{"thermal_level": 3.0}, {"thermal_level": 0.0}]


def test_heat_that_macos_does_not_report(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        macos, "NOTIFYUTIL", (tools.print("notifyutil", f"{KEY}: Failed with code 9\n"),)
    )

    reason = f"notifyutil prints '{KEY}: Failed with code 9', which tfwatch cannot parse"
    assert macos.ThermalSensor().available() == Unavailable(reason, "")


def throttled(cpus: Path, number: int, package: int, milliseconds: str) -> None:
    for name, text in ((linux._PACKAGES, f"{package}\n"), (linux._THROTTLED, milliseconds)):
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
    sensor = linux.ThermalSensor(tmp_path)
    assert sensor.available() == Available()
    assert sensor.read(0) == {}
    for number in (2, 3):
        throttled(tmp_path, number, 1, f"{1000 + milliseconds}\n")

    assert sensor.read(SECOND_NS) == figures


@pytest.mark.parametrize("milliseconds", [None, "", "hot\n"])
def test_heat_that_linux_does_not_count(tmp_path: Path, milliseconds: str | None) -> None:
    if milliseconds is not None:
        throttled(tmp_path, 0, 0, milliseconds)
    reason = "this kernel does not count the time for which heat slows this processor"

    assert linux.ThermalSensor(tmp_path).available() == Unavailable(reason, "")

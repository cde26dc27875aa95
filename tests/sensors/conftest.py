"""Recorded outputs of macOS' tools, tools that print what they are given, and machines to measure on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.runs.folders import FakeClock, make_manifest
from tests.runs.processes import wait_until
from tests.sensors.nvml import OTHER, OWN
from tfwatch.runs.writer import RunWriter
from tfwatch.sensors import tool_readers
from tfwatch.sensors.gpu import nvml

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tfwatch.sensors.protocol import Sensor

#: Beside the checkout, where there are any; the project ships none.
RECORDINGS = Path(__file__).parents[3] / "shared/recordings"


@pytest.fixture
def recording() -> Callable[[str], str]:
    """The text of a recorded output, by the name of its file."""

    def read(name: str) -> str:
        if not RECORDINGS.is_dir():
            pytest.skip("no recordings beside this checkout")
        return (RECORDINGS / name).read_text(encoding="utf-8")

    return read


class Tools:
    """Makes tools in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def print(self, name: str, text: str) -> str:
        """A tool that prints this from now on; its path."""
        said = self._folder / f"{name}.txt"
        said.write_text(text)
        return self.does(name, f"exec cat '{said}'")

    def does(self, name: str, lines: str) -> str:
        """A tool that does these lines of shell from now on; its path."""
        path = self._folder / name
        path.write_text(f"#!/bin/sh\n{lines}\n")
        path.chmod(0o755)
        return str(path)

    def settled(self, sensor: Sensor, now_ns: int, holds: Callable[[Mapping[str, float]], bool]) -> Mapping[str, float]:
        """What a sensor that asks a tool reads once its answer is there."""
        wait_until(lambda: holds(sensor.read(now_ns)))
        return sensor.read(now_ns)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tools:
    """Tools in a folder of the test's own; they may take their time, for a machine that tests is busy."""
    monkeypatch.setattr(tool_readers, "PATIENCE_S", 20.0)
    return Tools(tmp_path)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine with an NVIDIA driver, on which the process numbers OWN and OTHER are in use."""
    monkeypatch.setattr(nvml, "_DRIVER", (tmp_path,))
    monkeypatch.setattr(psutil, "pid_exists", lambda pid: pid in (OWN, OTHER))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1.0)


@pytest.fixture
def writer(clock: FakeClock) -> RunWriter:
    return RunWriter(None, make_manifest(), clock.clock)

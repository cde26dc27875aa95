"""Fixtures: recorded outputs of macOS' tools, fake tools, and fake machines."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.runs.folders import FakeClock, make_manifest
from tests.sensors.nvml import OTHER, OWN
from tfwatch.runs.writer import RunWriter
from tfwatch.sensors import host, nvml

#: Recordings next to the checkout; the project has none.
RECORDINGS = Path(__file__).parents[3] / "shared/recordings"


@pytest.fixture
def recording() -> Callable[[str], str]:
    """Return a function that reads a recorded output by file name."""

    def read(name: str) -> str:
        if not RECORDINGS.is_dir():
            pytest.skip("no recordings beside this checkout")
        return (RECORDINGS / name).read_text(encoding="utf-8")

    return read


def one_after_another(answers: Sequence[Any]) -> Callable[..., Any]:
    """Return a function that takes anything and gives the answers in turn."""
    left = iter(answers)
    return lambda *_, **__: next(left)


class Tools:
    """Fake tools in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def print(self, name: str, text: str) -> str:
        """Write a tool that prints a text; return its path."""
        output = self._folder / f"{name}.txt"
        output.write_text(text)
        return self.does(name, f"exec cat '{output}'")

    def does(self, name: str, lines: str) -> str:
        """Write a tool of these shell lines; return its path."""
        path = self._folder / name
        path.write_text(f"#!/bin/sh\n{lines}\n")
        path.chmod(0o755)
        return str(path)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tools:
    """Return tools in a folder of the test, with longer time limits: a test machine is busy."""
    monkeypatch.setattr(host, "PATIENCE_S", 20.0)
    return Tools(tmp_path)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Simulate a machine with an NVIDIA driver and the processes OWN and OTHER."""
    monkeypatch.setattr(nvml, "_DRIVER", (tmp_path,))
    monkeypatch.setattr(psutil, "pid_exists", lambda pid: pid in (OWN, OTHER))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1.0)


@pytest.fixture
def writer(clock: FakeClock) -> RunWriter:
    return RunWriter(None, make_manifest(), clock.clock)

"""The whole sampling thread over faulty GPU tools: samples continue, and the fault is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.runs.folders import make_manifest, written
from tests.runs.processes import wait_until
from tfwatch.core.clock import SYSTEM
from tfwatch.core.events import SensorMissing, decode
from tfwatch.core.rows import SAMPLE
from tfwatch.runs.format import EVENTS, SAMPLES
from tfwatch.runs.writer import RunWriter
from tfwatch.sensors import runner
from tfwatch.sensors.gpu import ioreg, powermetrics, sensor
from tfwatch.sensors.runner import Sensors

if TYPE_CHECKING:
    from pathlib import Path

    from tests.sensors.conftest import Tools

GPU = (
    '+-o GPU\n      "PerformanceStatistics" = {"Device Utilization %"=40,"In use system'
    ' memory"=1024}\n'
)


@pytest.fixture(autouse=True)
def _samples_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take ten times as many samples, so that a test waits for none."""
    monkeypatch.setattr(runner, "PERIOD_NS", 50_000_000)


class Sampled:
    """The sampling thread of a run without a folder."""

    def __init__(self, gpu: str) -> None:
        self.writer = RunWriter(None, make_manifest(origin_ns=SYSTEM.now_ns()))
        self.sensors = Sensors(self.writer, gpu=gpu)
        self.sensors.start()

    def rows(self) -> int:
        self.writer.flush()
        return len(written(self.writer, SAMPLES)) // SAMPLE.itemsize

    def reasons(self) -> list[str]:
        """Return the reported reasons for the GPU as a whole."""
        self.writer.flush()
        events = map(decode, written(self.writer, EVENTS).splitlines())
        return [
            event.reason
            for event in events
            if isinstance(event, SensorMissing) and event.sensor == "GPU"
        ]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        pytest.param("exec sleep 600", "powermetrics has not responded", id="sleeps"),
        pytest.param("exit 7", "powermetrics: it ended with 7", id="dies"),
        pytest.param(
            "echo sudo: a password is required >&2; exit 1",
            "powermetrics runs as root only",
            id="refuses",
        ),
    ],
)
def test_a_faulty_tool_is_reported_and_samples_continue(
    lines: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "powermetrics"
    path.write_text(f"#!/bin/sh\n{lines}\n")
    path.chmod(0o755)
    monkeypatch.setattr(powermetrics, "COMMAND", (str(path),))
    monkeypatch.setattr(powermetrics, "SUDO", ())
    monkeypatch.setattr(sensor, "PATIENCE_NS", 300_000_000)
    sampled = Sampled("powermetrics")

    # A tool that fails at once takes longer on a busy machine: then it "has not responded" at
    # first.
    wait_until(lambda: any(one.startswith(reason) for one in sampled.reasons()))
    before = sampled.rows()
    wait_until(lambda: sampled.rows() > before + 1)
    sampled.sensors.stop()


def test_a_tool_that_hangs_during_a_run_is_reported_and_recovers(
    tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ioreg, "COMMAND", (tools.print("ioreg", GPU),))
    monkeypatch.setattr(ioreg, "CLIENTS", (tools.print("clients", ""),))
    sampled = Sampled("ioreg")
    wait_until(lambda: sampled.rows() > 1)
    assert sampled.reasons() == []

    tools.does("slow", "exec sleep 600")
    # A file that is written cannot be started, so each one takes the place of the other.
    (tmp_path / "ioreg").rename(tmp_path / "working")
    (tmp_path / "slow").rename(tmp_path / "ioreg")
    wait_until(lambda: len(sampled.reasons()) > 0)
    assert sampled.reasons()[0] == "ioreg: did not respond within 0.6 s"
    (tmp_path / "working").rename(tmp_path / "ioreg")
    size = len(written(sampled.writer, EVENTS))
    wait_until(lambda: b"GpuFound" in written(sampled.writer, EVENTS)[size:] or not sampled.rows())
    sampled.sensors.stop()

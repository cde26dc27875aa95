"""A stopped process is distinguished from one that held Python's lock."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.runs.folders import FakeClock, make_manifest, written
from tfwatch.core.events import Paused, decode
from tfwatch.core.rows import Phase
from tfwatch.runs import format as layout
from tfwatch.runs.run import open_run
from tfwatch.runs.writer import RunWriter
from tfwatch.sensors.pauses import StopDetector

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("gap_s", "cpu_s", "phase", "pauses"),
    [
        pytest.param(20.0, 0.01, Phase.WAIT, [(20_000.0, "in data wait")], id="stopped in a fetch"),
        pytest.param(20.0, 0.01, Phase.COMPUTE, [(20_000.0, "in compute")], id="stopped in a step"),
        pytest.param(20.0, 0.01, Phase.VALIDATION, [(20_000.0, "")], id="stopped in a validation"),
        pytest.param(20.0, 19.0, Phase.WAIT, [], id="a lock was held"),
        pytest.param(0.4, 0.0, Phase.WAIT, [], id="a busy machine"),
    ],
)
def test_a_stop_is_a_gap_without_cpu(
    gap_s: float, cpu_s: float, phase: Phase, pauses: list[tuple[float, str]]
) -> None:
    clock, cpu_ns = FakeClock(1.0), [0]
    writer = RunWriter(None, make_manifest(), clock.clock)
    stops = StopDetector(writer, replace(clock.clock, process_ns=lambda: cpu_ns[0]))
    writer.status = (phase, 0, 7, 0, "")

    clock.at_s += gap_s
    cpu_ns[0] += round(cpu_s * 1e9)
    stops.poll()
    clock.at_s += 0.02
    stops.poll()

    writer.flush()
    events = map(decode, written(writer, layout.EVENTS).splitlines())
    found = [event for event in events if isinstance(event, Paused)]
    assert [(event.took_ms, event.detail) for event in found] == pauses
    assert {event.cause for event in found} <= {"process stopped"}


_WAITS = """
import sys
from pathlib import Path
from tests.runs.begun import begin_run
from tfwatch.sensors.pauses import PauseDetector

writer, _ = begin_run(Path(sys.argv[1]), "cnn")
pauses = PauseDetector(writer)
pauses.start()
print(writer.folder, flush=True)
sys.stdin.read()
pauses.stop()
writer.close()
"""


def test_a_stopped_process_reports_the_stop_when_it_continues(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _WAITS, str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        folder = process.stdout.readline().strip()
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        time.sleep(1.2)
        process.send_signal(signal.SIGCONT)
        give_up_s = time.monotonic() + 20
        while not (found := pauses_of(folder)) and time.monotonic() < give_up_s:
            time.sleep(0.02)
        process.stdin.close()

    assert [event.cause for event in found if event.took_ms >= 1200] == ["process stopped"]


def pauses_of(folder: str) -> list[Paused]:
    return open_run(folder).events.of(Paused)

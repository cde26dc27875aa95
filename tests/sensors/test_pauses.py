"""Pauses by callbacks and by stops of the process, and pressure on the whole machine."""

import math
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.runs.folders import FakeClock, read_back
from tests.runs.processes import wait_until
from tfwatch.core.events import Paused
from tfwatch.core.rows import SAMPLE, Phase
from tfwatch.runs.run import open_run
from tfwatch.runs.writer import RunWriter
from tfwatch.sensors import host
from tfwatch.sensors.host import Pressure
from tfwatch.sensors.pauses import CallbackTimes, PauseDetector, StopDetector
from tfwatch.sensors.running_code import RunningCode


def pauses_in(writer: RunWriter) -> list[Paused]:
    writer.flush()
    return read_back(writer).events.of(Paused)


class SeenCode:
    """A sampler that sees a callback in every phase of Python."""

    def __init__(self, writer: RunWriter, callback: str) -> None:
        self._writer = writer
        self._code = RunningCode(callback, place="train.py:41 in save")

    @property
    def newest(self) -> tuple[int, RunningCode]:
        return self._writer.status[1], self._code


def times_of(writer: RunWriter, callback: str) -> CallbackTimes:
    return CallbackTimes(writer, SeenCode(writer, callback))  # type: ignore[arg-type]


def test_a_callback_is_timed_from_the_steps_end(writer: RunWriter, clock: FakeClock) -> None:
    times = times_of(writer, "ModelCheckpoint")
    writer.status = (Phase.HOST, round(1.0e9), 7, 0, "")
    for _ in range(5):
        clock.at_s += 0.012
        times.poll()
    clock.at_s += 0.005
    writer.status = (Phase.WAIT, round(1.062e9), 8, 0, "")
    times.poll()

    (pause,) = pauses_in(writer)
    assert (pause.cause, pause.detail) == ("checkpoint", "ModelCheckpoint")
    assert pause.place == "train.py:41 in save"
    assert pause.at_ns == 1_062_000_000
    assert pause.took_ms == pytest.approx(62.0)


@pytest.mark.parametrize("phase", [Phase.WAIT, Phase.COMPUTE, Phase.VALIDATION])
def test_only_the_time_after_a_step_is_that_of_a_callback(phase: Phase, writer: RunWriter) -> None:
    times = times_of(writer, "CSVLogger")
    for began_s in (0.0, 0.995):  # the second one is short
        writer.status = (phase, round(began_s * 1e9), 1, 0, "")
        times.poll()
        phase = Phase.HOST
    writer.status = (Phase.WAIT, 10**9, 1, 0, "")
    times.poll()

    assert pauses_in(writer) == []


def test_a_callback_that_is_slow_every_step_does_not_fill_the_disk(
    writer: RunWriter, clock: FakeClock
) -> None:
    times = times_of(writer, "CSVLogger")
    for step in range(1000):
        writer.status = (Phase.HOST, round(clock.at_s * 1e9), step, 0, "")
        clock.at_s += 0.1 if step == 500 else 0.02
        times.poll()
        writer.status = (Phase.WAIT, round(clock.at_s * 1e9), step, 0, "")
        times.poll()

    found = pauses_in(writer)
    assert 20 + 20 <= len(found) <= 20 + 23  # 20 s of it
    assert [round(pause.took_ms) for pause in found].count(100) == 1
    assert {pause.cause for pause in found} == {"callback"}


def test_stopping_ends_the_thread(writer: RunWriter) -> None:
    writer.training_thread = threading.get_ident()
    thread = PauseDetector(writer)
    thread.start()
    thread.stop()
    thread.stop()

    assert thread._thread not in threading.enumerate()


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
    gap_s: float,
    cpu_s: float,
    phase: Phase,
    pauses: list[tuple[float, str]],
    writer: RunWriter,
    clock: FakeClock,
) -> None:
    cpu_ns = [0]
    stops = StopDetector(writer, replace(clock.clock, process_ns=lambda: cpu_ns[0]))
    writer.status = (phase, 0, 7, 0, "")

    clock.at_s += gap_s
    cpu_ns[0] += round(cpu_s * 1e9)
    stops.poll()
    clock.at_s += 0.02
    stops.poll()

    found = pauses_in(writer)
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
        wait_until(lambda: bool(open_run(folder).events.of(Paused)))
        process.stdin.close()

    found = open_run(folder).events.of(Paused)
    assert [event.cause for event in found if event.took_ms >= 1200] == ["process stopped"]


class Machine:
    """A machine of two cores with a sample every half second."""

    def __init__(
        self, writer: RunWriter, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.preemptions = 0
        monkeypatch.setattr(host, "_preemptions", lambda: self.preemptions)
        monkeypatch.setattr(host, "bound_cores", lambda: [0, 1])
        self.writer, self.clock = writer, clock
        self.pressure = Pressure(writer)

    def sample(
        self,
        cpu: float = 1.2,
        own: float = 1.1,
        switches: int = 5,
        swap: float = 0.0,
        **others: float,
    ) -> None:
        self.clock.at_s += 0.5
        self.preemptions += switches
        figures = dict.fromkeys(SAMPLE.names or (), math.nan)
        self.pressure.update(
            {**figures, "cpu_cores": cpu, "process_cores": own, "swap_used_bytes": swap, **others}
        )


@pytest.fixture
def machine(writer: RunWriter, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(writer, clock, monkeypatch)


def test_contention_needs_a_full_cpu_other_processes_and_preemptions(machine: Machine) -> None:
    machine.sample(cpu=2.0, own=1.9, switches=500)  # full of its own work
    machine.sample(cpu=1.4, own=0.4, switches=500)  # others work, and there is room
    machine.sample(cpu=2.0, own=1.0, switches=1)  # full, without preemptions
    machine.sample(cpu=float("nan"), own=1.0, switches=500)
    assert pauses_in(machine.writer) == []

    machine.sample(cpu=1.95, own=1.0, switches=500)
    machine.sample(cpu=1.95, own=1.0, switches=500)
    machine.sample()

    (pause,) = pauses_in(machine.writer)
    assert (pause.cause, pause.detail) == ("CPU contention", "other processes use 0.9 of 2 cores")
    assert pause.at_ns == 4 * 10**9
    assert pause.took_ms == pytest.approx(1000.0)


def test_swapped_memory_is_reported(machine: Machine) -> None:
    for swap in (0.0, 1.0, 40.0, 10.0, 10.0):
        machine.sample(swap=swap * 2**20)

    (pause,) = pauses_in(machine.writer)
    assert (pause.cause, pause.detail) == ("swap", "30 MB")
    assert pause.took_ms == pytest.approx(1000.0)


def test_swap_traffic_wins_over_the_swapped_size(machine: Machine) -> None:
    rate = 2.0**20
    machine.sample(swap=0, swap_bytes_s=0)
    machine.sample(swap=100 * 2**20, swap_bytes_s=0)  # a process ended, its swap came back
    machine.sample(swap=100 * 2**20, swap_bytes_s=60 * rate)  # in and out the same
    machine.sample(swap=100 * 2**20, swap_bytes_s=20 * rate)

    (pause,) = pauses_in(machine.writer)
    assert (pause.cause, pause.detail) == ("swap", "30 MB")
    assert pause.took_ms == pytest.approx(500.0)


@pytest.mark.parametrize(
    ("levels", "found"),
    [
        pytest.param([0, 1, 2, 0], [], id="warm"),
        pytest.param([0, 3, 3, 2], [("heavy", 1000.0)], id="heavy"),
        pytest.param([math.nan, 3, 4, 4, math.nan], [("critical", 1500.0)], id="critical"),
        pytest.param([3] * 23, [("heavy", 5000.0)] * 2, id="reported before it ends"),
    ],
)
def test_heat_that_slows_the_training(
    machine: Machine, levels: list[float], found: list[tuple[str, float]]
) -> None:
    for level in levels:
        machine.sample(thermal_level=level)

    pauses = pauses_in(machine.writer)
    assert [pause.detail for pause in pauses] == [word for word, _ in found]
    assert [pause.took_ms for pause in pauses] == pytest.approx([ms for _, ms in found])
    assert {pause.cause for pause in pauses} <= {"thermal limit"}

"""The open phase at the end of a run."""

from pathlib import Path

import pytest

from tests.judge.step_rows import plain
from tests.runs.folders import FakeClock, add_steps, make_manifest
from tfwatch.core.events import EpochStarted, RunEnded
from tfwatch.core.rows import Phase
from tfwatch.report import run_facts
from tfwatch.runs.format import Pulse
from tfwatch.runs.liveness import OpenPhase, find_open_phase
from tfwatch.runs.run import open_run
from tfwatch.runs.snapshot import Snapshot
from tfwatch.runs.writer import RunWriter

#: Two seconds of steps, and 30 seconds of the last phase.
STEPS, BEGAN_S, ENDED_S = 100, 2.0, 32.0


def left_in(folder: Path, phase: Phase, *, ended: bool) -> Snapshot:
    """Return a run that ended, or was killed, during a phase."""
    clock = FakeClock()
    folder.mkdir()
    changes = {} if ended else {"pid": 2**22 + 1}
    writer = RunWriter(folder, make_manifest(**changes), clock.clock)
    writer.event(EpochStarted(0, 0, 1, None))
    add_steps(writer, plain(STEPS))
    clock.at_s = BEGAN_S
    of_the_next = phase in (Phase.WAIT, Phase.COMPUTE)
    writer.status = (phase, round(BEGAN_S * 1e9), STEPS + of_the_next, 0, "")
    clock.at_s = ENDED_S
    if ended:
        writer.end("stopped", "left")
    writer.close()
    clock.at_s = 900
    return open_run(folder, clock.clock)


@pytest.mark.parametrize("ended", [True, False])
def test_an_open_wait_is_a_stall_and_counts_as_data_wait(tmp_path: Path, ended: bool) -> None:
    found = run_facts.as_json(left_in(tmp_path / "run", Phase.WAIT, ended=ended))

    assert found["time_breakdown"]["total"]["data_wait_s"] == pytest.approx(
        30 + STEPS * 0.002, rel=1e-3
    )
    assert [(stall["step"], stall["start_s"], stall["lost_ms"]) for stall in found["stalls"]] == [
        (STEPS + 1, BEGAN_S, pytest.approx(30_000))
    ]
    assert found["steps"] == STEPS
    assert found["time_breakdown"]["total"]["wall_s"] == pytest.approx(ENDED_S)


@pytest.mark.parametrize(
    ("phase", "part"),
    [(Phase.COMPUTE, "compute_s"), (Phase.HOST, "host_s"), (Phase.VALIDATION, "validation_s")],
)
def test_another_open_phase_counts_as_its_part(tmp_path: Path, phase: Phase, part: str) -> None:
    run = left_in(tmp_path / "run", phase, ended=True)
    found = run_facts.as_json(run)

    assert found["time_breakdown"]["total"][part] == pytest.approx(30, abs=2)
    assert (found["stalls"], found["steps"]) == ([], STEPS)
    assert run.ended is not None
    assert run.ended.doing == phase.name


def test_the_end_event_wins_over_the_pulse() -> None:
    pulse = Pulse(9, 0, Phase.ENDED, 8, 7, 2)

    ended = RunEnded(9, "stopped", 6, doing="WAIT", since_ns=3)
    assert find_open_phase(ended, pulse) == OpenPhase(Phase.WAIT, 3, 9, 7, 2)
    assert find_open_phase(RunEnded(9, "stopped", 6), pulse) is None
    assert find_open_phase(RunEnded(9, "stopped", 6, doing="dreaming"), pulse) is None
    assert find_open_phase(None, Pulse(9, 0, Phase.WAIT, 8, 7, 2)) == OpenPhase(
        Phase.WAIT, 8, 9, 7, 2
    )
    assert find_open_phase(None, None) is None

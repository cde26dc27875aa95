from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.runs.processes import wait_until, writing_child
from tfwatch.runs.liveness import SILENT_S, Life
from tfwatch.runs.run import open_run


def test_a_killed_run_has_every_row_up_to_a_fifth_of_a_second_and_its_last_phase(
    tmp_path: Path,
) -> None:
    with writing_child(tmp_path) as child:
        killed_ns = child.signal(signal.SIGKILL)
        child.process.wait(timeout=20)

        run = open_run(child.folder)

    assert run.life is Life.KILLED
    assert (run.ended, run.torn) == (None, 0)
    assert run.steps["step"].tolist() == list(range(1, len(run.steps) + 1))
    assert killed_ns - int(run.steps["start_ns"][-1]) < 0.2e9
    assert killed_ns - int(run.samples["at_ns"][-1]) < 0.2e9
    assert run.length_s == pytest.approx(killed_ns / 1e9, abs=0.2)
    assert run.pulse is not None
    assert run.pulse.step >= run.steps_total
    assert run.time_sums.columns(run.now_s, 0.25, 400).steps.sum() == run.steps_total


def test_a_stopped_process_does_not_respond_and_then_continues(tmp_path: Path) -> None:
    with writing_child(tmp_path) as child:
        assert child.reader.read().life is Life.RUNNING
        child.signal(signal.SIGSTOP)
        wait_until(lambda: child.reader.read().life is Life.NOT_RESPONDING, timeout_s=3.0)
        assert child.reader.read().silent_s > SILENT_S
        child.signal(signal.SIGCONT)
        wait_until(lambda: child.reader.read().life is Life.RUNNING)


def test_a_run_that_ends_is_followed_to_its_end(tmp_path: Path) -> None:
    with writing_child(tmp_path) as child:
        child.finish()
        snapshot = child.reader.read()
        run = open_run(child.folder)

    assert snapshot.life is run.life is Life.ENDED
    assert snapshot.ended == run.ended
    assert run.ended is not None
    assert snapshot.steps_total == len(run.steps) == run.ended.steps
    assert snapshot.recent.tobytes() == run.steps[-len(snapshot.recent) :].tobytes()

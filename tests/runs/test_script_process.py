"""The process of a script, seen by another one: its runs, and its end by a signal."""

import signal
from pathlib import Path

import pytest

from tests.judge.step_rows import plain
from tests.runs.begun import begin_run
from tests.runs.folders import FakeClock, make_writer, opened, write_run
from tests.runs.hanging import hang
from tests.runs.processes import wait_until
from tfwatch.runs import format as layout
from tfwatch.runs.format import NotARunError
from tfwatch.runs.liveness import Life
from tfwatch.runs.script_process import ProcessRuns, record_signal

#: The number of no process.
GONE = 2**22 + 1


@pytest.mark.parametrize(
    ("signum", "ended"),
    [
        (signal.SIGTERM, ("stopped", "the process was ended by SIGTERM", 7)),
        (signal.SIGSEGV, ("failed", "the process was ended by SIGSEGV", 7)),
        (35, ("failed", "the process was ended by signal 35", 7)),
        (signal.SIGKILL, None),
    ],
)
def test_a_signal_is_the_end_of_a_run(
    signum: int, ended: tuple[str, str, int] | None, tmp_path: Path
) -> None:
    write_run(tmp_path, plain(7), pid=GONE)
    with (tmp_path / layout.EVENTS).open("a") as events:
        events.write('{"event": "torn')

    record_signal(tmp_path, signum, FakeClock(1).clock)

    run = opened(tmp_path)
    assert (run.ended and (run.ended.cause, run.ended.detail, run.ended.steps)) == ended
    assert run.life is (Life.ENDED if ended else Life.KILLED)


def test_a_run_that_has_ended_keeps_its_end(tmp_path: Path) -> None:
    writer = make_writer(tmp_path)
    writer.end("finished")
    writer.close()

    record_signal(tmp_path, signal.SIGTERM, FakeClock(1).clock)

    run = opened(tmp_path)
    assert run.ended
    assert run.ended.cause == "finished"


def run(runs_dir: Path, pid: int | None = None, **described: str) -> Path:
    """Write a run of one step that is over. pid: of another process than this one."""
    writer, _ = begin_run(runs_dir, "cnn")
    if pid:
        writer.describe(pid=pid)
    writer.describe(**described)
    writer.step(0, 1, 0, 0, 4.0, 1.0, 5.0, 1.0)
    writer.end("finished")
    writer.close()
    assert writer.folder
    return writer.folder


def test_the_runs_of_the_process_come_once_and_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    first, _, second = run(tmp_path), run(tmp_path, pid=1), run(tmp_path)
    monkeypatch.chdir(tmp_path)
    runs = ProcessRuns(second.relative_to(tmp_path), clock.clock)
    assert runs.take() == [first, second]
    (tmp_path / "empty").mkdir()
    run(tmp_path, pid=1)
    third, fourth = run(tmp_path), run(tmp_path)
    assert runs.take() == []
    clock.at_s += 1
    assert runs.take() == [third, fourth]
    clock.at_s += 1
    assert runs.take() == []


def test_a_disk_that_hangs_holds_up_no_look_for_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    first = run(tmp_path)
    runs = ProcessRuns(first, clock.clock)
    assert runs.take() == [first]
    clock.at_s += 1
    second = run(tmp_path)
    with hang(monkeypatch, ProcessRuns, "_look") as hanging:
        runs._looks.patience_s = 0.01
        assert runs.take() == []
        assert hanging.asked.wait(10)
        assert runs.take() == []
    wait_until(lambda: runs.take() == [second])


def test_a_folder_that_is_gone_has_no_more_runs(tmp_path: Path) -> None:
    first = run(tmp_path / "runs")
    runs = ProcessRuns(first)
    (tmp_path / "runs").rename(tmp_path / "moved")
    assert runs.take() == [first]
    with pytest.raises(NotARunError):
        ProcessRuns(tmp_path / "nothing")

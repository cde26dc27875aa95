"""The loops that are epochs of one run of `track`."""

import threading
from pathlib import Path
from typing import Any

import pytest

import tfwatch
from tests.runs.processes import wait_until
from tests.watch.tracked import BATCHES, cause, opened, runs_in
from tests.whole import events_of
from tfwatch.core.events import EpochEnded, EpochStarted
from tfwatch.runs.library import list_runs
from tfwatch.runs.liveness import Life
from tfwatch.runs.run import open_run
from tfwatch.watch.loops.tracked_loop import TrackedRun

pytestmark = pytest.mark.usefixtures("all_runs_ended")


def test_a_call_from_the_same_line_continues_the_run(tmp_path: Path) -> None:
    for n in range(3):
        for _ in tfwatch.track([n] * 5, tmp_path):
            pass
    for _, _ in enumerate(tfwatch.track(BATCHES, tmp_path)):
        pass
    first, second = runs_in(tmp_path)
    assert (len(events_of(first, EpochStarted)), len(events_of(second, EpochStarted))) == (3, 1)


def test_objects_that_exist_at_the_same_time_have_their_own_runs(tmp_path: Path) -> None:
    several = [tfwatch.track([n] * 3, tmp_path) for n in range(2)]
    for tracked in several:
        assert len(list(tracked)) == 3
    for pair in zip(*several, strict=True):
        assert pair == (0, 1)
    for tracked in several:
        assert [len(events_of(opened(tracked), kind)) for kind in (EpochStarted, EpochEnded)] == [
            2,
            2,
        ]
        tracked.close()
    assert len(list_runs(tmp_path)) == 2


def test_a_with_block_is_one_run(tmp_path: Path) -> None:
    for _ in range(2):
        with tfwatch.track(BATCHES, tmp_path) as tracked:
            for _ in tracked:
                break
        assert cause(opened(tracked)) == "finished"
    assert len(list_runs(tmp_path)) == 2


def test_a_loop_in_a_loop_has_a_run_of_its_own(tmp_path: Path) -> None:
    inner: list[int] = []
    with tfwatch.track(range(2), tmp_path / "outer") as outer:
        for _ in outer:
            inner += [n for n in tfwatch.track(range(3), tmp_path / "inner")]  # noqa: C416  a loop
    assert inner == [0, 1, 2] * 2
    (run,) = runs_in(tmp_path / "inner")
    assert len(opened(outer).steps) == 2
    assert [event.epoch for event in events_of(run, EpochEnded)] == [0, 1]


def test_a_second_loop_over_the_same_object_takes_over(tmp_path: Path) -> None:
    with tfwatch.track(BATCHES, tmp_path) as tracked:
        first = iter(tracked)
        next(first)
        second = iter(tracked)
        assert (len(list(second)), len(list(first))) == (5, 4)
    assert len(opened(tracked).steps) == 6


def test_threads_have_runs_of_their_own(tmp_path: Path) -> None:
    together, counts = threading.Barrier(3), []

    def loop() -> None:
        for n in tfwatch.track(range(50), tmp_path):
            if n == 10:
                together.wait(timeout=20)
        counts.append(n)

    threads = [threading.Thread(target=loop) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert counts == [49] * 3
    wait_until(lambda: [len(open_run(run).steps) for run in list_runs(tmp_path)] == [50] * 3)


def test_no_more_than_a_few_runs_wait_for_another_call(tmp_path: Path) -> None:
    loops: dict[str, Any] = {"track": tfwatch.track, "runs_dir": tmp_path}
    for _ in range(12):  # as the cells of a notebook
        exec(compile("for _ in track(range(3), runs_dir): pass", "cell", "exec"), loops)
    lives = [open_run(run).life for run in reversed(list_runs(tmp_path))]
    assert len(lives) == 12
    assert set(lives[:3]) == {Life.ENDED}
    assert set(lives[-4:]) == {Life.RUNNING}


def test_a_run_is_ended_from_a_thread_that_is_about_to_be_joined(tmp_path: Path) -> None:
    """The garbage collector may run in the writer's own thread."""
    loop = TrackedRun(tmp_path, compile("0", "", "eval"), 1)
    thread = threading.Thread(target=loop.end, name="tfwatch-writer")
    thread.start()
    thread.join()
    wait_until(lambda: loop.is_over)
    assert loop.path
    wait_until(lambda: open_run(loop.path or "").ended is not None)

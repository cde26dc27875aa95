"""Which loops are epochs of one run of `track`, and how its runs end."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

import tfwatch
from tests.runs.processes import wait_until
from tests.whole import told
from tfwatch.core.events import EpochEnded, EpochStarted, TrainingFailed
from tfwatch.core.rows import Phase
from tfwatch.runs.library import list_runs
from tfwatch.runs.life import Life
from tfwatch.runs.opened import open_run
from tfwatch.training.loop import Loop

from .tracked import BATCHES, cause, flushed, opened, python, runs_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tfwatch import Track

pytestmark = pytest.mark.usefixtures("all_runs_ended")


def test_an_object_that_is_looped_over_again_goes_on_with_its_run_until_it_is_gone(tmp_path: Path) -> None:
    tracked = tfwatch.track(BATCHES, tmp_path)
    for _ in range(3):
        for _ in tracked:
            pass
    run = opened(tracked)
    assert (run.life, len(told(run, EpochEnded))) == (Life.RUNNING, 3)
    del tracked
    (folder,) = list_runs(tmp_path)
    assert cause(open_run(folder)) == "finished"


def test_a_call_from_the_same_line_goes_on_with_the_run(tmp_path: Path) -> None:
    for n in range(3):
        for _ in tfwatch.track([n] * 5, tmp_path):
            pass
    for _, _ in enumerate(tfwatch.track(BATCHES, tmp_path)):
        pass
    first, second = runs_in(tmp_path)
    assert (len(told(first, EpochStarted)), len(told(second, EpochStarted))) == (3, 1)


def test_no_call_goes_on_with_a_run_that_is_being_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by a garbage collection in a thread that has something to do yet."""
    for _ in range(2):
        tracked = tfwatch.track(BATCHES, tmp_path)
        for _ in range(2):
            list(tracked)
        with monkeypatch.context() as later:
            later.setattr(Loop, "end", lambda _: None)
            del tracked
    assert [len(told(run, EpochEnded)) for run in runs_in(tmp_path)] == [2, 2]


def test_a_loop_that_outlives_its_object_ends_their_run(tmp_path: Path) -> None:
    """As where both are collected: in which order is not known."""
    tracked = tfwatch.track(BATCHES, tmp_path)
    assert len(list(tracked)) == 5
    loop = iter(tracked)
    next(loop)
    del tracked
    assert not runs_in(tmp_path)[0].ended
    del loop
    assert [(cause(run), len(run.steps)) for run in runs_in(tmp_path)] == [("stopped", 6)]


def test_a_call_within_another_generator_goes_on_too(tmp_path: Path) -> None:
    """As with a progress bar around it, which holds the object for as long as the loop."""

    def bar(tracked: Track[Any]) -> Iterator[Any]:
        yield from tracked

    for _ in range(2):
        for _ in bar(tfwatch.track(BATCHES, tmp_path)):
            pass
    (run,) = runs_in(tmp_path)
    assert len(told(run, EpochEnded)) == 2


def test_objects_that_live_side_by_side_have_runs_of_their_own(tmp_path: Path) -> None:
    several = [tfwatch.track([n] * 3, tmp_path) for n in range(2)]
    for tracked in several:
        assert len(list(tracked)) == 3
    for pair in zip(*several, strict=True):
        assert pair == (0, 1)
    for tracked in several:
        assert [len(told(opened(tracked), kind)) for kind in (EpochStarted, EpochEnded)] == [2, 2]
        tracked.close()
    assert len(list_runs(tmp_path)) == 2


def test_a_run_ends_with_the_epochs_that_were_announced(tmp_path: Path) -> None:
    tracked = tfwatch.track(BATCHES, tmp_path, epochs=2)
    for epoch in range(3):
        for _ in tracked:
            pass
        if epoch == 1:
            first = opened(tracked)
    assert (cause(first), len(first.steps), first.manifest.epochs) == ("finished", 10, 2)
    assert tracked.run_path != first.path
    tracked.close()
    assert (cause(opened(tracked)), len(opened(tracked).steps)) == ("finished", 5)


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
    assert [event.epoch for event in told(run, EpochEnded)] == [0, 1]


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
    for _ in range(8):  # as the cells of a notebook
        exec(compile("for _ in track(range(3), runs_dir): pass", "cell", "exec"), loops)
    lives = [open_run(run).life for run in reversed(list_runs(tmp_path))]
    assert len(lives) == 8
    assert set(lives[:3]) == {Life.ENDED}
    assert set(lives[-4:]) == {Life.RUNNING}


def test_a_run_is_ended_from_a_thread_that_is_joined_then(tmp_path: Path) -> None:
    """The garbage collector may run in the writer's own thread."""
    loop = Loop(tmp_path, None, compile("0", "", "eval"))
    thread = threading.Thread(target=loop.end, name="tfwatch-writer")
    thread.start()
    thread.join()
    wait_until(lambda: loop.over)
    assert loop.path
    wait_until(lambda: open_run(loop.path or "").ended is not None)


# -- ends ------------------------------------------------------------------------------------------------


def test_what_the_iterable_raises_is_what_the_loop_raises_and_the_run_failed(tmp_path: Path) -> None:
    error = OSError("no such share")

    def batches() -> Iterator[int]:
        yield from range(3)
        raise error

    tracked = tfwatch.track(batches(), tmp_path)
    with pytest.raises(OSError, match="no such share") as raised:
        for _ in tracked:
            pass
    assert raised.value is error
    run = opened(tracked)
    (failure,) = told(run, TrainingFailed)
    assert (cause(run), len(run.steps), failure.step) == ("failed", 3, 4)
    assert run.under_way
    assert run.under_way.phase is Phase.WAIT
    assert failure.error == "OSError: no such share"
    assert "in batches" in failure.traceback


def test_a_loop_that_goes_on_after_an_error_is_recorded_on(tmp_path: Path) -> None:
    class Flaky:
        n = 0

        def __iter__(self) -> Flaky:
            return self

        def __next__(self) -> int:
            self.n += 1
            if self.n == 3:
                raise ValueError("a bad record")
            if self.n == 6:
                raise StopIteration
            return self.n

    with tfwatch.track(Flaky(), tmp_path) as tracked:
        steps = iter(tracked)
        assert [next(steps), next(steps)] == [1, 2]
        with pytest.raises(ValueError, match="a bad record"):
            next(steps)
        assert list(steps) == [4, 5]
    assert (cause(opened(tracked)), len(opened(tracked).steps)) == ("finished", 4)


def test_a_loop_over_an_object_whose_last_loop_failed_is_another_run(tmp_path: Path) -> None:
    class Failing:
        tried = False

        def __iter__(self) -> Iterator[int]:
            if not self.tried:
                self.tried = True
                raise ValueError("no data yet")
            yield from range(3)

    tracked = tfwatch.track(Failing(), tmp_path)
    steps = iter(tracked)
    with pytest.raises(ValueError, match="no data yet"):
        next(steps)
    first = tracked.run_path
    assert list(tracked) == [0, 1, 2]
    tracked.close()
    assert first
    assert [cause(run) for run in runs_in(tmp_path)] == ["failed", "finished"]


def test_a_run_that_is_closed_in_its_loop_has_the_step_under_way(tmp_path: Path) -> None:
    tracked = tfwatch.track(BATCHES, tmp_path)
    for n, _ in enumerate(tracked):
        if n == 2:
            tracked.close()
    assert tracked.run_path
    run = flushed(tracked.run_path)
    assert run.ended
    assert (run.ended.cause, run.ended.steps, len(run.steps)) == ("finished", 3, 3)


def test_an_exception_in_a_with_block_is_in_the_folder(tmp_path: Path) -> None:
    tracked = tfwatch.track(range(5), tmp_path)
    with pytest.raises(ZeroDivisionError), tracked:
        assert [1 / (2 - n) for n in tracked]
    (failure,) = told(opened(tracked), TrainingFailed)
    assert (cause(opened(tracked)), failure.step, len(opened(tracked).steps)) == ("failed", 3, 3)


def test_an_interrupt_is_no_failure(tmp_path: Path) -> None:
    def interrupted(n: int) -> None:
        raise KeyboardInterrupt

    tracked = tfwatch.track(range(5), tmp_path)
    with pytest.raises(KeyboardInterrupt), tracked:
        list(map(interrupted, tracked))
    run = opened(tracked)
    assert (cause(run), told(run, TrainingFailed)) == ("stopped", [])
    assert run.ended is not None
    assert run.ended.detail == "KeyboardInterrupt"


def test_a_loop_that_is_left_is_stopped(tmp_path: Path) -> None:
    tracked = tfwatch.track(BATCHES, tmp_path)
    for _ in range(2):
        for n, _ in enumerate(tracked):
            if n == 2:
                break
    path = tracked.run_path
    del tracked
    assert path
    run = open_run(path)
    assert run.ended is not None
    assert (run.ended.cause, run.ended.detail) == ("stopped", "the loop was left before its data ended")
    assert run.steps["epoch"].tolist() == [0] * 3 + [1] * 3


def test_a_run_ends_when_its_last_loop_did_and_not_with_the_process(tmp_path: Path) -> None:
    over = tmp_path / "over"
    note = f"import time\nopen({str(over)!r}, 'w').write(str(time.perf_counter_ns()))"
    (run,) = python(f"for n in tfwatch.track(range(3), RUNS): pass\n{note}", tmp_path / "runs")
    assert (cause(run), len(run.steps)) == ("finished", 3)
    assert run.ended is not None
    assert run.manifest.origin_ns + run.ended.at_ns < int(over.read_text())


UNCAUGHT = """
def train():
    for epoch in range(2):
        for n, batch in enumerate(tfwatch.track(range(5), RUNS)):
            if epoch and n == 3:
                step(batch)
    raise ValueError("later")

def step(batch):
    raise {error}

{call}
"""


@pytest.mark.parametrize(
    ("error", "rc", "ends"),
    [
        pytest.param("ValueError('bad batch')", 1, ("failed", "ValueError: bad batch"), id="an exception"),
        pytest.param("KeyboardInterrupt", -2, ("stopped", "KeyboardInterrupt"), id="an interrupt"),
    ],
)
def test_an_exception_that_nobody_catches_is_told(error: str, rc: int, ends: tuple[str, str], tmp_path: Path) -> None:
    (run,) = python(UNCAUGHT.format(error=error, call="train()"), tmp_path / "runs", rc=rc)
    assert run.ended is not None
    assert (run.ended.cause, run.ended.detail) == ends
    assert len(run.steps) == 9
    assert [failure.step for failure in told(run, TrainingFailed)] == ([9] if ends[0] == "failed" else [])


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(UNCAUGHT.replace("    step(batch)", "    break"), id="after a break"),
        pytest.param(UNCAUGHT.replace("                step(batch)", "                pass"), id="after the last loop"),
    ],
)
def test_an_exception_of_later_is_not_the_loops(code: str, tmp_path: Path) -> None:
    (run,) = python(code.format(error="TypeError", call="train()"), tmp_path / "runs", rc=1)
    assert (cause(run), told(run, TrainingFailed)) == ("stopped" if "break" in code else "finished", [])

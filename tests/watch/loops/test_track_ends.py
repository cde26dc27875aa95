"""The end of runs of `track`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tfwatch
from tests.watch.tracked import BATCHES, cause, end_all, flushed, opened, python
from tests.whole import events_of
from tfwatch.core.events import TrainingFailed
from tfwatch.core.rows import Phase
from tfwatch.runs.run import open_run

pytestmark = pytest.mark.usefixtures("all_runs_ended")


def test_an_error_of_the_iterable_is_raised_by_the_loop_and_fails_the_run(tmp_path: Path) -> None:
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
    (failure,) = events_of(run, TrainingFailed)
    assert (cause(run), len(run.steps), failure.step) == ("failed", 3, 4)
    assert run.open_phase
    assert run.open_phase.phase is Phase.WAIT
    assert failure.error == "OSError: no such share"
    assert "in batches" in failure.traceback


def test_a_loop_that_continues_after_an_error_is_still_recorded(tmp_path: Path) -> None:
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


def test_a_run_closed_in_its_loop_has_the_running_step(tmp_path: Path) -> None:
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
    (failure,) = events_of(opened(tracked), TrainingFailed)
    assert (cause(opened(tracked)), failure.step, len(opened(tracked).steps)) == ("failed", 3, 3)


def test_an_interrupt_is_no_failure(tmp_path: Path) -> None:
    def interrupted(n: int) -> None:
        raise KeyboardInterrupt

    tracked = tfwatch.track(range(5), tmp_path)
    with pytest.raises(KeyboardInterrupt), tracked:
        list(map(interrupted, tracked))
    run = opened(tracked)
    assert (cause(run), events_of(run, TrainingFailed)) == ("stopped", [])
    assert run.ended is not None
    assert run.ended.detail == "KeyboardInterrupt"


class Endless(list[Any]):
    def cardinality(self) -> int:
        return -1  # tf.data.INFINITE_CARDINALITY


@pytest.mark.parametrize(
    ("batches", "ends"),
    [
        (BATCHES, ("stopped", "the loop was left before its data ended")),
        (Endless(BATCHES), ("finished", "")),
    ],
    ids=["finite", "endless"],
)
def test_a_loop_that_is_left_ends_as_stopped_unless_its_data_is_endless(
    batches: list[Any], ends: tuple[str, str], tmp_path: Path
) -> None:
    tracked = tfwatch.track(batches, tmp_path)
    for _ in range(2):
        for n, _ in enumerate(tracked):
            if n == 2:
                break
    path = tracked.run_path
    end_all()
    assert path
    run = open_run(path)
    assert run.ended is not None
    assert (run.ended.cause, run.ended.detail) == ends
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
                {body}
    raise ValueError("later")

def step(batch):
    raise {error}

train()
"""


@pytest.mark.parametrize(
    ("body", "error", "rc", "ends"),
    [
        pytest.param(
            "step(batch)",
            "ValueError('bad batch')",
            1,
            ("failed", "ValueError: bad batch"),
            id="an exception",
        ),
        pytest.param(
            "step(batch)", "KeyboardInterrupt", -2, ("stopped", "KeyboardInterrupt"), id="interrupt"
        ),
        pytest.param("pass", "TypeError", 1, ("finished", ""), id="a later one"),
    ],
)
def test_an_uncaught_exception_of_the_loop_is_recorded(
    body: str, error: str, rc: int, ends: tuple[str, str], tmp_path: Path
) -> None:
    (run,) = python(UNCAUGHT.format(body=body, error=error), tmp_path / "runs", rc=rc)
    assert run.ended is not None
    assert (run.ended.cause, run.ended.detail) == ends
    assert len(run.steps) == (9 if body != "pass" else 10)
    assert [failure.step for failure in events_of(run, TrainingFailed)] == (
        [9] if ends[0] == "failed" else []
    )


def test_an_error_of_a_loop_whose_iterator_lives_on_fails_its_run(tmp_path: Path) -> None:
    code = """
for epoch in range(1):
    batches = iter(tfwatch.track(range(5), RUNS))
    for n in range(5):
        next(batches)
        assert n < 3
"""
    (run,) = python(code, tmp_path / "runs", rc=1)
    assert (cause(run), len(run.steps)) == ("failed", 4)


def test_a_loop_that_is_left_with_its_last_batch_is_finished(tmp_path: Path) -> None:
    code = "batches = iter(tfwatch.track(range(5), RUNS))\nfor _ in range({}): next(batches)"
    (run,) = python(code.format(5), tmp_path / "all")
    assert cause(run) == "finished"
    (run,) = python(code.format(4), tmp_path / "four")
    assert cause(run) == "stopped"

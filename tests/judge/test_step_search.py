from __future__ import annotations

from dataclasses import replace

import pytest

from tests.screens.canned import COMPUTE_BOUND, Canned
from tfwatch.judge.view import Follower, StepSearch
from tfwatch.runs.liveness import Life
from tfwatch.runs.run import RECENT


def test_a_run_that_was_killed_is_searched_to_its_end_though_its_clock_stands_still() -> None:
    run = Canned(None).started().steps(66_000, COMPUTE_BOUND).steps(1, (3500.0, 13.0, 0.8))
    reader = run.reader()
    killed = replace(reader.read(), life=Life.KILLED)
    searcher = StepSearch()
    seen = []
    for _ in range(4):
        searcher.take(killed)
        seen.append(searcher.searched)

    assert seen == [65_536, 66_002, 66_002, 66_002]
    assert [stall.step for stall in searcher.stalls] == [66_002]


def test_while_a_run_goes_on_its_steps_are_searched_once_a_second() -> None:
    run = Canned(None).started().steps(100, COMPUTE_BOUND)
    reader = run.reader()
    searcher = StepSearch()
    searcher.take(reader.read())
    run.at_s = 100.25
    run.steps(10, COMPUTE_BOUND)
    run.writer.flush()
    searcher.take(reader.read())
    run.steps(10, COMPUTE_BOUND)
    run.writer.flush()
    searcher.take(reader.read())

    assert searcher.searched == 111


def test_steps_that_come_fast_are_searched_before_they_are_out_of_hand() -> None:
    run = Canned(None).started()
    reader = run.reader()
    searcher = StepSearch()
    searcher.take(reader.read())
    for _ in range(2):
        for _ in range(RECENT - 1):
            run.step += 1
            run.writer.step(round(run.at_s * 1e9), run.step, 0, 0, 0.01, 0.01, 0.02, 0.01)
        run.writer.flush()
        searcher.take(reader.read())

        assert searcher.searched == run.step


def test_while_a_long_run_is_read_its_counts_are_marked_as_not_final() -> None:
    run = Canned(None).started().steps(66_000, COMPUTE_BOUND).steps(1, (3500.0, 13.0, 0.8)).ended()
    reader = run.reader()
    follower = Follower(live=False)

    reading, whole = (follower.follow(reader.read(), [], None) for _ in range(2))

    assert reading.searched == pytest.approx(0.99, abs=0.01)
    assert whole.searched is None


def test_the_memory_of_a_run_that_is_over_is_that_since_its_first_step() -> None:
    run = Canned(None).started()
    for n in range(3):
        run.sample(process_bytes=(2 + n) * 2**30).steps(RECENT - 1, COMPUTE_BOUND)
    reader = run.ended().reader()
    view = Follower(live=False).follow(reader.read(), [], None)

    machine = view.situation.machine
    assert machine
    assert machine.process_memory
    assert machine.process_memory.begin_bytes == 1.2 * 2**30, "the sample of its start"
    assert machine.process_memory.peak_bytes == 4 * 2**30

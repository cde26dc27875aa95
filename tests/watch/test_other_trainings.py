"""Between two epochs of a run, what others of its thread trained is theirs; what another thread
trains is not."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tests.runs.folders import FakeClock, make_manifest, read_back
from tfwatch.core.events import OthersTrained
from tfwatch.runs.writer import RunWriter
from tfwatch.watch.step_log import StepLog

if TYPE_CHECKING:
    from collections.abc import Callable


def run_of(clock: FakeClock) -> tuple[StepLog, RunWriter]:
    writer = RunWriter(None, make_manifest(), clock.clock)
    return StepLog(writer), writer


def train(step_log: StepLog, clock: FakeClock, epoch_s: float) -> None:
    """Train an epoch of so many seconds."""
    step_log.begin_epoch(0, 1, 1)
    clock.at_s += epoch_s
    step_log.end_epoch(None)


def others_s(writer: RunWriter) -> list[float]:
    writer.flush()
    return [event.took_ms / 1e3 for event in read_back(writer).events.of(OthersTrained)]


def after(between: Callable[[FakeClock], None]) -> list[float]:
    """Return the seconds of others before the second of two fits that share a run."""
    clock = FakeClock()
    first, writer = run_of(clock)
    train(first, clock, 5.0)
    between(clock)
    train(StepLog(writer, before=first), clock, 7.0)
    return others_s(writer)


def test_the_fits_of_a_run_are_not_others() -> None:
    assert after(lambda clock: None) == []


def test_two_runs_that_train_between_two_fits_are() -> None:
    def between(clock: FakeClock) -> None:
        for epoch_s in (2.0, 3.0):
            clock.at_s += 0.5
            train(run_of(clock)[0], clock, epoch_s)

    assert after(between) == [5.0]


def test_another_thread_is_not() -> None:
    def between(clock: FakeClock) -> None:
        other = threading.Thread(target=train, args=(run_of(clock)[0], clock, 2.0))
        other.start()
        other.join()

    assert after(between) == []


def test_an_epoch_that_another_thread_ends_is_its_own() -> None:
    clock = FakeClock()
    step_log, writer = run_of(clock)
    step_log.begin_epoch(0, 2, 1)
    clock.at_s += 4.0
    ending = threading.Thread(target=step_log.end_epoch, args=(None,))
    ending.start()
    ending.join()
    train(step_log, clock, 1.0)

    assert others_s(writer) == []

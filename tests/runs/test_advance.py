"""The progress of a training, and events about a loss that is not finite."""

import math
from pathlib import Path
from typing import Any

import pytest

from tests.runs.folders import FakeClock, make_manifest, reader_of
from tfwatch.core.events import Event, LossDiverged, RunEnded
from tfwatch.core.rows import Phase
from tfwatch.runs.run import open_run
from tfwatch.runs.writer import ProgressLog, RunWriter

NAN, INFINITE = math.nan, math.inf


class OnADevice:
    """A loss on a device: reading it would wait."""

    def __float__(self) -> float:
        raise AssertionError("it was asked for")


def diverged(*losses: Any, a_flush: int = 1000, call: int = 1) -> list[tuple[int, int | None]]:
    """Return the step of each NaN that is reported and the last step with a number: one loss a call
    of `call` steps, `a_flush` calls a flush; no row is due."""
    progress, events = ProgressLog(), list[Event]()
    progress.flush(0, last=False)
    progress._due_ns = 10**18
    for n, loss in enumerate(losses, 1):
        progress.reports.append((0, n * call, 0, n * call, loss))
        if n % a_flush == 0:
            events += progress.flush(n, last=False)[1]
    events += progress.flush(len(losses), last=False)[1]
    found = [event for event in events if isinstance(event, LossDiverged)]
    assert len(found) == len(events)
    assert {event.loss for event in found} <= {"NaN"}
    return [(event.step, event.finite_step) for event in found]


@pytest.mark.parametrize("a_flush", [1, 2, 1000])
def test_the_first_nan_of_a_loss_is_one_event(a_flush: int) -> None:
    assert diverged(*[0.5] * 150, *[NAN] * 50, a_flush=a_flush) == [(151, 150)]


def test_a_loss_that_diverges_again_is_another_event() -> None:
    assert diverged(0.5, NAN, NAN, 0.5, 0.5, NAN, a_flush=6) == [(2, 1), (6, 5)]
    assert len(diverged(*[0.5, NAN] * 100)) == 50


def test_a_call_of_several_steps_gives_the_range_of_steps() -> None:
    assert diverged(0.5, NAN, call=10) == [(20, 10)]


@pytest.mark.parametrize("loss", [None, "low", OnADevice()])
def test_a_loss_that_is_missing_is_not_nan(loss: Any) -> None:
    assert diverged(loss, loss) == []
    assert len(diverged(0.5, NAN, loss, 0.5)) == 1


def test_an_event_about_the_loss_precedes_the_end_of_its_run(tmp_path: Path) -> None:
    clock = FakeClock(1.0)
    writer = RunWriter(tmp_path, make_manifest(), clock.clock)
    writer.status = (Phase.HOST, 0, 2, 0, "")
    writer.progress.extend([(8, 1, 0, 1, 0.5), (16, 2, 0, 2, NAN)])
    writer.end("finished")
    clock.at_s = 9.0
    writer.close()

    first, ended = open_run(tmp_path, clock.clock).events

    assert first == LossDiverged(1_000_000_000, 2, "NaN", 1)
    assert isinstance(ended, RunEnded)
    assert ended.at_ns == first.at_ns


def test_a_row_is_due_twice_a_second_and_at_the_end() -> None:
    progress = ProgressLog()
    progress.reports.append((8, 1, 0, 1, "low"))

    rows = [len(progress.flush(round(at_s * 1e9), last=False)[0]) for at_s in (0.0, 0.4, 0.5, 0.9)]

    assert rows == [32, 0, 32, 0]
    assert len(progress.flush(910_000_000, last=True)[0]) == 32


def test_a_run_that_has_ended_shows_its_last_step_before_its_writer_is_closed() -> None:
    clock = FakeClock(1.0)
    writer = RunWriter(None, make_manifest(), clock.clock)
    reader = reader_of(writer, clock.clock)
    writer.progress.append((32, 1, 0, 1, 2.0))
    writer.flush()
    clock.at_s = 1.1
    writer.progress.append((64, 2, 0, 2, 1.0))
    writer.end("finished")
    writer.flush()

    snapshot = reader.read()

    assert snapshot.latest
    assert (snapshot.latest.step, snapshot.latest.loss) == (2, 1.0)
    writer.flush()
    writer.close()
    assert reader.read().progress["step"].tolist() == [1, 2]

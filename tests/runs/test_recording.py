"""The writer and its rows, events and manifest."""

import math
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.judge.step_rows import plain
from tests.runs.folders import FakeClock, add_steps, kinds, make_manifest, make_writer, reader_of
from tests.runs.processes import wait_until
from tfwatch.core.events import EpochEnded, Noted, Paused
from tfwatch.runs.folder import RunFolder
from tfwatch.runs.run import Run, open_run
from tfwatch.runs.snapshot import ProgressNow
from tfwatch.runs.writer import ProgressLog, RunWriter


class Unwilling:
    """A metric whose conversion to a number raises."""

    def __float__(self) -> float:
        raise RuntimeError("not yet")


def test_a_pause_after_the_end_is_none_of_the_runs(tmp_path: Path) -> None:
    clock = FakeClock(10.0)
    writer = RunWriter(tmp_path, make_manifest(), clock.clock)
    writer.event(Paused(writer.now_ns(), "swap", 20.0, "30 MB"))
    writer.end("finished")
    clock.at_s = 32.0
    writer.event(Paused(writer.now_ns(), "swap", 30.0, "30 MB"))
    writer.note("said afterwards")
    writer.close()

    events = open_run(tmp_path).events
    assert [event.took_ms for event in events if isinstance(event, Paused)] == [20.0]
    assert [event.text for event in events if isinstance(event, Noted)] == ["said afterwards"]


def test_written_data_is_read_back(tmp_path: Path) -> None:
    rows = plain(1000)
    writer = make_writer(tmp_path)
    add_steps(writer, rows)
    writer.sample(5, {"cpu_cores": 1.5, "process_cores": float("nan")})
    writer.stage(7, 3, 2, 64, 1.5, 4.0, 12.0, 16.0, 4096.0, 1.25)
    writer.progress.append((32, 1, 2, 3, 0.5))
    writer.note("hello")
    writer.describe(device="GPU:0")
    writer.close()

    snapshot = Run(RunFolder(tmp_path), FakeClock(1).clock).read()

    assert snapshot.recent.tobytes() == rows.tobytes()
    assert snapshot.steps_total == 1000
    assert snapshot.samples["cpu_cores"].tolist() == [1.5]
    assert np.isnan(snapshot.samples["process_cores"]).all()
    assert snapshot.stages.tolist() == [(7, 3, 2, 64, 1.5, 4.0, 12.0, 16.0, 4096.0, 1.25)]
    assert snapshot.latest == ProgressNow(32, 1, 2, 3, 0.5)
    assert tuple(snapshot.events) == (Noted(1_000_000_000, "hello"),)
    assert snapshot.manifest.device == "GPU:0"
    assert (snapshot.torn, snapshot.unrecorded) == (0, "")


def test_rows_come_in_their_order_while_several_threads_append(tmp_path: Path) -> None:
    writer = make_writer(tmp_path)
    writer.start()

    def note() -> None:
        for number in range(500):
            writer.note(str(number))

    noters = [threading.Thread(target=note) for _ in range(3)]
    for thread in noters:
        thread.start()
    add_steps(writer, plain(2500))
    for thread in noters:
        thread.join()
    writer.close()

    run = open_run(tmp_path, FakeClock(1).clock)

    assert run.steps["step"].tolist() == list(range(1, 2501))
    assert len(run.events) == 1500


@pytest.mark.parametrize(
    ("loss", "read"),
    [
        pytest.param(0.5, 0.5, id="a number"),
        pytest.param(float("inf"), float("inf"), id="infinite"),
        pytest.param(1e39, float("inf"), id="more than float32 holds"),
        pytest.param(np.ones(3), float("nan"), id="an array"),
        pytest.param("low", float("nan"), id="a text"),
        pytest.param(10**400, float("nan"), id="more than a float holds"),
        pytest.param(Unwilling(), float("nan"), id="an object that raises"),
    ],
)
def test_recording_continues_with_any_loss(tmp_path: Path, loss: Any, read: float) -> None:
    writer = make_writer(tmp_path)
    writer.progress.append((64, 2, 0, 2, loss))
    add_steps(writer, plain(2))
    writer.flush()
    writer.close()
    snapshot = Run(RunFolder(tmp_path), FakeClock(1).clock).read()
    assert snapshot.steps_total == 2
    np.testing.assert_equal(snapshot.progress["loss"], [read, read])
    notes = [event.text for event in snapshot.events.of(Noted)]
    why = "the loss that the model reports is not a number: "
    assert [text.startswith(why) for text in notes] == [True] * math.isnan(read)


def test_an_event_that_cannot_be_encoded_becomes_a_note(tmp_path: Path) -> None:
    writer = make_writer(tmp_path)
    add_steps(writer, plain(10))
    writer.sample(1, {"cpu_cores": 1.0})
    writer.note("before")
    writer.event(EpochEnded(2, 0, 10, {"loss": Unwilling()}))  # type: ignore[dict-item]
    writer.note("after")
    writer.flush()

    run = open_run(tmp_path, FakeClock(1).clock)

    assert (len(run.steps), len(run.samples)) == (10, 1)
    assert [event.text for event in run.events.of(Noted)] == [
        "before",
        "EpochEnded could not be recorded: RuntimeError: not yet",
        "after",
    ]
    assert len(run.events) == 3


def test_a_failed_flush_is_reported_and_the_next_one_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = make_writer(tmp_path)
    reader = reader_of(writer, FakeClock(1).clock)
    writer.start()
    with monkeypatch.context() as patch:
        patch.setattr(ProgressLog, "flush", lambda *_, **__: 1 / 0)
        wait_until(
            lambda: "ZeroDivisionError" in reader.read().unrecorded
        )  # reported while the run continues
        add_steps(writer, plain(10))
        writer.event(EpochEnded(3, 0, 10, {}))
        wait_until(lambda: reader.read().steps_total == 10)
    wait_until(lambda: not reader.read().unrecorded)
    writer.close()

    assert kinds(tmp_path) == ["RecordingLost", "EpochEnded", "RecordingResumed"]
    assert len(open_run(tmp_path, FakeClock(1).clock).steps) == 10


def test_a_run_says_why_it_has_no_knob() -> None:
    loop = make_manifest(knobs={}, switchable=[])
    assert loop.why_not_switchable("workers") == "the loop has its own pipeline"
    unread = make_manifest(knobs={"workers": "default"}, switchable=[])
    assert unread.why_not_switchable("workers") == "its pipeline is not read yet"

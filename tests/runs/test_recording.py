"""The writer and a disk that fills, a folder that goes, and what a reader still sees."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.analysis.steps import plain
from tests.runs.folders import FakeClock, add_steps, make_manifest, write_run
from tests.runs.processes import wait_until
from tfwatch.core.events import EpochEnded, Noted, RecordingLost, RecordingResumed
from tfwatch.core.rows import Phase
from tfwatch.runs import format as layout
from tfwatch.runs import stream as streams
from tfwatch.runs.begin import begin_run
from tfwatch.runs.opened import open_run, read_run
from tfwatch.runs.reader import FolderSource, RunReader
from tfwatch.runs.writer import RunWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Disk:
    """Stands in for `os.pwrite`: takes `room` bytes, in small parts, and is then full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
        self.room = room
        self._pwrite: Callable[[int, bytes, int], int] = os.pwrite
        monkeypatch.setattr(os, "pwrite", self.write)

    def write(self, file: int, data: bytes, offset: int) -> int:
        if self.room == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        done = self._pwrite(file, data[: min(self.room, 50)], offset)
        self.room -= done
        return done


def make_writer(folder: Path | None) -> RunWriter:
    return RunWriter(folder, make_manifest(), FakeClock(1.0).clock)


def kinds(folder: Path) -> list[str]:
    return [type(event).__name__ for event in open_run(folder, FakeClock(1).clock).events]


class Unwilling:
    """A metric that is no number, whoever asks."""

    def __float__(self) -> float:
        raise RuntimeError("ask me later")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    rows = plain(1000)
    writer = make_writer(tmp_path)
    add_steps(writer, rows)
    writer.sample(5, {"cpu_cores": 1.5, "process_cores": float("nan")})
    writer.progress = (32, 1, 2, 3, 0.5, 0.25)
    writer.note("hello")
    writer.describe(device="GPU:0")
    writer.close()

    snapshot = RunReader(FolderSource(tmp_path), FakeClock(1).clock).tail()

    assert np.array_equal(snapshot.steps, rows)
    assert snapshot.steps_total == 1000
    assert snapshot.samples["cpu_cores"].tolist() == [1.5]
    assert np.isnan(snapshot.samples["process_cores"]).all()
    assert snapshot.latest is not None
    assert (snapshot.latest.images, snapshot.latest.epoch_step, snapshot.latest.metric) == (32, 3, 0.25)
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
    add_steps(writer, plain(5000))
    for thread in noters:
        thread.join()
    writer.close()

    run = open_run(tmp_path, FakeClock(1).clock)

    assert run.steps["step"].tolist() == list(range(1, 5001))
    assert len(run.events) == 1500


def test_keras_metrics_are_written_as_numbers(tmp_path: Path) -> None:
    write_run(tmp_path, plain(0), EpochEnded(0, 0, 1, {"loss": np.float32(0.5)}))  # type: ignore[dict-item]

    assert open_run(tmp_path, FakeClock(1).clock).events == (EpochEnded(0, 0, 1, {"loss": 0.5}),)


@pytest.mark.parametrize(
    ("loss", "read"),
    [
        pytest.param(0.5, 0.5, id="a number"),
        pytest.param(float("inf"), float("inf"), id="infinite"),
        pytest.param(1e39, float("inf"), id="more than four bytes hold"),
        pytest.param(np.ones(3), float("nan"), id="an array"),
        pytest.param("low", float("nan"), id="a text"),
        pytest.param(10**400, float("nan"), id="more than a float holds"),
        pytest.param(Unwilling(), float("nan"), id="what raises"),
    ],
)
def test_whatever_a_model_calls_its_loss_the_recording_goes_on(tmp_path: Path, loss: Any, read: float) -> None:
    writer = make_writer(tmp_path)
    writer.progress = (64, 2, 0, 2, loss, float("nan"))
    add_steps(writer, plain(2))
    writer.flush()
    snapshot = RunReader(FolderSource(tmp_path), FakeClock(1).clock).tail()
    assert snapshot.steps_total == 2
    np.testing.assert_equal(float(snapshot.progress["loss"][0]), read)


def test_a_disk_full_from_the_start_is_written_to_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    writer = make_writer(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(layout, "write_atomically", full)
        writer.flush()
    for _ in range(2):
        writer.flush()
    snapshot = RunReader(FolderSource(tmp_path), FakeClock(1).clock).tail()
    assert snapshot.pulse
    assert snapshot.unrecorded == ""


def test_an_event_that_cannot_be_written_is_told_and_takes_nothing_with_it(tmp_path: Path) -> None:
    writer = make_writer(tmp_path)
    add_steps(writer, plain(10))
    writer.sample(1, {"cpu_cores": 1.0})
    writer.note("before")
    writer.event(EpochEnded(2, 0, 10, {"loss": Unwilling()}))  # type: ignore[dict-item]
    writer.note("after")
    writer.flush()

    run = open_run(tmp_path, FakeClock(1).clock)

    assert (len(run.steps), len(run.samples)) == (10, 1)
    assert [event.text for event in run.events if isinstance(event, Noted)] == [
        "before",
        "EpochEnded could not be recorded: RuntimeError: ask me later",
        "after",
    ]
    assert len(run.events) == 3


def test_a_flush_that_fails_is_told_and_the_next_one_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = make_writer(tmp_path)
    reader = RunReader(writer, FakeClock(1).clock)
    writer.start()
    with monkeypatch.context() as patch:
        patch.setattr(writer, "progress", (1, 2))
        wait_until(lambda: "ValueError" in reader.tail().unrecorded)  # told while it goes on
        add_steps(writer, plain(10))
        writer.event(EpochEnded(3, 0, 10, {}))
        wait_until(lambda: reader.tail().steps_total == 10)
    writer.progress = None
    wait_until(lambda: not reader.tail().unrecorded)
    writer.close()

    assert kinds(tmp_path) == ["RecordingLost", "EpochEnded", "RecordingResumed"]
    assert len(open_run(tmp_path, FakeClock(1).clock).steps) == 10


def test_a_full_disk_is_told_and_memory_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = make_writer(tmp_path)
    writer.flush()
    Disk(monkeypatch, room=7 * 32 + 5)
    writer.status = (Phase.COMPUTE, 0, 8, 0, "")
    add_steps(writer, plain(10))
    writer.flush()
    writer.flush()

    here = RunReader(writer, FakeClock(1).clock).tail()

    assert here.steps_total == 10
    assert here.unrecorded == "No space left on device"
    assert tuple(here.events) == (RecordingLost(1_000_000_000, "No space left on device", 8),)
    assert (tmp_path / layout.STEPS).stat().st_size == 0


def test_what_was_kept_is_written_when_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = make_writer(tmp_path)
    disk = Disk(monkeypatch, room=100)
    rows = plain(3000)
    follower = RunReader(writer, FakeClock(1).clock)
    for first in range(0, 3000, 500):
        add_steps(writer, rows[first : first + 500])
        writer.flush()
        follower.tail()
    disk.room = 10**9
    writer.flush()
    writer.close()

    assert np.array_equal(open_run(tmp_path, FakeClock(1).clock).steps, rows)
    assert kinds(tmp_path) == [RecordingLost.__name__, RecordingResumed.__name__]
    assert follower.tail().unrecorded == ""
    assert np.array_equal(follower.tail().steps, rows)


def test_more_than_memory_keeps_is_dropped_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "KEPT", 100 * 32)
    writer = make_writer(tmp_path)
    disk = Disk(monkeypatch, room=0)
    follower = RunReader(writer, FakeClock(1).clock)
    add_steps(writer, plain(250))
    writer.flush()
    disk.room = 10**9
    writer.flush()

    snapshot = follower.tail()

    assert snapshot.steps["step"].tolist() == list(range(151, 251))
    assert (snapshot.steps_total, snapshot.torn) == (250, 150)
    assert snapshot.unrecorded
    assert follower.steps_between(140, 160)["step"].tolist() == list(range(151, 161))
    assert (tmp_path / layout.STEPS).stat().st_size == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mounted = tmp_path / "small"
    mounted.mkdir()
    if (
        not shutil.which("mount")
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(mounted)], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("mounting a small disk takes Linux and root")
    yield mounted
    subprocess.run(["umount", "-l", str(mounted)], check=True)


def test_a_disk_that_really_fills(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(32 * 1024))
    rows = plain(3000)
    (small_disk / "run").mkdir()
    writer = make_writer(small_disk / "run")
    for first in range(0, 3000, 250):
        add_steps(writer, rows[first : first + 250])
        writer.flush()
    full = RunReader(writer, FakeClock(1).clock).tail()
    ballast.unlink()
    on_disk = RunReader(FolderSource(small_disk / "run"), FakeClock(1).clock).tail()

    assert (full.unrecorded, full.steps_total) == ("No space left on device", 3000)
    assert on_disk.torn == 0
    assert np.array_equal(on_disk.steps, rows[: on_disk.steps_total])
    assert os.listdir(small_disk / "run").count(layout.MANIFEST) == 1


def test_a_folder_that_is_removed_is_told_and_memory_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    writer = make_writer(folder)
    add_steps(writer, plain(10))
    writer.flush()
    shutil.rmtree(folder)
    add_steps(writer, plain(20)[10:])
    writer.flush()
    writer.flush()

    snapshot = RunReader(writer, FakeClock(1).clock).tail()

    assert snapshot.steps["step"].tolist() == list(range(1, 21))
    assert snapshot.unrecorded == "its folder is gone"
    writer.close()
    assert not folder.exists()


def test_a_runs_folder_that_cannot_be_written_leaves_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")

    writer, reason = begin_run(tmp_path / "file" / "runs", "cnn", FakeClock(1).clock)
    add_steps(writer, plain(10))
    writer.close()

    run = read_run(writer, FakeClock(1).clock)
    assert "file" in reason
    assert run.path is None
    assert len(run.steps) == 10
    assert f"nothing is recorded: {reason}" in [event.text for event in run.events if isinstance(event, Noted)]


def test_closing_twice_is_closing_once(tmp_path: Path) -> None:
    writer = make_writer(tmp_path)
    writer.start()
    add_steps(writer, plain(3))
    writer.close()
    writer.close()

    assert len(open_run(tmp_path, FakeClock(1).clock).steps) == 3


def test_a_writer_that_is_gone_holds_no_files_open(tmp_path: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    for number in range(3):
        (tmp_path / str(number)).mkdir()
        writer = make_writer(tmp_path / str(number))
        writer.start()
        writer.close()
    del writer

    assert len(os.listdir("/dev/fd")) <= before


def test_a_run_that_is_whole_on_disk_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = make_writer(tmp_path)
    add_steps(writer, plain(10))
    writer.flush()
    whole = read_run(writer, FakeClock(1).clock).steps
    Disk(monkeypatch, room=3 * 32)
    add_steps(writer, plain(10))
    writer.flush()
    partly = read_run(writer, FakeClock(1).clock).steps

    assert isinstance(whole, np.memmap)
    assert not isinstance(partly, np.memmap)
    assert (len(whole), len(partly)) == (10, 20)
    assert partly["step"].tolist() == [*range(1, 11), *range(1, 11)]

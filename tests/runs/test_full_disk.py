"""A full disk and a removed folder: recording stops and the pulse says so, and the training
continues."""

import errno
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.judge.step_rows import plain
from tests.runs.begun import begin_run
from tests.runs.folders import (
    FakeClock,
    add_steps,
    kinds,
    make_manifest,
    make_writer,
    open_in,
    read_back,
)
from tests.runs.hanging import hang
from tfwatch.core.events import Noted, RecordingLost, RecordingResumed
from tfwatch.core.rows import STEP, Phase
from tfwatch.runs import format as layout
from tfwatch.runs import streams
from tfwatch.runs.folder import RunFolder
from tfwatch.runs.run import Run, open_run
from tfwatch.runs.writer import RunWriter


class Disk:
    """Replaces `os.pwrite`: takes `room` bytes, in small parts, and is then full."""

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


def test_a_full_disk_is_reported_and_rows_are_kept_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = make_writer(tmp_path)
    writer.flush()
    Disk(monkeypatch, room=7 * 32 + 5)
    writer.status = (Phase.COMPUTE, 0, 8, 0, "")
    add_steps(writer, plain(10))
    writer.flush()
    writer.flush()

    snapshot = Run(RunFolder(tmp_path), FakeClock(1).clock).read()

    assert snapshot.unrecorded == "No space left on device"
    assert (snapshot.steps_total, snapshot.torn, len(snapshot.events)) == (0, 0, 0)
    assert writer.lost == RecordingLost(1_000_000_000, "No space left on device", 8)
    assert (tmp_path / layout.STEPS).stat().st_size == 0


def test_rows_in_memory_are_written_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = make_writer(tmp_path)
    disk = Disk(monkeypatch, room=100)
    rows = plain(3000)
    writer.flush()
    follower = Run(RunFolder(tmp_path), FakeClock(1).clock)
    for first in range(0, 3000, 500):
        add_steps(writer, rows[first : first + 500])
        writer.flush()
        follower.read()
    disk.room = 10**9
    writer.flush()
    writer.close()

    assert open_run(tmp_path, FakeClock(1).clock).steps.tobytes() == rows.tobytes()
    assert kinds(tmp_path) == [RecordingLost.__name__, RecordingResumed.__name__]
    assert follower.read().unrecorded == ""
    assert follower.read().steps.tobytes() == rows.tobytes()


@pytest.mark.parametrize("has_ended", [False, True])
def test_who_opens_the_run_of_its_own_process_waits_for_a_slow_disk(
    has_ended: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = make_writer(tmp_path)
    writer.start()
    assert writer.wait_until_begun()
    with hang(monkeypatch, os, "pwrite") as disk:
        add_steps(writer, plain(10))
        if has_ended:
            writer.finish()
        assert disk.asked.wait(10)
        threading.Timer(1.0, disk.answers.set).start()
        assert len(open_run(tmp_path, FakeClock(1).clock).steps) == 10
    writer.close()


def test_rows_beyond_the_memory_limit_are_dropped_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MEMORY_BYTES", 100 * STEP.itemsize)
    writer = make_writer(tmp_path)
    disk = Disk(monkeypatch, room=0)
    add_steps(writer, plain(250))
    writer.flush()
    disk.room = 10**9
    for _ in range(2):
        writer.flush()

    snapshot = Run(RunFolder(tmp_path), FakeClock(1).clock).read()

    assert len(writer._streams[layout.STEPS]._waiting) == 100 * STEP.itemsize
    assert snapshot.unrecorded
    assert (tmp_path / layout.STEPS).stat().st_size == 0


def test_a_removed_folder_is_reported_and_rows_are_kept_in_memory(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    writer = make_writer(folder)
    add_steps(writer, plain(10))
    writer.flush()
    shutil.rmtree(folder)
    add_steps(writer, plain(20)[10:])
    writer.flush()
    writer.flush()

    assert writer.lost == RecordingLost(1_000_000_000, "its folder is gone", 0)
    writer.close()
    assert not folder.exists()


def test_without_a_writable_folder_rows_are_kept_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")

    writer, reason = begin_run(tmp_path / "file" / "runs", "cnn", FakeClock(1).clock)
    add_steps(writer, plain(10))
    writer.close()

    assert "file" in reason
    assert writer.folder is None
    run = read_back(writer, FakeClock(1).clock)
    assert len(run.steps) == 10
    assert f"nothing is recorded: {reason}" in [event.text for event in run.events.of(Noted)]


def test_a_run_that_begins_on_a_full_disk_cannot_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(layout, "write_atomically", full)
        writer, reason = begin_run(tmp_path, "cnn")
        assert reason == f"{tmp_path} cannot be written: No space left on device"
        assert (bool(writer.lost), writer.can_open) == (True, False)
    writer.close()
    assert (bool(writer.lost), writer.can_open) == (False, True)
    assert open_run(writer.folder or "").manifest.workload == "cnn"


def test_no_descriptor_stays_open_that_a_program_could_close_and_reuse(tmp_path: Path) -> None:
    writer = make_writer(tmp_path)
    add_steps(writer, plain(10))
    writer.flush()

    assert open_in(tmp_path) == []


def test_the_pulse_is_written_where_the_folder_takes_no_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader takes rows up to the pulse."""
    clock = FakeClock(1)
    writer = RunWriter(tmp_path, make_manifest(), clock.clock)
    writer.flush()
    refuse = Mock(side_effect=PermissionError(errno.EACCES, "no new file"))
    monkeypatch.setattr(layout, "write_atomically", refuse)
    clock.at_s = 200
    writer.describe(device="CPU")
    add_steps(writer, plain(9000))
    writer.flush()

    assert refuse.called
    assert len(open_run(tmp_path, clock.clock).steps) == 9000

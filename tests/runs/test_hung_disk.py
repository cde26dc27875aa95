"""A disk that does not respond, such as a network disk: waits are short, and rows are recorded once
it responds."""

import os
import queue
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.judge.step_rows import plain
from tests.runs.begun import begin_run
from tests.runs.folders import add_steps
from tests.runs.hanging import Hanging, hang
from tests.runs.processes import wait_until
from tfwatch.core.events import Noted
from tfwatch.runs import create, writer
from tfwatch.runs import format as layout
from tfwatch.runs.run import open_run

HUNG = (
    "nothing is recorded: {} did not respond within 0.05 s; rows are kept in memory until it does"
)


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(create, "BEGIN_S", 0.05)
    monkeypatch.setattr(writer, "BEGIN_S", 0.05)


@pytest.fixture
def mkdir(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hanging]:
    with hang(monkeypatch, Path, "mkdir") as hanging:
        yield hanging


@pytest.fixture
def manifests(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hanging]:
    with hang(monkeypatch, layout, "write_atomically") as hanging:
        yield hanging


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hanging]:
    with hang(monkeypatch, os, "pwrite") as hanging:
        yield hanging


def notes(folder: Path) -> list[str]:
    return [event.text for event in open_run(folder).events.of(Noted)]


def test_a_run_begins_without_a_folder_and_is_recorded_once_the_disk_responds(
    tmp_path: Path, mkdir: Hanging
) -> None:
    made, why = begin_run(tmp_path / "runs", "cnn")
    add_steps(made, plain(10))
    assert (made.folder, f"nothing is recorded: {why}") == (None, HUNG.format(tmp_path / "runs"))

    mkdir.answers.set()
    wait_until(lambda: made.folder is not None)
    add_steps(made, plain(5))
    assert made.close()

    assert made.folder
    run = open_run(made.folder)
    assert (run.manifest.run, len(run.steps)) == (made.folder.name, 15)
    assert HUNG.format(tmp_path / "runs") in notes(made.folder)


def test_a_run_that_ends_before_its_disk_responds_is_recorded_whole(
    tmp_path: Path, mkdir: Hanging
) -> None:
    made, _ = begin_run(tmp_path / "runs", "cnn")
    add_steps(made, plain(10))
    made.end("finished")
    assert made.close()

    mkdir.answers.set()
    wait_until(lambda: made.folder is not None and (made.folder / layout.MANIFEST).exists())
    wait_until(lambda: made.folder is not None and open_run(made.folder).ended is not None)
    assert made.folder
    assert len(open_run(made.folder).steps) == 10


def test_a_disk_that_hangs_at_the_first_file_does_not_block(
    tmp_path: Path, manifests: Hanging
) -> None:
    made, why = begin_run(tmp_path, "cnn")
    assert f"nothing is recorded: {why}" == HUNG.format(tmp_path)
    assert manifests.asked.wait(30)  # the folder itself may take longer than a begin waits for it
    manifests.answers.set()
    add_steps(made, plain(10))
    assert made.close()
    assert made.folder
    assert len(open_run(made.folder).steps) == 10


def test_a_begin_does_not_wait_for_the_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, found = threading.Event(), queue.SimpleQueue[bool]()
    monkeypatch.setattr(create, "BEGIN_S", 30.0)
    monkeypatch.setattr(create, "record_sources", lambda *_: found.put(begun.wait(3)))
    made, why = begin_run(tmp_path, "cnn")
    begun.set()

    assert (made.folder is not None, why) == (True, "")
    assert found.get(timeout=30)
    made.close()


def test_a_disk_that_hangs_at_the_end_is_reported_and_does_not_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: Hanging
) -> None:
    monkeypatch.setattr(writer, "_END_S", 0.05)
    made, _ = begin_run(tmp_path, "cnn")
    add_steps(made, plain(10))
    assert rows.asked.wait(30)
    assert not made.close()

    rows.answers.set()
    wait_until(lambda: made.folder is not None and len(open_run(made.folder).steps) == 10)


def test_a_disk_that_hangs_as_the_own_run_is_opened_does_not_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_END_S", 0.05)
    monkeypatch.setattr(writer, "FLUSH_S", 60.0)  # the writer's thread does not write meanwhile
    made, _ = begin_run(tmp_path, "cnn")
    assert made.wait_until_begun()
    add_steps(made, plain(10))
    with hang(monkeypatch, os, "pwrite") as hanging:
        made.write_now()
        assert hanging.asked.wait(30)
        assert made.lost is None  # it is neither done nor given up

    monkeypatch.setattr(writer, "_END_S", 30.0)  # the disk responds, on busy cores too
    assert made.close()
    assert made.folder
    assert len(open_run(made.folder).steps) == 10

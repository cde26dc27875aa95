"""Temporary folders of processes that were killed."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest.mock import Mock

import pytest

from tfwatch.core.temporary_files import TemporaryFolder, remove_orphans

_PROGRAM = """
import os, sys, time
from tfwatch.core.temporary_files import TemporaryFolder
folder = TemporaryFolder()
(folder.path / "log.txt").write_text("x")
if os.fork():
    print(folder.path, flush=True)
time.sleep(600)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_folder_of_killed_processes_is_removed_once_the_last_one_is_gone(place: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(place)},
        text=True,
        start_new_session=True,
    )
    assert child.stdout
    folder = Path(child.stdout.readline().strip())
    child.kill()
    child.wait()
    remove_orphans()
    assert (folder / "log.txt").exists()

    os.killpg(child.pid, signal.SIGKILL)
    assert child.stdout.read() == ""  # its child is gone too
    remove_orphans()
    assert list(place.iterdir()) == []


def test_folders_of_others_and_in_use_stay(place: Path) -> None:
    own = TemporaryFolder("profile-")
    (place / "tfwatch-my-runs").mkdir()
    (place / "tfwatch-link").symlink_to(own.path)
    remove_orphans()

    assert len(list(place.iterdir())) == 3
    own.close()
    remove_orphans()
    assert {one.name for one in place.iterdir()} == {"tfwatch-my-runs", "tfwatch-link"}


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_where_the_disk_has_no_locks_the_folder_is_kept_without_one(
    place: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    with monkeypatch.context() as lockless:
        lockless.setattr(fcntl, "flock", Mock(side_effect=[OSError(number, "")] * 9))
        folder = TemporaryFolder()
    remove_orphans()
    assert list(place.iterdir()) == [folder.path]

    folder.close()
    assert list(place.iterdir()) == []


def test_a_folder_without_a_lock_file_is_removed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        full.setattr(os, "open", Mock(side_effect=OSError(errno.ENOSPC, "full")))
        with pytest.raises(OSError, match="full"):
            TemporaryFolder()
    assert list(place.iterdir()) == []


def test_a_descriptor_that_the_program_has_closed_and_reused_stays_open(
    place: Path, tmp_path: Path
) -> None:
    folder = TemporaryFolder()
    os.close(folder._lock)
    folder.close()
    assert list(place.iterdir()) == []

    folder = TemporaryFolder()
    with (tmp_path / "users").open("w") as users:
        os.dup2(users.fileno(), folder._lock)
        folder.close()
        assert os.path.sameopenfile(users.fileno(), folder._lock)
    os.close(folder._lock)
    assert [one.name for one in place.iterdir()] == ["users"]

"""Temporary folders of processes that were killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tfwatch.core.temporary_folder import TemporaryFolder, remove_orphans

_PROGRAM = """
import os, sys, time
from tfwatch.core.temporary_folder import TemporaryFolder
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

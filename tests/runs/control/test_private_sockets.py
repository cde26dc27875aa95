"""The folders of control sockets that killed processes left: removed by the next one, and no other folder is."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tests.runs.processes import wait_until
from tfwatch.runs.control import server as control_server
from tfwatch.runs.control.private_sockets import (
    SOCKET_NAME,
    make_private_folder,
    remove_stale_folders,
)
from tfwatch.runs.control.server import ControlServer
from tfwatch.runs.create import make_writer
from tfwatch.runs.machine_info import boot_id

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder with a path short enough for a socket."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setattr("tempfile.gettempdir", lambda: folder)
        yield Path(folder)


def leave_folder(**changes: Any) -> Path:
    """Make the folder of a process that is gone, with a socket at which nobody listens."""
    folder = make_private_folder()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(folder / SOCKET_NAME))
    owner = json.loads((folder / "owner.json").read_text())
    (folder / "owner.json").write_text(json.dumps({**owner, "started_s": 1.0, **changes}))
    return folder


_KILLED = """
import os, signal, time
from tfwatch.runs.control.server import ControlServer
from tfwatch.runs.create import make_writer
writer = make_writer("cnn")
ControlServer(writer).open()
while not writer.manifest().control_socket:
    time.sleep(0.01)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_folder_of_a_killed_process_is_removed_by_the_next_one(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, environ = Path(__file__).parents[3], {**os.environ, "TMPDIR": str(place)}
    subprocess.run([sys.executable, "-c", _KILLED], cwd=root, env=environ, timeout=60, check=False)
    (left,) = place.iterdir()
    monkeypatch.setattr(control_server, "_swept", set())

    server = ControlServer(make_writer("cnn"))
    server.open()
    wait_until(lambda: not left.exists())
    server.close()
    server._thread.join(10)
    assert list(place.iterdir()) == []


def test_a_number_that_another_process_has_now_keeps_no_folder(place: Path) -> None:
    folder = leave_folder(pid=os.getpid())
    remove_stale_folders(place)
    assert not folder.exists()


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"started_s": psutil.Process().create_time()}, id="it lives"),
        pytest.param({"host": "another"}, id="of another machine"),
        pytest.param({"pid": "1"}, id="a damaged owner"),
        pytest.param({"host": None}, id="no owner"),
    ],
)
def test_a_folder_whose_process_may_live_stays(changes: dict[str, Any], place: Path) -> None:
    folder = leave_folder(**changes)
    remove_stale_folders(place)
    assert sorted(path.name for path in folder.iterdir()) == ["owner.json", SOCKET_NAME]


def test_a_process_of_another_container_keeps_its_folder_while_it_listens(place: Path) -> None:
    folder = leave_folder()
    (folder / SOCKET_NAME).unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(folder / SOCKET_NAME))
        listener.listen()
        remove_stale_folders(place)
    assert folder.exists()


def test_links_and_folders_that_others_can_enter_stay(place: Path) -> None:
    opened, linked = leave_folder(), leave_folder()
    opened.chmod(0o755)
    linked = linked.rename(place / "elsewhere")
    (place / "tfwatch-control-link").symlink_to(linked)
    remove_stale_folders(place)
    assert opened.exists()
    assert (linked / SOCKET_NAME).exists()
    assert (place / "tfwatch-control-link").is_symlink()


def test_the_folder_of_an_earlier_boot_is_removed(place: Path) -> None:
    folder = leave_folder(boot_id="earlier", started_s=psutil.Process().create_time())
    assert boot_id() != "earlier"
    remove_stale_folders(place)
    assert not folder.exists()


def test_another_file_in_a_folder_keeps_it(place: Path) -> None:
    folder = leave_folder()
    (folder / "theirs").touch()
    remove_stale_folders(place)
    assert [path.name for path in folder.iterdir()] == ["theirs"]

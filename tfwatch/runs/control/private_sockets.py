"""Sockets for the processes of one user: their private folders, and the user at the other end."""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import struct
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from tfwatch.runs.machine_info import boot_id
from tfwatch.runs.reading.liveness import is_alive
from tfwatch.runs.reading.streams import read_file

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The longest path of a socket with its closing zero: 104 bytes on macOS, 108 on Linux.
_LONGEST_PATH = 104
SOCKET_NAME = "socket"
_OWNER_NAME = "owner.json"
_PREFIX = "tfwatch-control-"
_MOST_OWNER_BYTES = 4096


def make_private_folder() -> Path:
    """Create a folder that only this user can enter, with a path that is short enough for a socket.

    The user's runtime folder comes last: it is removed when the user logs out, and a training goes on.

    Raises:
        OSError: there is no place for it.
    """
    failure = OSError("no folder has a path short enough for a socket")
    for place in dict.fromkeys(
        (tempfile.gettempdir(), "/tmp", os.environ.get("XDG_RUNTIME_DIR", ""))
    ):
        if (
            not place
            or len(os.fsencode(os.path.join(place, _PREFIX + "12345678", SOCKET_NAME)))
            >= _LONGEST_PATH
        ):
            continue
        try:
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
        except OSError as error:
            failure = error
        else:
            _name_owner(folder)
            return folder
    raise failure


def _name_owner(folder: Path) -> None:
    """Write the process that a folder belongs to; where the disk takes none, the folder of a killed process stays."""
    with suppress(OSError, psutil.Error):
        started_s = psutil.Process().create_time()
        owner = {
            "host": os.uname().nodename,
            "boot_id": boot_id(),
            "pid": os.getpid(),
            "started_s": started_s,
        }
        (folder / _OWNER_NAME).write_text(json.dumps(owner), encoding="utf-8")


def remove_folder(folder: Path) -> None:
    """Remove a folder and what tfwatch writes into it; what cannot be removed stays."""
    for name in (SOCKET_NAME, _OWNER_NAME):
        with suppress(OSError):
            (folder / name).unlink()
    with suppress(OSError):
        folder.rmdir()


def remove_stale_folders(place: Path) -> None:
    """Remove this user's folders of processes that were killed on this machine."""
    for folder in list(_own_folders(place)):
        if _is_gone(_owner(folder), folder / SOCKET_NAME):
            remove_folder(folder)


def _own_folders(place: Path) -> Iterator[Path]:
    """Yield the folders, no links, that this user alone can enter."""
    with suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX) and _is_private(entry):
                yield Path(entry.path)


def _is_private(entry: os.DirEntry[str]) -> bool:
    with suppress(OSError):  # it was removed meanwhile
        found = entry.stat(follow_symlinks=False)
        return found.st_uid == os.geteuid() and found.st_mode == stat.S_IFDIR | stat.S_IRWXU
    return False


def _owner(folder: Path) -> dict[str, Any]:
    """Return the process that a folder names; empty where it names none."""
    with suppress(ValueError, RecursionError):
        owner = json.loads(read_file(folder / _OWNER_NAME, 0, _MOST_OWNER_BYTES))
        if isinstance(owner, dict):
            return owner
    return {}


def _is_gone(owner: dict[str, Any], path: Path) -> bool:
    """Return whether the process ended. One in another container has no entry here, but listens."""
    pid, started_s = owner.get("pid"), owner.get("started_s")
    if (
        owner.get("host") != os.uname().nodename
        or not isinstance(pid, int)
        or not isinstance(started_s, float)
    ):
        return False
    return not (owner.get("boot_id") == boot_id() and is_alive(pid, started_s)) and not _listens(
        path
    )


def _listens(path: Path) -> bool:
    """Return whether a process listens at a socket, or may do so."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.setblocking(False)
        try:
            connection.connect(str(path))
        except OSError as error:
            return error.errno != errno.ECONNREFUSED
    return True


def is_own_user(connection: socket.socket) -> bool:
    """Return whether the process at the other end is this user's, by the kernel's word; False where it has none."""
    try:
        return peer_user(connection) == os.geteuid()
    except (OSError, struct.error):
        return False


def peer_user(connection: socket.socket) -> int:
    """Return the user number of the process at the other end.

    Raises:
        OSError: the kernel does not say.
    """
    if sys.platform == "darwin":
        # struct xucred of <sys/ucred.h>: version, user, number of groups, 16 groups; SOL_LOCAL 0, LOCAL_PEERCRED 1.
        version, user = struct.unpack("=II", connection.getsockopt(0, 1, 76)[:8])
        if version != 0:
            raise OSError(f"xucred of version {version}")
        return int(user)
    _, user, _ = struct.unpack(
        "=iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    )
    return int(user)

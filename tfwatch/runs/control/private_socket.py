"""A socket that only one user reaches: its folder, and the user of the process at the other end."""

from __future__ import annotations

import os
import socket
import struct
import sys
import tempfile
from pathlib import Path

#: The longest path of a socket with its closing zero: 104 bytes on macOS, 108 on Linux.
_LONGEST_PATH = 104
SOCKET_NAME = "socket"
_PREFIX = "tfwatch-control-"


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
    _, user, _ = struct.unpack("=iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(user)


def make_private_folder() -> Path:
    """Create a folder that only this user can enter, with a path that is short enough for a socket.

    The user's runtime folder comes last: it is removed when the user logs out, and a training goes on.

    Raises:
        OSError: there is no place for it.
    """
    failure = OSError("no folder has a path short enough for a socket")
    for place in dict.fromkeys((tempfile.gettempdir(), "/tmp", os.environ.get("XDG_RUNTIME_DIR", ""))):
        if not place or len(os.fsencode(os.path.join(place, _PREFIX + "12345678", SOCKET_NAME))) >= _LONGEST_PATH:
            continue
        try:
            return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
        except OSError as error:
            failure = error
    raise failure

"""The user of the process at the other end of a socket, by the kernel's word."""

from __future__ import annotations

import os
import socket
import struct
import sys


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

"""Drops the output of a script whose relay was killed, in a thread of the script's own process.

Nobody else reads its pseudo terminal or pipe then: the script's next print would raise, or wait for
ever.
"""

from __future__ import annotations

import _thread
import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_CHUNK = 64 * 2**10


def reader_after_relay(descriptors: str) -> Callable[[], None]:
    """Return a function that starts the thread. No program that this process starts inherits the
    descriptors.

    descriptors: `master,pipe`, the other end of its pseudo terminal, and a pipe that ends with the
    relay.
    """
    master, relay = (int(number) for number in descriptors.split(","))
    for fd in (master, relay):
        os.set_inheritable(fd, False)
    files = _OpenFile(master), _OpenFile(relay)

    def start() -> None:
        _thread.start_new_thread(_read_after_relay, files)

    return start


class _OpenFile:
    """A descriptor and the file it was opened for: a program may close it, and reuse its number."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._identity = _identity(fd)

    def is_ours(self) -> bool:
        with suppress(OSError):
            return _identity(self.fd) == self._identity
        return False


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


def _read_after_relay(master: _OpenFile, relay: _OpenFile) -> None:
    with suppress(OSError):
        if relay.is_ours():
            os.read(relay.fd, 1)  # returns nothing, once the relay has ended
            while master.is_ours() and os.read(master.fd, _CHUNK):
                pass

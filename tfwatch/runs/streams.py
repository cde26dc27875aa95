"""The files of a run folder as the writer appends to them.

A stream keeps its bytes in memory while the disk does not take them.
"""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Protocol

from tfwatch.runs.format import FILE_MODE

if TYPE_CHECKING:
    from pathlib import Path

#: Bytes kept in memory while the disk takes none: two million steps. Beyond that the oldest are
#: dropped.
MEMORY_BYTES = 64 * 2**20
#: Bytes of one write: a full disk does not get all waiting bytes ten times a second.
_WRITE_BYTES = 2**20


class Stream:
    """Bytes that one thread at a time appends.

    Bytes that the disk refuses, and bytes appended before `path` is set, are kept in memory and
    written with the next append. Bytes beyond `MEMORY_BYTES` are dropped, and after that nothing
    more is written. The file is open only while it is written: a program may close descriptors that
    are not its own, and reuse their numbers.
    """

    def __init__(self) -> None:
        self.path: Path | None = None
        self._is_created = False
        self._written = 0
        self._waiting = bytearray()
        self._has_dropped = False

    def add(self, data: bytes) -> None:
        """Append bytes in memory."""
        self._waiting += data

    def write(self) -> str:
        """Write what waits; return why it is not on disk, empty where it is or where there is no
        folder."""
        reason = self._write(self.path) if self.path else ""
        excess = len(self._waiting) - MEMORY_BYTES
        if excess > 0:
            self._has_dropped = True
            del self._waiting[:excess]
        return reason

    def _write(self, path: Path) -> str:
        if self._has_dropped:
            return "more bytes were lost than memory can hold"
        if self._is_created and not self._waiting:
            return ""
        flags = os.O_NOFOLLOW if self._is_created else os.O_NOFOLLOW | os.O_CREAT | os.O_TRUNC
        try:
            file = os.open(path, os.O_WRONLY | os.O_CLOEXEC | flags, FILE_MODE)
            self._is_created = True
            try:
                while self._waiting:
                    self._write_whole(file, bytes(self._waiting[:_WRITE_BYTES]))
            finally:
                os.close(file)
        except OSError as error:
            return why_not(error)
        return ""

    def _write_whole(self, file: int, data: bytes) -> None:
        """Write all of `data`, or leave the file unchanged."""
        try:
            done = 0
            while done < len(data):
                done += os.pwrite(file, data[done:], self._written + done)
        except OSError:
            os.ftruncate(file, self._written)
            raise
        del self._waiting[: len(data)]
        self._written += len(data)


def why_not(error: OSError) -> str:
    """Return why a file of the run cannot be written."""
    if isinstance(error, FileNotFoundError):
        return "its folder is gone"
    return error.strerror or str(error)


def write_at_start(path: Path, data: bytes) -> None:
    """Write `data` at the beginning of a file; create the file if necessary.

    Raises:
        OSError: the file cannot be written.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


class _Writer(Protocol):
    def write_now(self) -> None: ...


#: The writers of this process, by folder.
own_writers: weakref.WeakValueDictionary[Path, _Writer] = weakref.WeakValueDictionary()


def write_own_run(folder: Path) -> None:
    """Write everything appended so far to the run in a folder, if this process writes it."""
    if writer := own_writers.get(folder.absolute()):
        writer.write_now()

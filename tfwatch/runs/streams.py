"""The files of a run folder as the writer appends to them.

A stream keeps its bytes in memory while the disk does not take them.
"""

from __future__ import annotations

import os
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tfwatch.runs.format import FILE_MODE, opened_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Bytes kept in memory while the disk takes none: two million steps. Beyond that the oldest are
#: dropped.
MEMORY_BYTES = 64 * 2**20
#: Bytes of one write: a full disk does not get all waiting bytes ten times a second.
_WRITE_BYTES = 2**20


class WrittenFolder:
    """A folder whose files are written relative to its descriptor, so that nothing is written
    elsewhere where somebody puts a link, or a folder of theirs, in its place.

    Neither it nor a file stays open: a program may close descriptors that are not its own, and
    reuse their numbers.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._owner: int | None = None

    @contextmanager
    def opened(self) -> Iterator[int]:
        """Within, its descriptor.

        Raises:
            OSError: it is gone, a link, or somebody else's.
        """
        with opened_folder(self._path, flags=os.O_NOFOLLOW) as place:
            owner = os.fstat(place).st_uid  # of a network disk it may be another one than the user
            if self._owner not in (None, owner):
                raise FileNotFoundError
            self._owner = owner
            yield place

    def open(self, name: str, flags: int) -> int:
        """Open a file to write it.

        Raises:
            OSError: it cannot be opened, or is a link; or as `opened`.
        """
        flags |= os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        with self.opened() as place:
            return os.open(name, flags, FILE_MODE, dir_fd=place)


class Stream:
    """Bytes that one thread at a time appends to a file.

    Bytes that the disk refuses, and bytes appended before `folder` is set, are kept in memory and
    written with the next append. Bytes beyond `MEMORY_BYTES` are dropped, and after that nothing
    more is written.
    """

    def __init__(self, name: str) -> None:
        self.folder: WrittenFolder | None = None
        self._name = name
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
        reason = self._write(self.folder) if self.folder else ""
        excess = len(self._waiting) - MEMORY_BYTES
        if excess > 0:
            self._has_dropped = True
            del self._waiting[:excess]
        return reason

    def _write(self, folder: WrittenFolder) -> str:
        if self._has_dropped:
            return "more bytes were lost than memory can hold"
        if self._is_created and not self._waiting:
            return ""
        try:
            file = folder.open(self._name, 0 if self._is_created else os.O_CREAT | os.O_TRUNC)
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


def write_at_start(folder: WrittenFolder, name: str, data: bytes) -> None:
    """Write `data` at the beginning of a file; create the file if necessary.

    Raises:
        OSError: the file cannot be written.
    """
    fd = folder.open(name, os.O_CREAT)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


#: The `RunWriter`s of this process, by folder.
own_writers: weakref.WeakValueDictionary[Path, Any] = weakref.WeakValueDictionary()


def write_own_run(folder: Path) -> None:
    """Write everything appended so far to the run in a folder, if this process writes it."""
    if writer := own_writers.get(folder.absolute()):
        writer.write_now()

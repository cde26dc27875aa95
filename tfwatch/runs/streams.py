"""The files of a run folder as the writer appends to them.

A stream keeps its bytes in memory while the disk does not take them.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import weakref
from dataclasses import dataclass
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
    more is written.
    """

    def __init__(self) -> None:
        self.path: Path | None = None
        self._file = -1
        self._open = OpenFile(-1, 0, 0)
        self._written = 0
        self._waiting = bytearray()
        self._has_dropped = False

    def append(self, data: bytes) -> str:
        """Append bytes and write; return as `write` does."""
        self.add(data)
        return self.write()

    def add(self, data: bytes) -> None:
        """Append bytes in memory."""
        self._waiting += data

    def write(self) -> str:
        """Write what waits; return why it is not on disk, empty where it is or where there is no
        folder."""
        reason = self._write() if self.path else ""
        excess = len(self._waiting) - MEMORY_BYTES
        if excess > 0:
            self._has_dropped = True
            del self._waiting[:excess]
        return reason

    def _write(self) -> str:
        assert self.path
        try:
            if self._file < 0:
                self._file = os.open(
                    self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE
                )
                self._open = OpenFile.of(self._file)
                weakref.finalize(self, _close_in_thread, self._open).atexit = False
            if not self._open.is_ours() and not self._opens_again():
                return "the program closed its file"
            if os.fstat(self._file).st_nlink == 0:
                return "its folder is gone"
            if self._has_dropped:
                return "more bytes were lost than memory can hold"
            while self._waiting:
                self._write_whole(bytes(self._waiting[:_WRITE_BYTES]))
        except OSError as error:
            return error.strerror or str(error)
        return ""

    def _opens_again(self) -> bool:
        """Open the file that the program closed; return False where another one has its path.

        Raises:
            OSError: it cannot be opened.
        """
        assert self.path
        fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        again = OpenFile.of(fd)
        if not again.is_same_file(self._open):
            os.close(fd)
            return False
        self._file, self._open = fd, again
        weakref.finalize(self, _close_in_thread, again).atexit = False
        return True

    def _write_whole(self, data: bytes) -> None:
        """Write all of `data`, or leave the file unchanged."""
        try:
            done = 0
            while done < len(data):
                done += os.pwrite(self._file, data[done:], self._written + done)
        except OSError:
            os.ftruncate(self._file, self._written)
            raise
        del self._waiting[: len(data)]
        self._written += len(data)


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A descriptor and the file it was opened for: a program may close descriptors, and reuse their
    numbers."""

    fd: int
    device: int
    inode: int

    @staticmethod
    def of(fd: int) -> OpenFile:
        """Return the file that is open now."""
        status = os.fstat(fd)
        return OpenFile(fd, status.st_dev, status.st_ino)

    def is_same_file(self, other: OpenFile) -> bool:
        """Return whether both are of one file."""
        return (self.device, self.inode) == (other.device, other.inode)

    def is_ours(self) -> bool:
        """Return whether the descriptor is still of that file."""
        with contextlib.suppress(OSError):
            return OpenFile.of(self.fd) == self
        return False


def _close_in_thread(file: OpenFile) -> None:
    """Close in another thread, without a lock: the garbage collector may call this in the training
    thread."""
    try:
        _thread.start_new_thread(_close, (file,))
    except RuntimeError:
        _close(file)


def _close(file: OpenFile) -> None:
    with contextlib.suppress(OSError):  # the last flush has reported any error
        if file.is_ours():
            os.close(file.fd)


def write_at_start(path: Path, data: bytes) -> None:
    """Write `data` at the beginning of a file; create the file if necessary.

    Raises:
        OSError: the file cannot be written.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
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

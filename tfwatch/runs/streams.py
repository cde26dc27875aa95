"""The files of a run folder as streams: appended by the writer, followed by a reader.

One append-only file of a run folder that goes on in memory where the disk does not.

Where the bytes of a run come from.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import stat
import threading
import weakref
from typing import TYPE_CHECKING, Protocol

from tfwatch.runs import format as layout
from tfwatch.runs.format import FILE_MODE, Manifest, NotARunError

if TYPE_CHECKING:
    from pathlib import Path

#: Bytes kept in memory while the disk takes nothing: two million steps. After that the oldest are dropped.
KEPT = 64 * 2**20
#: Bytes written at once, so that a full disk is not offered all that waits ten times a second.
_PIECE = 2**20


class Stream:
    """Bytes appended by one thread, read by any.

    What the disk refuses, and what comes before there is a `path`, is kept in memory and tried again with the next
    append. Bytes beyond `KEPT` are dropped, and then nothing more gets into the folder.
    """

    def __init__(self) -> None:
        self.path: Path | None = None
        self._file = -1
        self._written = 0
        self._waiting = bytearray()
        self._dropped = 0
        #: Held for copies in memory, never for the disk.
        self._moving = threading.Lock()

    def append(self, data: bytes) -> str:
        """Append bytes. Returns why they are not on disk; empty where they are, or where there is no folder."""
        with self._moving:
            self._waiting += data
        reason = self._write() if self.path else ""
        excess = len(self._waiting) - KEPT
        if excess > 0:
            with self._moving:
                self._dropped += excess
                del self._waiting[:excess]
        return reason

    def read(self, offset: int, limit: int) -> bytes:
        """Up to `limit` bytes from `offset`; dropped bytes read as zeros, and so do bytes that the disk lost."""
        with self._moving:
            on_disk = self._written - offset
            if on_disk <= 0:
                start = -on_disk
                if start < self._dropped:
                    return bytes(min(limit, self._dropped - start))
                start -= self._dropped
                return bytes(self._waiting[start : start + limit])
        try:
            return os.pread(self._file, min(limit, on_disk), offset)
        except OSError:
            return bytes(min(limit, on_disk))

    def _write(self) -> str:
        assert self.path
        try:
            if self._file < 0:
                self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
                weakref.finalize(self, _close_elsewhere, self._file).atexit = False
            if os.fstat(self._file).st_nlink == 0:
                return "its folder is gone"
            if self._dropped:
                return "more was lost than memory keeps"
            while self._waiting:
                self._write_whole(bytes(self._waiting[:_PIECE]))
        except OSError as error:
            return error.strerror or str(error)
        return ""

    def _write_whole(self, data: bytes) -> None:
        """Write all of `data`, or leave the file as it was."""
        try:
            done = 0
            while done < len(data):
                done += os.pwrite(self._file, data[done:], self._written + done)
        except OSError:
            os.ftruncate(self._file, self._written)
            raise
        with self._moving:
            del self._waiting[: len(data)]
            self._written += len(data)


def _close_elsewhere(fd: int) -> None:
    """Called by the garbage collector, maybe in the thread that trains, which waits for no disk. It takes no lock."""
    try:
        _thread.start_new_thread(_close, (fd,))
    except RuntimeError:
        _close(fd)


def _close(fd: int) -> None:
    with contextlib.suppress(OSError):  # what the disk did not take was told by the last flush
        os.close(fd)


def read_file(path: Path, offset: int, limit: int) -> bytes:
    """Up to `limit` bytes of a file from `offset`; empty where it cannot be read, or is none: a pipe has no end."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe without a writer would wait for one
    except (OSError, ValueError):
        return b""
    try:
        return os.pread(fd, limit, offset) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    except (OSError, OverflowError):
        return b""
    finally:
        os.close(fd)


def write_over(path: Path, data: bytes) -> None:
    """Put `data` at a file's beginning, whether there is one yet or not.

    Raises:
        OSError: it cannot be written.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


class Source(Protocol):
    """A folder, or the writer in this process."""

    def manifest(self) -> Manifest: ...

    def read(self, name: str, offset: int, limit: int) -> bytes: ...

    def is_here(self) -> bool: ...

    @property
    def folder(self) -> Path | None: ...


class FolderSource:
    """A run folder that another process writes or wrote."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def folder(self) -> Path | None:
        return self._folder

    def manifest(self) -> Manifest:
        """Read run.json.

        Raises:
            NotARunError: there is none, or it is not one that this tfwatch reads, or not all of the run may be read.
        """
        try:
            path = self._folder / layout.MANIFEST
            if not stat.S_ISREG(path.stat().st_mode):  # reading from a pipe would wait
                raise NotARunError(f"its {layout.MANIFEST} is no file")
            manifest = Manifest.decode(path.read_text(encoding="utf-8"))
        except NotARunError as error:
            raise NotARunError(f"{self._folder}: {error}") from error
        except UnicodeDecodeError as error:
            raise NotARunError(f"{self._folder}: its {layout.MANIFEST} is no text: {error}") from error
        except OSError as error:
            raise NotARunError(f"{self._folder} is no run folder: {layout.MANIFEST}: {error.strerror}") from error
        paths = (self._folder / name for name in layout.STREAMS)
        if closed := [path.name for path in paths if path.exists() and not os.access(path, os.R_OK)]:
            raise NotARunError(f"{self._folder}: no permission to read its {' and '.join(closed)}")
        return manifest

    def read(self, name: str, offset: int, limit: int) -> bytes:
        """Bytes of one of its files; empty where there are none."""
        return read_file(self._folder / name, offset, limit)

    def is_here(self) -> bool:
        return False

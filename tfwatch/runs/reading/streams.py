"""The files of a run folder as streams: the writer appends, a reader follows.

A stream keeps its bytes in memory while the disk does not take them.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import stat
import threading
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tfwatch.runs import format as layout
from tfwatch.runs.format import FILE_MODE, Manifest, NotARunError

if TYPE_CHECKING:
    from pathlib import Path

#: Bytes kept in memory while the disk takes none: two million steps. Beyond that the oldest are dropped.
MEMORY_BYTES = 64 * 2**20
#: Bytes kept in memory after they are on disk: a screen that follows its own process reads no others.
_NEWEST_BYTES = 128 * 2**10
#: Bytes of one write: a full disk does not get all waiting bytes ten times a second.
_WRITE_BYTES = 2**20


class Stream:
    """Bytes that one thread appends and any thread reads.

    Bytes that the disk refuses, and bytes appended before `path` is set, are kept in memory and written with the next
    append. Bytes beyond `MEMORY_BYTES` are dropped, and after that nothing more is written.
    """

    def __init__(self) -> None:
        self.path: Path | None = None
        self._file = -1
        self._open = OpenFile(-1, 0, 0)
        self._written = 0
        self._waiting = bytearray()
        self._newest = bytearray()
        self._dropped = 0
        #: Held for copies in memory, never during a disk access.
        self._memory_lock = threading.Lock()

    def append(self, data: bytes) -> str:
        """Append bytes and write; return as `write` does."""
        self.add(data)
        return self.write()

    def add(self, data: bytes) -> None:
        """Append bytes in memory, also while another thread waits in `write`."""
        with self._memory_lock:
            self._waiting += data

    def write(self) -> str:
        """Write what waits; return why it is not on disk, empty where it is or where there is no folder."""
        reason = self._write() if self.path else ""
        excess = len(self._waiting) - MEMORY_BYTES
        if excess > 0:
            with self._memory_lock:
                self._dropped += excess
                del self._waiting[:excess]
        return reason

    def read(self, offset: int, limit: int) -> bytes:
        """Return up to `limit` bytes from `offset`; dropped bytes, and bytes that the disk lost, read as zeros."""
        with self._memory_lock:
            on_disk = self._written - offset
            if on_disk <= 0:
                start = -on_disk
                if start < self._dropped:
                    return bytes(min(limit, self._dropped - start))
                start -= self._dropped
                return bytes(self._waiting[start : start + limit])
            if on_disk <= len(self._newest):
                start = len(self._newest) - on_disk
                return bytes(self._newest[start : start + limit])
        try:
            if not self._open.is_ours():
                return self._read_by_path(min(limit, on_disk), offset)
            return os.pread(self._file, min(limit, on_disk), offset)
        except OSError:
            return bytes(min(limit, on_disk))

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
            if self._dropped:
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

    def _read_by_path(self, limit: int, offset: int) -> bytes:
        """Return bytes of the file whose descriptor the program closed."""
        data = read_file(self.path, offset, limit) if self.path else b""
        return data or bytes(limit)

    def _write_whole(self, data: bytes) -> None:
        """Write all of `data`, or leave the file unchanged."""
        try:
            done = 0
            while done < len(data):
                done += os.pwrite(self._file, data[done:], self._written + done)
        except OSError:
            os.ftruncate(self._file, self._written)
            raise
        with self._memory_lock:
            del self._waiting[: len(data)]
            self._written += len(data)
            self._newest += data
            del self._newest[:-_NEWEST_BYTES]


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A descriptor and the file it was opened for: a program may close descriptors, and reuse their numbers."""

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
    """Close in another thread, without a lock: the garbage collector may call this in the training thread."""
    try:
        _thread.start_new_thread(_close, (file,))
    except RuntimeError:
        _close(file)


def _close(file: OpenFile) -> None:
    with contextlib.suppress(OSError):  # the last flush has reported any error
        if file.is_ours():
            os.close(file.fd)


def read_file(path: Path, offset: int, limit: int) -> bytes:
    """Return up to `limit` bytes of a file from `offset`; empty where it is unreadable or not a regular file."""
    try:
        fd = os.open(
            path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        )  # opening a pipe would wait for its writer
    except (OSError, ValueError):
        return b""
    try:
        return os.pread(fd, limit, offset) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    except (OSError, OverflowError):
        return b""
    finally:
        with contextlib.suppress(OSError):  # of a file system that went away meanwhile
            os.close(fd)


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


class RunSource(Protocol):
    """The source of a run's bytes: a folder, or the writer in this process."""

    def manifest(self) -> Manifest: ...

    def read(self, name: str, offset: int, limit: int) -> bytes: ...

    def is_here(self) -> bool: ...

    @property
    def folder(self) -> Path | None: ...

    @property
    def silent_s(self) -> float:
        """The seconds for which the disk has held up who writes, or who reads, in threads of their own; else 0.0."""
        ...


class _Writer(Protocol):
    def write_now(self) -> None: ...


#: The writers of this process, by folder.
own_writers: weakref.WeakValueDictionary[Path, _Writer] = weakref.WeakValueDictionary()


def write_own_run(folder: Path) -> None:
    """Write everything appended so far to the run in a folder, if this process writes it."""
    if writer := own_writers.get(folder.absolute()):
        writer.write_now()


class FolderSource:
    """A run folder that another process writes or has written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def folder(self) -> Path | None:
        return self._folder

    @property
    def silent_s(self) -> float:
        return 0.0

    def manifest(self) -> Manifest:
        """Read run.json.

        Raises:
            NotARunError: it is missing, this tfwatch cannot read it, or a file of the run is not readable.
        """
        try:
            path = self._folder / layout.MANIFEST
            if (self._folder / layout.GROUP_FILE).is_file():
                raise NotARunError(
                    f"it is a group of ranks: name one of them, as {self._folder.name}/rank-0"
                )
            if not stat.S_ISREG(path.stat().st_mode):  # a pipe would block
                raise NotARunError(f"its {layout.MANIFEST} is not a file")
            manifest = Manifest.decode(path.read_text(encoding="utf-8"))
        except NotARunError as error:
            raise NotARunError(f"{self._folder}: {error}") from error
        except UnicodeDecodeError as error:
            raise NotARunError(
                f"{self._folder}: its {layout.MANIFEST} is not text: {error}"
            ) from error
        except OSError as error:
            raise NotARunError(
                f"{self._folder} is not a run folder: {layout.MANIFEST}: {error.strerror}"
            ) from error
        paths = (self._folder / name for name in layout.STREAMS)
        if closed := [
            path.name for path in paths if path.exists() and not os.access(path, os.R_OK)
        ]:
            raise NotARunError(f"{self._folder}: no permission to read its {' and '.join(closed)}")
        return manifest

    def read(self, name: str, offset: int, limit: int) -> bytes:
        """Return bytes of one of its files; empty where there are none."""
        return read_file(self._folder / name, offset, limit)

    def is_here(self) -> bool:
        return False

"""How fast a folder's disk is read, in a second or so, and whether it was the disk at all."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
from typing import IO, TYPE_CHECKING

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.doctor.facts import DiskSpeed
from tfwatch.guard import short
from tfwatch.sensors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

LIMIT_S = 1.0
_LIMIT_BYTES = 256 * 2**20
#: Files that hold less in all are read before the clock has anything to count.
_LEAST_BYTES = 4 * 2**20
_TEMPORARY_BYTES = 64 * 2**20
#: A temporary file is written only where it leaves so much.
_SPARE_BYTES = 2**30
_PIECE = 2**20
_READ = re.compile(r"^read_bytes: (\d{1,19})$", re.MULTILINE | re.ASCII)


def read_speed(folder: Path, clock: Clock = SYSTEM) -> DiskSpeed | Unavailable:
    """Read the files below a folder, in its own order, or a temporary file beside it where there are too few."""
    try:
        files = list(_some_files(folder, clock.now_ns() + round(LIMIT_S * 0.5e9), clock))
        if sum(size for _, size in files) >= _LEAST_BYTES:
            return _read_files(folder, [path for path, _ in files], clock)
        return _read_temporary(_existing(folder), clock)
    except OSError as error:
        return Unavailable(f"nothing could be read or tried in {short(folder)}: {error.strerror or error}", "")


def _some_files(folder: Path, due_ns: int, clock: Clock) -> Iterator[tuple[str, int]]:
    """Files and their sizes, as many as there is time to list and to read."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            if total >= _LIMIT_BYTES or clock.now_ns() > due_ns:
                return
            path = os.path.join(where, name)
            with contextlib.suppress(OSError):
                if os.path.isfile(path):  # no pipe, no device
                    size = os.path.getsize(path)
                    total += size
                    yield path, size


def _read_files(folder: Path, paths: Iterable[str], clock: Clock) -> DiskSpeed:
    for path in paths:
        with contextlib.suppress(OSError), open(path, "rb", buffering=0) as file:
            _forget(file)
    before, begin_ns = _bytes_from_disk(), clock.now_ns()
    due_ns = begin_ns + round(LIMIT_S * 1e9)
    read = files = 0
    for path in paths:
        if clock.now_ns() > due_ns or read >= _LIMIT_BYTES:
            break
        with contextlib.suppress(OSError), open(path, "rb", buffering=0) as file:
            _past_cache(file)
            files += 1
            for piece in _pieces(file, due_ns, clock):
                read += piece
                if read >= _LIMIT_BYTES:
                    break
    took_s = (clock.now_ns() - begin_ns) / 1e9
    return DiskSpeed(short(folder), read, took_s, files, _share(read, before))


def _read_temporary(folder: Path, clock: Clock) -> DiskSpeed | Unavailable:
    if shutil.disk_usage(folder).free < _TEMPORARY_BYTES + _SPARE_BYTES:
        return Unavailable(f"no data in {short(folder)} to read, and too little room to try with a file", "make room")
    due_ns = clock.now_ns() + round(LIMIT_S * 1e9)
    piece = os.urandom(_PIECE)
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        _past_cache(file)
        while file.tell() < _TEMPORARY_BYTES and clock.now_ns() < due_ns:
            file.write(piece)
        os.fsync(file.fileno())
        _forget(file)
        file.seek(0)
        before, begin_ns = _bytes_from_disk(), clock.now_ns()
        read = sum(_pieces(file, begin_ns + round(LIMIT_S * 1e9), clock))
        took_s = (clock.now_ns() - begin_ns) / 1e9
    return DiskSpeed(short(folder), read, took_s, None, _share(read, before))


def _pieces(file: IO[bytes], due_ns: int, clock: Clock) -> Iterator[int]:
    """Read on, and say of each piece how long it is."""
    while (piece := file.read(_PIECE)) and clock.now_ns() < due_ns:
        yield len(piece)


def _forget(file: IO[bytes]) -> None:
    """Have Linux drop what it keeps of a file in memory."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _past_cache(file: IO[bytes]) -> None:
    """Have macOS read and write without keeping anything; what it keeps already is still read from memory."""
    if hasattr(fcntl, "F_NOCACHE"):
        fcntl.fcntl(file, fcntl.F_NOCACHE, 1)


def _bytes_from_disk() -> int | None:
    """What this thread has read from disks so far; None where the system does not count it."""
    try:
        with open("/proc/thread-self/io", encoding="ascii") as file:
            found = _READ.search(file.read())
    except OSError:
        return None
    return int(found[1]) if found else None


def _share(read: int, before: int | None) -> float | None:
    after = _bytes_from_disk()
    return None if before is None or after is None or not read else min((after - before) / read, 1.0)


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there."""
    return next(path for path in (folder, *folder.parents) if path.is_dir())

"""A file system that passes every call to a folder: stopped by SIGSTOP, it is a shared disk that hangs.

    python -m tests.bench.passthrough FOLDER MOUNT

Needs root, /dev/fuse, libfuse 2 and fusepy.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import fuse  # type: ignore[import-not-found,import-untyped,unused-ignore]

_STAT = (
    "st_atime",
    "st_ctime",
    "st_gid",
    "st_ino",
    "st_mode",
    "st_mtime",
    "st_nlink",
    "st_size",
    "st_uid",
)
_ROOM = (
    "f_bavail",
    "f_bfree",
    "f_blocks",
    "f_bsize",
    "f_favail",
    "f_ffree",
    "f_files",
    "f_flag",
    "f_frsize",
)


class Passthrough(fuse.Operations):  # type: ignore[misc,unused-ignore]
    """The calls of a folder. Times are what the folder has: nobody asks for others."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def _of(self, path: str) -> Path:
        return self._root / path.lstrip("/")

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        found = os.lstat(self._of(path))
        return {name: getattr(found, name) for name in _STAT}

    def readdir(self, path: str, fh: int) -> list[str]:
        return [".", "..", *os.listdir(self._of(path))]

    def statfs(self, path: str) -> dict[str, Any]:
        found = os.statvfs(self._of(path))
        return {name: getattr(found, name) for name in _ROOM}

    def mkdir(self, path: str, mode: int) -> None:
        os.mkdir(self._of(path), mode)

    def rmdir(self, path: str) -> None:
        os.rmdir(self._of(path))

    def unlink(self, path: str) -> None:
        os.unlink(self._of(path))

    def rename(self, old: str, new: str) -> None:
        os.rename(self._of(old), self._of(new))

    def chmod(self, path: str, mode: int) -> None:
        os.chmod(self._of(path), mode)

    def chown(self, path: str, uid: int, gid: int) -> None:
        os.chown(self._of(path), uid, gid)

    def utimens(self, path: str, times: tuple[float, float] | None = None) -> None:
        os.utime(self._of(path), times)

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        return os.open(self._of(path), os.O_RDWR | os.O_CREAT, mode)

    def open(self, path: str, flags: int) -> int:
        return os.open(self._of(path), flags)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return os.pread(fh, size, offset)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        return os.pwrite(fh, data, offset)

    def truncate(self, path: str, length: int, fh: int | None = None) -> None:
        os.truncate(self._of(path) if fh is None else fh, length)

    def release(self, path: str, fh: int) -> None:
        os.close(fh)

    def link(self, target: str, source: str) -> None:
        os.link(self._of(source), self._of(target))


if __name__ == "__main__":
    fuse.FUSE(
        Passthrough(Path(sys.argv[1])),
        sys.argv[2],
        foreground=True,
        nothreads=False,
        direct_io=True,
    )

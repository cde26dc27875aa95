"""Temporary folders that outlive nobody: what a killed process leaves, the next one removes; and
the file that takes the place of another one once it is complete."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_PREFIX = "tfwatch-"
#: The file that is locked while somebody uses the folder. A folder without it is none of these.
_LOCK = ".in-use-by-tfwatch"
#: Its name before it is locked.
_NEW_LOCK = ".new-lock"
_OPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


class TemporaryFolder:
    """A new folder in that of the system for temporary files; `path` is its place.

    It is locked while this process, or one that it forked, lives: `remove_orphans` of another one
    leaves it alone.

    Raises:
        OSError: it cannot be created.
    """

    def __init__(self, purpose: str = "") -> None:
        """purpose: a part of its name."""
        self.path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{purpose}"))
        try:
            self._lock = os.open(self.path / _NEW_LOCK, _OPEN | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError:
            self.path.rmdir()
            raise
        self._file = os.fstat(self._lock)
        with suppress(OSError):  # a disk without locks: such a folder is taken for no orphan
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.rename(self.path / _NEW_LOCK, self.path / _LOCK)

    def close(self) -> None:
        """Remove the folder; a program may have closed the lock, and reused its descriptor."""
        with suppress(OSError):
            if os.path.samestat(os.fstat(self._lock), self._file):
                os.close(self._lock)  # first: NFS keeps what is removed while it is open
        shutil.rmtree(self.path, ignore_errors=True)


@contextmanager
def temporary_folder(purpose: str) -> Iterator[Path]:
    """Within, such a folder. Raises as `TemporaryFolder`."""
    folder = TemporaryFolder(purpose)
    try:
        yield folder.path
    finally:
        folder.close()


def remove_orphans() -> None:
    """Remove the folders of this user's processes that were killed."""
    with suppress(OSError):
        for name in os.listdir(tempfile.gettempdir()):
            if name.startswith(_PREFIX):
                _remove_orphan(Path(tempfile.gettempdir(), name))


def _remove_orphan(folder: Path) -> None:
    with suppress(OSError):
        lock = os.open(folder / _LOCK, _OPEN)
        try:
            if os.fstat(lock).st_uid == os.geteuid():
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


#: A new file: never one that is there, nor one behind a link that somebody else has put there.
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
#: Characters of the other file's name: a name has at most 255 bytes.
_LONGEST = 60


def new_part(path: Path) -> tuple[Path, int]:
    """Return a name beside a file that nobody can foresee, and the flags to open it as a new
    file."""
    return path.with_name(f".{path.name[:_LONGEST]}.{os.urandom(8).hex()}"), _NEW

"""Removes the folder of a run, and no other one: a folder of runs may be shared, and a name there
exchanged between a question and its answer."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING, Final

from tfwatch.runs.format import GROUP_FILE, MANIFEST

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_LAST = (MANIFEST, GROUP_FILE)


class FolderToRemove:
    """The folder of a run or a group, as it is now; `path` is its place.

    Raises:
        OSError: there is none.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._status = path.lstat()

    def remove(self) -> None:
        """Remove the folder with everything in it, relative to its descriptor.

        The file that makes it a run goes last: a removal cut short can be repeated.

        Raises:
            OSError: a file cannot be removed, or another folder has taken its place.
        """
        with _opened(self.path.parent, _FOLDER) as place:
            with _opened(self.path.name, _FOLDER | os.O_NOFOLLOW, place) as folder:
                if not os.path.samestat(os.fstat(folder), self._status):
                    raise OSError(errno.ESTALE, "another folder has taken its place")
                _empty(folder)
            os.rmdir(self.path.name, dir_fd=place)


def _empty(folder: int) -> None:
    """Remove everything in a folder."""
    for name in sorted(os.listdir(folder), key=_LAST.__contains__):
        if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=folder)
            continue
        with _opened(name, _FOLDER | os.O_NOFOLLOW, folder) as inner:
            _empty(inner)
        os.rmdir(name, dir_fd=folder)


@contextlib.contextmanager
def _opened(path: Path | str, flags: int, place: int | None = None) -> Iterator[int]:
    fd = os.open(path, flags, dir_fd=place)
    try:
        yield fd
    finally:
        os.close(fd)

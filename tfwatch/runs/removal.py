"""Removes the folder of a run, and no other one: a folder of runs may be shared, and a name there
exchanged between a question and its answer."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from tfwatch.runs.format import GROUP_FILE, MANIFEST, opened_folder

if TYPE_CHECKING:
    from pathlib import Path

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
        with opened_folder(self.path.parent) as place:
            with opened_folder(self.path.name, place, os.O_NOFOLLOW) as folder:
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
        with opened_folder(name, folder, os.O_NOFOLLOW) as inner:
            _empty(inner)
        os.rmdir(name, dir_fd=folder)

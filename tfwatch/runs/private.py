"""Runs are the user's own, whatever the umask: log.txt may hold paths and arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

FILE_MODE, FOLDER_MODE = 0o600, 0o700


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, where they are missing; those that are there stay as they are.

    Raises:
        OSError: it cannot be made.
    """
    missing = [one for one in (folder, *folder.parents) if not one.is_dir()]
    for one in reversed(missing):
        one.mkdir(FOLDER_MODE, exist_ok=True)

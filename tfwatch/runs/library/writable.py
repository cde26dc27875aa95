"""A test of the runs folder, before a training: can a file be written in it, or where it would be created?"""

from __future__ import annotations

import os
import tempfile
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_PROBE_BYTES = 2**12
#: As in `writer.BEGIN_S`: a folder that does not answer for so long is no obstacle, a run is recorded once it does.
_PATIENCE_S = 2.0


def find_problem(folder: Path) -> str:
    """Return the reason why no file can be written in the folder, or where it would be created; empty where one can."""
    try:
        with tempfile.TemporaryFile(dir=nearest(folder), buffering=0) as file:
            file.write(b"\0" * _PROBE_BYTES)
            os.fsync(file.fileno())
    except OSError as error:
        return error.strerror or str(error)
    return ""


def nearest(folder: Path) -> Path:
    """Return the folder, or the nearest one above it that exists.

    Raises:
        NotADirectoryError: a file has the name of a folder on the way.
    """
    for path in (folder, *folder.parents):
        if path.is_dir():
            return path
        if os.path.lexists(path):
            raise NotADirectoryError(0, f"{path} is not a folder")
    return folder


def find_problem_soon(folder: Path) -> str:
    """Return the result of `find_problem`, empty where the folder does not answer in time."""
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(find_problem(folder)), daemon=True, name="tfwatch-probe")
    thread.start()
    thread.join(_PATIENCE_S)
    return found[0] if found else ""

"""The runs of a script in the order of their beginning: its process announces their folders, others follow them.

The file holds paths, each ended by a zero byte, which no path contains.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_END = b"\0"
#: The file of this process and the process's id: a forked child announces nothing.
_file: list[tuple[str, int]] = []
#: Called with the first run.
_at_first_run: list[Callable[[], None]] = []
#: The folder in which `tfwatch run` records the runs of this process.
_runs_dir: list[str] = []


def announce_in(
    path: str, at_first_run: Callable[[], None] | None = None, runs_dir: str = ""
) -> None:
    """Announce the runs of this process in a file from now on; in none for an empty path.

    runs_dir: where `tfwatch run` records the runs of this process; empty where the process runs by itself.
    """
    _runs_dir[:] = [runs_dir] if runs_dir else []
    _file[:] = [(path, os.getpid())] if path else []
    _at_first_run[:] = [at_first_run] if at_first_run else []


def launched_runs_dir() -> str:
    """Return where `tfwatch run` records the runs of this process; empty where the process runs by itself."""
    return "".join(_runs_dir)


def announce(folder: Path) -> None:
    """Announce a run folder that has a manifest; does nothing where nobody asked, or the file is gone."""
    while _at_first_run:
        _at_first_run.pop()()
    for path, pid in _file:
        with suppress(OSError):
            fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            try:
                if pid == os.getpid():
                    os.write(fd, os.fsencode(os.path.abspath(folder)) + _END)
            finally:
                os.close(fd)


class Announcements:
    """Follows such a file, also after it has been removed."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._offset = 0

    def take(self) -> list[Path]:
        """Return the folders that were announced since the last call."""
        from pathlib import Path  # a script that announces its runs does without it

        size = os.fstat(self._fd).st_size
        data = os.pread(self._fd, size - self._offset, self._offset) if size > self._offset else b""
        data = data[: data.rfind(_END) + 1]
        self._offset += len(data)
        return [Path(os.fsdecode(name)) for name in data.split(_END) if name]

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

"""The runs of a script in the order of their beginning: its process announces their folders, others
follow them.

The file holds paths, each ended by a zero byte, which no path contains.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

from tfwatch.runs.requests import SwitchRequest  # noqa: TC001  msgspec reads the field's type

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_END = b"\0"
#: The file of this process and the process's id: a forked child announces nothing.
_file: list[tuple[str, int]] = []
#: Called with the first run.
_at_first_run: list[Callable[[], None]] = []


@dataclass(frozen=True, slots=True)
class Launch:
    """The requests of `tfwatch run` and `train` for the runs of a script.

    runs_dir: where they are recorded; empty: nobody launched this script. gpu_sensor: one of
    `config.GPU_SENSORS`.
    steps: a `fit` ends after so many. switches: of the first `fit`.
    settings: entries of the manifest's.
    """

    runs_dir: str = ""
    gpu_sensor: str = "auto"
    steps: int | None = None
    switches: tuple[SwitchRequest, ...] = ()
    settings: dict[str, str | float | bool] = field(default_factory=dict)

    def to_text(self) -> str:
        """Return it as a word of a command line."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_text(cls, text: str) -> Launch:
        """Read what `to_text` wrote."""
        return msgspec.json.decode(text, type=cls)


_launch: list[Launch] = []


def announce_in(
    path: str, at_first_run: Callable[[], None] | None = None, launch: Launch | None = None
) -> None:
    """Announce the runs of this process in a file from now on; in none for an empty path.

    launch: None where the process runs by itself.
    """
    _launch[:] = [launch] if launch else []
    _file[:] = [(path, os.getpid())] if path else []
    _at_first_run[:] = [at_first_run] if at_first_run else []


def launched() -> Launch:
    """Return what is asked of the runs of this process."""
    return _launch[0] if _launch else Launch()


def take_switches() -> tuple[SwitchRequest, ...]:
    """Return the switches of the first `fit`, to the first caller alone."""
    switches = launched().switches
    _launch[:] = [replace(one, switches=()) for one in _launch]
    return switches


def announce(folder: Path) -> None:
    """Announce a run folder that has a manifest; does nothing where nobody asked, or the file is
    gone."""
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

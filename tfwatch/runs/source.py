"""Where the bytes of a run come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tfwatch.runs import format as layout
from tfwatch.runs.format import Manifest, NotARunError
from tfwatch.runs.stream import read_file

if TYPE_CHECKING:
    from pathlib import Path


class Source(Protocol):
    """A folder, or the writer in this process."""

    def manifest(self) -> Manifest: ...

    def read(self, name: str, offset: int, limit: int) -> bytes: ...

    def is_here(self) -> bool: ...

    @property
    def folder(self) -> Path | None: ...


class FolderSource:
    """A run folder that another process writes or wrote."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def folder(self) -> Path | None:
        return self._folder

    def manifest(self) -> Manifest:
        """Read run.json.

        Raises:
            NotARunError: there is none, or it is not one that this tfwatch reads.
        """
        try:
            return Manifest.decode((self._folder / layout.MANIFEST).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise NotARunError(f"{self._folder} is no run folder: {error}") from error

    def read(self, name: str, offset: int, limit: int) -> bytes:
        """Bytes of one of its files; empty where there are none."""
        return read_file(self._folder / name, offset, limit)

    def is_here(self) -> bool:
        return False

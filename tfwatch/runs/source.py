"""Where the bytes of a run come from."""

from __future__ import annotations

import os
import stat
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
            NotARunError: there is none, or it is not one that this tfwatch reads, or not all of the run may be read.
        """
        try:
            path = self._folder / layout.MANIFEST
            if not stat.S_ISREG(path.stat().st_mode):  # reading from a pipe would wait
                raise NotARunError(f"its {layout.MANIFEST} is no file")
            manifest = Manifest.decode(path.read_text(encoding="utf-8"))
        except NotARunError as error:
            raise NotARunError(f"{self._folder}: {error}") from error
        except UnicodeDecodeError as error:
            raise NotARunError(f"{self._folder}: its {layout.MANIFEST} is no text: {error}") from error
        except OSError as error:
            raise NotARunError(f"{self._folder} is no run folder: {layout.MANIFEST}: {error.strerror}") from error
        paths = (self._folder / name for name in layout.STREAMS)
        if closed := [path.name for path in paths if path.exists() and not os.access(path, os.R_OK)]:
            raise NotARunError(f"{self._folder}: no permission to read its {' and '.join(closed)}")
        return manifest

    def read(self, name: str, offset: int, limit: int) -> bytes:
        """Bytes of one of its files; empty where there are none."""
        return read_file(self._folder / name, offset, limit)

    def is_here(self) -> bool:
        return False

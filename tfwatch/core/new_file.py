"""The file that takes the place of another one once it is complete."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

#: A new file: never one that is there, nor one behind a link that somebody else has put there.
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
#: Characters of the other file's name: a name has at most 255 bytes.
_LONGEST = 60


def new_part(path: Path) -> tuple[Path, int]:
    """Return a name beside a file that nobody can foresee, and the flags to open it as a new
    file."""
    return path.with_name(f".{path.name[:_LONGEST]}.{os.urandom(8).hex()}"), _NEW

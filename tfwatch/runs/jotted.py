"""What was copied on a screen, as a file: not every terminal takes a clipboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.runs.format import write_atomically
from tfwatch.runs.library import default_runs_dir
from tfwatch.runs.private import make_folder

if TYPE_CHECKING:
    from pathlib import Path

NAME = "copied.py"


def jot(folder: Path | None, text: str) -> Path | None:
    """Write the text into a run's folder, or where there is none beside all of them; None where neither takes it."""
    for place in filter(None, (folder, default_runs_dir().parent)):
        try:
            make_folder(place)
            write_atomically(place / NAME, text + "\n")
        except OSError:
            continue
        return place / NAME
    return None

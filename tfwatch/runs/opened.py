"""A whole run as numpy arrays, for scripts and notebooks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.runs import format as layout
from tfwatch.runs.reader import FolderSource, RunReader

if TYPE_CHECKING:
    from tfwatch.core.events import Event
    from tfwatch.core.rows import Rows
    from tfwatch.runs.format import Manifest


@dataclass(frozen=True, eq=False)
class Run:
    """A run folder, read once. `steps` and `samples` are read-only views of its files.

    steps: rows of `core.rows.STEP`; samples: rows of `core.rows.SAMPLE`; events: in the order of their time.
    """

    path: Path
    manifest: Manifest
    steps: Rows
    samples: Rows
    events: tuple[Event, ...]


def open_run(path: str | Path) -> Run:
    """Open a run folder, ended, killed or still being written (its whole rows up to now).

    Raises:
        NotARunError: it is not a run folder that this tfwatch reads.
    """
    folder = Path(path).expanduser()
    source = FolderSource(folder)
    manifest = source.manifest()
    return Run(
        path=folder,
        manifest=manifest,
        steps=_view(folder, layout.STEPS, manifest),
        samples=_view(folder, layout.SAMPLES, manifest),
        events=RunReader(source).tail().events,
    )


def _view(folder: Path, name: str, manifest: Manifest) -> Rows:
    row = manifest.layout(name)
    try:
        count = (folder / name).stat().st_size // row.itemsize
    except OSError:
        count = 0
    if not count:
        return np.empty(0, dtype=row)
    return np.memmap(folder / name, dtype=row, mode="r", shape=(count,))

"""The newest run before this one of the same workload."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tfwatch.core.errors import fails_open, warn_user
from tfwatch.judge.whole_run import LearningCurves, MetricChart
from tfwatch.runs.format import NotARunError
from tfwatch.runs.library.finding import list_folders
from tfwatch.runs.reading.folder import RunFolder
from tfwatch.runs.reading.reader import RunReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tfwatch.runs.format import Manifest
    from tfwatch.runs.reading.reader import Snapshot


#: The earlier runs that are looked at, at most.
_MOST_LOOKED_AT = 50
#: The frames before the search begins: it would delay the first ones of a run that is opened.
FIRST_FRAMES = 4


@dataclass(frozen=True, eq=False)
class PreviousRun:
    """An earlier run of the same workload and batch size."""

    name: str
    #: By their names.
    charts: Mapping[str, MetricChart] = field(default_factory=dict)


class PreviousRunSearch:
    """Finds and reads the run before another one in a thread: ten hours of steps take a quarter of a second."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._found: PreviousRun | None = None
        self._frames = 0

    def __call__(self, snapshot: Snapshot) -> PreviousRun | None:
        """Return the earlier run; None until it is known, and where there is none. Call it once a frame."""
        self._frames += 1
        is_due = (
            self._frames > FIRST_FRAMES and snapshot.folder is not None and snapshot.steps_total > 0
        )
        if self._thread is None and is_due:
            args = snapshot.folder, snapshot.manifest
            self._thread = threading.Thread(
                target=self._search, args=args, daemon=True, name="tfwatch-previous"
            )
            self._thread.start()
        return self._found

    def wait(self) -> None:
        """Wait for the thread."""
        if self._thread:
            self._thread.join()

    def _search(self, folder: Path, manifest: Manifest) -> None:
        with fails_open(lambda why: warn_user(f"the run before this one is not shown: {why}")):
            self._found = next(_earlier_runs(folder, manifest), None)


def _earlier_runs(folder: Path, manifest: Manifest) -> Iterator[PreviousRun]:
    """Yield the earlier runs of the same workload with steps, the newest first."""
    folder = folder.absolute()
    others = [other for other in list_folders(folder.parent) if other != folder]
    for other in others[:_MOST_LOOKED_AT]:
        earlier = _read(other, manifest)
        if earlier:
            yield earlier


def _read(other: Path, manifest: Manifest) -> PreviousRun | None:
    try:
        source = RunFolder(other)
        earlier = source.manifest()
        if not _is_alike(earlier, manifest):
            return None
        snapshot = RunReader(source).tail()
    except (NotARunError, OSError):
        return None
    return _previous(other.name, snapshot) if snapshot.steps_total else None


def _is_alike(earlier: Manifest, manifest: Manifest) -> bool:
    same = (earlier.workload, earlier.batch_size) == (manifest.workload, manifest.batch_size)
    return same and earlier.origin_wall_ns < manifest.origin_wall_ns


def _previous(name: str, snapshot: Snapshot) -> PreviousRun:
    charts = LearningCurves().take(snapshot)
    return PreviousRun(name, {chart.name: chart for chart in charts})

"""The runs of a folder that have metrics: those that run, and for a few minutes those that are over."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.live.view import Follower, RunView
from tfwatch.runs.format import NotARunError
from tfwatch.runs.library.finding import list_single_runs, run_name
from tfwatch.runs.liveness import Life
from tfwatch.runs.opened import open_run
from tfwatch.runs.reader import RunReader
from tfwatch.runs.streams import FolderSource

if TYPE_CHECKING:
    from pathlib import Path

#: A run that is over says so for this long: several scrapes see it.
LINGER_S = 300.0
#: The newest runs that have metrics; each takes memory for its sums.
MOST = 16


@dataclass(frozen=True, slots=True)
class FollowedRun:
    """A run and its present view. name: as `find_run` takes it."""

    name: str
    view: RunView


class FollowedRuns:
    """Follows the runs of a folder; `look` reads what is new. One thread at a time calls it."""

    def __init__(self, runs_dir: Path, clock: Clock = SYSTEM) -> None:
        self._runs_dir = runs_dir
        self._clock = clock
        self._readers: dict[Path, tuple[RunReader, Follower]] = {}
        self._over: set[Path] = set()
        self._unknown: list[Path] = []

    def look(self) -> list[FollowedRun]:
        """Return the runs that have metrics now, the newest first; those of which nothing is known are last.

        Raises:
            OSError: the folder cannot be read.
        """
        folders = list_single_runs(self._runs_dir)
        self._forget(set(folders))
        for folder in folders:
            if folder not in self._readers and folder not in self._over:
                self._begin(folder)
        found = [one for folder in folders if (one := self._read(folder))]
        found.sort(key=_is_unknown)
        self._unknown = [self._runs_dir / one.name for one in found if _is_unknown(one)]
        return found[:MOST]

    def _forget(self, present: set[Path]) -> None:
        self._over &= present
        for folder in self._readers.keys() - present:
            del self._readers[folder]

    def _begin(self, folder: Path) -> None:
        """Follow a run that is not over yet, or ended a moment ago. A folder that cannot be read is tried again."""
        with suppress(NotARunError, OSError):
            run = open_run(folder, self._clock)
            ended_ns = run.manifest.origin_wall_ns + run.length_s * 1e9
            if run.life.is_over and self._clock.wall_ns() - ended_ns > LINGER_S * 1e9:
                self._over.add(folder)
            elif self._has_room(run.life):
                reader = RunReader(FolderSource(folder), self._clock)
                self._readers[folder] = reader, Follower(reader.steps_between, live=False)

    def _has_room(self, life: Life) -> bool:
        """Return whether another run can be followed: one of which nothing is known gives its place to any other."""
        if len(self._readers) >= 2 * MOST and self._unknown and life is not Life.UNKNOWN:
            self._readers.pop(self._unknown.pop(), None)
        return len(self._readers) < 2 * MOST

    def _read(self, folder: Path) -> FollowedRun | None:
        if folder not in self._readers:
            return None
        reader, follower = self._readers[folder]
        view = follower.follow(reader.tail(), (), None)
        ended_ns = view.snapshot.manifest.origin_wall_ns + view.snapshot.now_s * 1e9
        if view.is_over and self._clock.wall_ns() - ended_ns > LINGER_S * 1e9:
            del self._readers[folder]
            self._over.add(folder)
            return None
        return FollowedRun(run_name(folder), view)


def _is_unknown(run: FollowedRun) -> bool:
    return run.view.snapshot.life is Life.UNKNOWN

"""Removes run folders: one that the user names, or those beyond a limit."""

from __future__ import annotations

import math
import shutil
from dataclasses import astuple, dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.runs.folder import RunFolder
from tfwatch.runs.format import GROUP_FILE, MANIFEST, NotARunError
from tfwatch.runs.library import runs_of
from tfwatch.runs.liveness import Life
from tfwatch.runs.run import RECENT, open_run

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from pathlib import Path

#: The process of a run that looks killed may be alive in a container of this machine's name, which
#: no other process can look up. It writes its pulse ten times a second; a limit waits for a disk
#: that hangs.
_SILENT_S, _LIMIT_SILENT_S = 5.0, 3600.0


@dataclass(frozen=True, slots=True)
class RunsToKeep:
    """The runs to keep: those up to `age_s` old, the newest `count`, the newest of `size_bytes` in
    all. None: all."""

    age_s: float | None = None
    count: int | None = None
    size_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A run that may be removed: it is over. age_s: since its start. size_bytes: of its files."""

    folder: Path
    age_s: float
    size_bytes: int


def why_kept(folder: Path, clock: Clock = SYSTEM, *, by_limit: bool = False) -> str:
    """Return why a run must not be removed; empty where it may be.

    by_limit: nobody names it, so it is kept where its state is unknown.
    """
    if folder.is_symlink():
        return "it is a link"
    try:
        lives = {open_run(run, clock, RECENT).life for run in runs_of(folder)}
    except (NotARunError, OSError) as error:
        return f"nobody knows whether it still runs: {error}"
    silent_s = _LIMIT_SILENT_S if by_limit else _SILENT_S
    if Life.KILLED in lives and _written_s_ago(folder, clock) < silent_s:
        return "it still runs, or did a moment ago"
    over = {Life.ENDED, Life.KILLED} | (set() if by_limit else {Life.UNKNOWN})
    return "" if lives and lives <= over else "it still runs"


def _written_s_ago(folder: Path, clock: Clock) -> float:
    """Return the seconds since a file of a folder was written."""
    written = (_lstat(path) for path in folder.rglob("*"))
    return clock.wall_ns() / 1e9 - max(
        (status.st_mtime for status in written if status), default=0.0
    )


def candidates(folders: Sequence[Path], clock: Clock = SYSTEM) -> list[Candidate]:
    """Return the runs that a limit may remove, in the order given: over and readable."""
    removable = [folder for folder in folders if not why_kept(folder, clock, by_limit=True)]
    return [Candidate(folder, _age_s(folder, clock), folder_bytes(folder)) for folder in removable]


def _age_s(folder: Path, clock: Clock) -> float:
    begun_ns = min(RunFolder(run).manifest().origin_wall_ns for run in runs_of(folder))
    return (clock.wall_ns() - begun_ns) / 1e9


def beyond(runs: Sequence[Candidate], limits: RunsToKeep) -> list[Candidate]:
    """Return the runs beyond the limits, of runs in order from the newest to the oldest."""
    age_s, count, size_bytes = (math.inf if limit is None else limit for limit in astuple(limits))
    sums = accumulate(run.size_bytes for run in runs)
    places = enumerate(zip(runs, sums, strict=True))
    return [
        run
        for place, (run, sum_bytes) in places
        if run.age_s > age_s or place >= count or sum_bytes > size_bytes
    ]


def folder_bytes(folder: Path) -> int:
    """Return the size of a folder's files; of those that can be read."""
    return sum(status.st_size for path in folder.rglob("*") if (status := _lstat(path)))


def _lstat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:  # removed meanwhile
        return None


def remove(folder: Path) -> None:
    """Remove the folder of a run or a group with everything in it.

    The file that makes it one goes last: a removal cut short can be repeated.

    Raises:
        OSError: a file cannot be removed.
    """
    for path in folder.iterdir():
        if path.name in (MANIFEST, GROUP_FILE):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    shutil.rmtree(folder)

"""Opens the runs of a group's ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.runs.format import NotARunError
from tfwatch.runs.groups.group_file import GroupFile, newest_round, rank_folders, read_group_file
from tfwatch.runs.opened import Run, open_run

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Group:
    """The newest run of each rank of a group, by rank. unreadable: why the run of a rank cannot be opened, by rank."""

    folder: Path
    file: GroupFile
    ranks: dict[int, Run]
    unreadable: dict[int, str]

    @property
    def missing(self) -> list[int]:
        """The ranks that have no run; none where the size of the group is not known."""
        return [rank for rank in range(self.file.size or 0) if rank not in self.ranks and rank not in self.unreadable]


#: The rows of each kind that are read of a rank: of 64 ranks of a million steps, all of them take a gigabyte.
NEWEST_ROWS = 5_000


def open_group(folder: Path, clock: Clock = SYSTEM) -> Group:
    """Open a group folder, with the newest rows of each rank.

    Raises:
        NotARunError: its group.json cannot be read, or no rank has a run.
        OSError: the folder cannot be read.
    """
    file, found = read_group_file(folder), newest_round(rank_folders(folder))
    opened = {one.rank: _open(one.folder, clock) for one in found}
    ranks = {rank: run for rank, run in opened.items() if isinstance(run, Run)}
    if not ranks:
        raise NotARunError(f"{folder}: no rank of the group has a run")
    return Group(folder, file, ranks, {rank: why for rank, why in opened.items() if isinstance(why, str)})


def _open(folder: Path, clock: Clock) -> Run | str:
    """Return a rank's run, or why it cannot be opened."""
    try:
        return open_run(folder, clock, NEWEST_ROWS)
    except NotARunError as error:
        return str(error)

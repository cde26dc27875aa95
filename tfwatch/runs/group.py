"""A group's folder: its file group.json, the folders of its ranks, and their newest runs."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from tfwatch.core.bounds import Count, StartTime, WallTime, encode_json
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import printable
from tfwatch.runs.folder import read_file
from tfwatch.runs.format import GROUP_FILE, MANIFEST, NotARunError, write_atomically
from tfwatch.runs.run import open_run
from tfwatch.runs.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SCHEMA = 1
_LARGEST_BYTES = 2**14
#: The folder of a rank's first run, and of a later one of the same process.
_RANK_FOLDER = re.compile(r"rank-(\d{1,5})(?:-(\d{1,6}))?", re.ASCII)


class GroupFile(msgspec.Struct, frozen=True):
    """The contents of group.json, written by the rank that comes first."""

    name: str
    #: Whose variables hold rank and size.
    launcher: str
    #: The start of the process that made the folder, and when it made it, both since 1970.
    process_started_s: StartTime
    began_wall_ns: WallTime
    #: The number of ranks, None where it is not known.
    size: Count | None = None
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True, order=True)
class RankFolder:
    """A rank's run. round: the number of this run among those of its process, from 1."""

    round: int
    rank: int
    folder: Path


def write_group_file(folder: Path, group: GroupFile) -> None:
    """Write group.json.

    Raises:
        OSError: the folder cannot be written.
    """
    write_atomically(folder / GROUP_FILE, encode_json(group).decode() + "\n")


def read_group_file(folder: Path) -> GroupFile:
    """Read group.json.

    Raises:
        NotARunError: it is missing, or no group's.
    """
    try:
        text = read_file(folder / GROUP_FILE, 0, _LARGEST_BYTES)
        group = msgspec.json.decode(text, type=GroupFile)
    except (ValueError, RecursionError) as error:
        raise NotARunError(
            f"{folder}: its {GROUP_FILE} cannot be read: {printable(str(error))[:200]}"
        ) from error
    if group.schema != SCHEMA:
        raise NotARunError(
            f"{folder}: the schema of its {GROUP_FILE} is {group.schema}, this tfwatch reads"
            f" {SCHEMA}"
        )
    return group


def is_group(folder: Path) -> bool:
    """Return whether a folder is a group's; an unreadable one is not."""
    with suppress(OSError, ValueError):
        return (folder / GROUP_FILE).is_file()
    return False


def folder_of_rank(group: Path, rank: int, number: int = 1) -> Path:
    """Return the folder of a rank's run; number: of the run in its process, from 1."""
    return group / (f"rank-{rank}" if number == 1 else f"rank-{rank}-{number}")


def newest_round(folders: Sequence[RankFolder]) -> list[RankFolder]:
    """Return the ranks' newest runs, of those that are the same run of their processes."""
    newest = max((one.round for one in folders), default=0)
    return [one for one in folders if one.round == newest]


def rank_folders(group: Path) -> list[RankFolder]:
    """Return the runs of a group's ranks, by round and rank; those that have a manifest.

    Raises:
        OSError: the folder cannot be read.
    """
    folders = []
    for folder in group.iterdir():
        name = _RANK_FOLDER.fullmatch(folder.name)
        if name and (folder / MANIFEST).is_file():
            folders.append(RankFolder(int(name[2] or 1), int(name[1]), folder))
    return sorted(folders)


@dataclass(frozen=True, slots=True)
class Group:
    """The newest run of each rank of a group, by rank. unreadable: why the run of a rank cannot be
    opened, by rank."""

    folder: Path
    file: GroupFile
    ranks: dict[int, Snapshot]
    unreadable: dict[int, str]

    @property
    def missing(self) -> list[int]:
        """The ranks that have no run; none where the size of the group is not known."""
        return [
            rank
            for rank in range(self.file.size or 0)
            if rank not in self.ranks and rank not in self.unreadable
        ]


#: The rows of each kind that are read of a rank: of 64 ranks of a million steps, all of them take a
#: gigabyte.
NEWEST_ROWS = 5_000


def open_group(folder: Path, clock: Clock = SYSTEM) -> Group:
    """Open a group folder, with the newest rows of each rank.

    Raises:
        NotARunError: its group.json cannot be read, or no rank has a run.
        OSError: the folder cannot be read.
    """
    file, folders = read_group_file(folder), newest_round(rank_folders(folder))
    opened = {one.rank: _open(one.folder, clock) for one in folders}
    ranks = {rank: run for rank, run in opened.items() if isinstance(run, Snapshot)}
    if not ranks:
        raise NotARunError(f"{folder}: no rank of the group has a run")
    return Group(
        folder, file, ranks, {rank: why for rank, why in opened.items() if isinstance(why, str)}
    )


def _open(folder: Path, clock: Clock) -> Snapshot | str:
    """Return a rank's run, or why it cannot be opened."""
    try:
        return open_run(folder, clock, NEWEST_ROWS)
    except NotARunError as error:
        return str(error)

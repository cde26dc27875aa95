"""A group's folder: its file group.json, and the folders of its ranks."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from tfwatch.core.bounds import Count, StartTime, WallTime, encode_json
from tfwatch.core.errors import printable
from tfwatch.runs.format import GROUP_FILE, MANIFEST, NotARunError, write_atomically
from tfwatch.runs.reading.streams import read_file

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
            f"{folder}: the schema of its {GROUP_FILE} is {group.schema}, this tfwatch reads {SCHEMA}"
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

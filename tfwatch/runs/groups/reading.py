"""Opens the runs of a group's ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.runs import format as layout
from tfwatch.runs.format import NotARunError, decode_pulse
from tfwatch.runs.groups.group_file import GroupFile, newest_round, rank_folders, read_group_file
from tfwatch.runs.reading.liveness import Life, find_open_phase, life_of
from tfwatch.runs.reading.opened import Run, open_run
from tfwatch.runs.reading.streams import FolderSource

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
        return [
            rank
            for rank in range(self.file.size or 0)
            if rank not in self.ranks and rank not in self.unreadable
        ]


#: The rows of each kind that are read of a rank: of 64 ranks of a million steps, all of them take a gigabyte.
NEWEST_ROWS = 5_000
_PULSE_BYTES = 4096


def open_group(folder: Path, clock: Clock = SYSTEM) -> Group:
    """Open a group folder, with the newest rows of each rank.

    Raises:
        NotARunError: its group.json cannot be read, or no rank has a run.
        OSError: the folder cannot be read.
    """
    file, folders = read_group_file(folder), newest_round(rank_folders(folder))
    opened = {one.rank: _open(one.folder, clock) for one in folders}
    ranks = {rank: run for rank, run in opened.items() if isinstance(run, Run)}
    if not ranks:
        raise NotARunError(f"{folder}: no rank of the group has a run")
    return Group(
        folder, file, ranks, {rank: why for rank, why in opened.items() if isinstance(why, str)}
    )


#: A rank that has not come to the next call for so many seconds, or hangs in it, holds the group up.
HELD_S = 3.0


def signs_of(group: Group, clock: Clock = SYSTEM) -> list[tuple[Life, bool]]:
    """Return the present states of the ranks that were not over, and whether each has been in one phase for long.

    Much less is read for it than to open the group.
    """
    return [_sign(run, clock) for run in group.ranks.values() if not run.life.is_over]


def _sign(run: Run, clock: Clock) -> tuple[Life, bool]:
    data = FolderSource(run.path).read(layout.PULSES, 0, _PULSE_BYTES) if run.path else b""
    pulse = decode_pulse(data)
    last = find_open_phase(None, pulse)
    is_held = (
        last is not None and (last.is_before_call or last.is_in_call) and last.lasts_s >= HELD_S
    )
    return life_of(run.manifest, pulse, clock)[0], is_held


def _open(folder: Path, clock: Clock) -> Run | str:
    """Return a rank's run, or why it cannot be opened."""
    try:
        return open_run(folder, clock, NEWEST_ROWS)
    except NotARunError as error:
        return str(error)

"""All steps of a group, read block by block: of 64 ranks of a million steps, two gigabytes do not fit into memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tfwatch.analysis.groups.aligned import RankSteps, align
from tfwatch.analysis.groups.step_sums import StepSums
from tfwatch.analysis.groups.straggler import NEEDED
from tfwatch.core.rows import STEP
from tfwatch.live.groups.judged_group import silences
from tfwatch.runs import format as layout
from tfwatch.runs.groups.group_file import newest_round, rank_folders
from tfwatch.runs.groups.reading import RankStream

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tfwatch.analysis.groups.step_sums import GroupSteps
    from tfwatch.core.rows import Rows
    from tfwatch.live.groups.judged_group import JudgedGroup

#: Steps of a block: 64 ranks hold 40 MB of them. The steps after the last block are at least those of a finding.
BLOCK = 2**14


class GroupHistory:
    """The steps that all ranks have, from the first one on. steps: None before there are any."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ranks: list[_Rank] = []
        self._sums = StepSums()
        self.steps: GroupSteps | None = None

    def read(self) -> Iterator[int]:
        """Read what is recorded since the last call; yield the last step after each block.

        Raises:
            NotARunError: the run of a rank cannot be read.
            OSError: the group's folder cannot be read.
        """
        self._open()
        while (last := self._end_of_block()) is not None:
            self._sums.add(align([rank.take(last) for rank in self._ranks]))
            yield last
        newest = self._sums.copy()
        newest.add(align([rank.rest() for rank in self._ranks]))
        self.steps = newest.steps()

    def _open(self) -> None:
        """Open the newest runs of the ranks; where there is another one, all of it begins again."""
        found = newest_round(rank_folders(self._folder))
        if [one.folder for one in found] != [rank.folder for rank in self._ranks]:
            self._ranks = [_Rank(one.rank, one.folder) for one in found]
            self._sums, self.steps = StepSums(), None

    def _end_of_block(self) -> int | None:
        """Return the last step of the next whole block; None where a rank has no such block."""
        ends = [rank.end_of_block() for rank in self._ranks]
        known = [end for end in ends if end is not None]
        return min(known) if known and len(known) == len(ends) else None


def read_steps(judged: JudgedGroup) -> GroupSteps | None:
    """Return all steps that the ranks of a group have; None where their parts are not known.

    Raises:
        NotARunError: the run of a rank cannot be read.
        OSError: the group's folder cannot be read.
    """
    history = GroupHistory(judged.group.folder)
    for _ in () if judged.why_not else history.read():
        pass
    return history.steps


class _Rank:
    """The steps of a rank that are read and not taken yet, after the last one that was taken."""

    def __init__(self, rank: int, folder: Path) -> None:
        self.folder = folder
        self._rank = rank
        self._stream = RankStream(folder)
        self._rows: Rows = np.empty(0, dtype=STEP)
        self._taken = 0
        self._silences: list[tuple[int, int]] = []

    def end_of_block(self) -> int | None:
        """Return the last step of the next block; None where there are not enough new steps."""
        wanted = self._taken + BLOCK + NEEDED
        while len(self._rows) < wanted and len(rows := self._stream.read(layout.STEPS, BLOCK)):
            self._rows = np.concatenate([self._rows, _rising(rows, self._rows[-1:])])
        return (
            int(self._rows["step"][self._taken + BLOCK - 1]) if len(self._rows) >= wanted else None
        )

    def take(self, last: int) -> RankSteps:
        """Return the steps up to one, and before them the last one that was taken."""
        end = int(np.searchsorted(self._rows["step"], last, side="right"))
        taken = self._of(self._rows[:end])
        if end:
            self._rows, self._taken = self._rows[end - 1 :], 1
        return taken

    def rest(self) -> RankSteps:
        """Return the steps that are not taken, and before them the last one that was."""
        return self._of(self._rows)

    def _of(self, rows: Rows) -> RankSteps:
        while len(samples := self._stream.read(layout.SAMPLES, BLOCK)):
            self._silences += silences(samples)
        return RankSteps(self._rank, rows, silences=self._silences)


def _rising(rows: Rows, before: Rows) -> Rows:
    """Return the rows whose step is higher than that of all rows before: others are damaged."""
    steps = np.concatenate([before["step"], rows["step"]]).astype(np.int64)
    if (np.diff(steps) > 0).all():
        return rows
    highest = np.maximum.accumulate(steps)
    is_higher = np.diff(highest, prepend=-1) > 0
    return rows[is_higher[len(before) :]]

"""Blocks of a group's steps, spread over all of its run: thirty thousand steps of a million are enough for a figure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.analysis.groups.aligned import Aligned, align, join
from tfwatch.core.rows import plausible_rows
from tfwatch.runs.groups.reading import StoredSteps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tfwatch.core.rows import Rows
    from tfwatch.live.groups.judged_group import JudgedGroup

#: Blocks of a longer run, and the steps of each.
BLOCKS, BLOCK = 32, 1024


@dataclass(frozen=True, slots=True)
class SampledSteps:
    """Steps of a group. aligned: those that all ranks have. rows: of each rank, by rank."""

    aligned: Aligned
    rows: Mapping[int, Rows]


def sample_steps(judged: JudgedGroup, after: int) -> SampledSteps:
    """Return the steps of a group after one: all of them, or blocks at equal distances."""
    whole = {rank: StoredSteps(run.path) for rank, run in judged.group.ranks.items() if run.path}
    blocks = [
        {rank: _block(steps, *span) for rank, steps in whole.items()}
        for span in _spans(whole, after)
    ]
    if not blocks:
        return SampledSteps(
            judged.aligned.after(after),
            {rank: run.steps[:0] for rank, run in judged.group.ranks.items()},
        )
    known = {rank.rank: replace(rank, silences=()) for rank in judged.aligned.ranks}
    parts = [
        align([replace(known[rank], rows=rows) for rank, rows in block.items()]) for block in blocks
    ]
    # Two million rows: the blocks of a rank go as it is joined.
    rows = {rank: _joined([block.pop(rank) for block in blocks], after) for rank in whole}
    return SampledSteps(join(parts), rows)


def _joined(blocks: Sequence[Rows], after: int) -> Rows:
    """Return the plausible rows of a rank after a step."""
    return plausible_rows(_after(np.concatenate(blocks), after))


def _spans(whole: Mapping[int, StoredSteps], after: int) -> Sequence[tuple[int, int]]:
    """Return the first and the last step of each block; none where the ranks have no step in common."""
    if not all(len(steps) for steps in whole.values()):
        return []
    first = max(after + 1, *(steps.step_at(0) for steps in whole.values()))
    last = min(steps.step_at(len(steps) - 1) for steps in whole.values())
    if last - first < BLOCKS * BLOCK:
        return [(first, last)] if first <= last else []
    starts = np.linspace(first, last - BLOCK + 1, BLOCKS).astype(int).tolist()
    return [(start, start + BLOCK - 1) for start in starts]


def _block(steps: StoredSteps, first: int, last: int) -> Rows:
    """Return the rows of some steps, and the row before them."""
    return steps.rows(max(steps.place_of(first) - 1, 0), steps.place_of(last + 1))


def _after(rows: Rows, step: int) -> Rows:
    return rows[rows["step"] > step]

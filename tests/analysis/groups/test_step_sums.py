"""Sums over a group's steps: columns of equal numbers of steps, however many there are."""

from __future__ import annotations

import numpy as np
import pytest

from tests.groups import CALL, meeting_rows
from tfwatch.analysis.groups.aligned import Aligned, RankSteps, align
from tfwatch.analysis.groups.step_sums import BUCKETS, StepSums, sum_up


def aligned(count: int, waits: tuple[float, ...] = (1, 6, 1)) -> Aligned:
    ranks = meeting_rows(waits, [1.0] * len(waits), count=count)
    return align([RankSteps(rank, rows) for rank, rows in enumerate(ranks)])


def test_each_column_has_the_mean_parts_of_its_steps() -> None:
    steps = sum_up(aligned(55))

    assert steps
    columns = steps.columns(10)
    assert (columns.first[0], columns.last[-1]) == (6, 55)
    assert columns.first[1:].tolist() == (columns.last[:-1] + 1).tolist()
    assert columns.counts.tolist() == [5] * 10
    for part, expected in zip(columns.parts, (CALL, 1.0, 6.0), strict=True):
        assert part == pytest.approx(expected)


def test_there_are_no_more_columns_than_steps() -> None:
    steps = sum_up(aligned(30))

    assert steps
    assert steps.columns(1000).counts.tolist() == [1] * 25


def test_steps_that_need_more_buckets_keep_their_sums() -> None:
    sums, whole = StepSums(), aligned(3 * BUCKETS)
    for after in (0, 1000, 4000):
        block = whole.after(after)
        kept = block.steps <= {0: 1000, 1000: 4000, 4000: 3 * BUCKETS}[after]
        times = (
            block.wait[:, kept],
            block.host[:, kept],
            block.call[:, kept],
            block.silent[:, kept],
        )
        sums.add(Aligned(whole.ranks, block.steps[kept], *times))
    steps = sums.steps()

    assert steps
    assert (steps.first, steps.last, steps.width) == (6, 3 * BUCKETS, 4)
    assert steps.counts.sum() == len(whole.steps)
    assert steps.sums.sum(axis=1) == pytest.approx([part.sum() for part in whole.parts])


def test_without_a_step_there_are_none() -> None:
    assert sum_up(aligned(3)) is None


def test_the_longest_long_steps_come_first() -> None:
    found = aligned(100)
    found.wait[1, [20, 40]] += [500.0, 900.0]

    steps = sum_up(found)

    assert steps
    assert [(one.step, one.rank) for one in steps.long_steps] == [
        (int(found.steps[at]), 1) for at in (40, 20)
    ]
    assert np.allclose([one.lost_ms for one in steps.long_steps], [900.0, 500.0])

"""All steps of a group, read block by block while its ranks write."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.groups import meeting_rows, write_group
from tests.runs.folders import FakeClock, write_run
from tfwatch.analysis.groups.step_sums import sum_up
from tfwatch.core.rows import STEP
from tfwatch.live.groups import history
from tfwatch.live.groups.history import GroupHistory, read_steps
from tfwatch.live.groups.judged_group import JudgedGroup
from tfwatch.runs.format import STEPS as STEPS_FILE
from tfwatch.runs.groups.group_file import folder_of_rank
from tfwatch.runs.groups.reading import open_group

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.core.rows import Rows


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "BLOCK", 16)


def judged(folder: Path) -> JudgedGroup:
    return JudgedGroup(open_group(folder, FakeClock(2).clock))


def change(folder: Path, rank: int, first: int, **changes: float) -> None:
    """Change the rows of a rank from one on."""
    path = folder_of_rank(folder, rank) / STEPS_FILE
    rows: Rows = np.fromfile(path, dtype=STEP)
    for name, value in changes.items():
        rows[name][first] = value
    rows.tofile(path)


def test_blocks_hold_the_same_steps_as_all_at_once(tmp_path: Path) -> None:
    folder = write_group(tmp_path / "one", [1, 21, 1])
    change(folder, 0, 20, flags=1)
    change(folder, 1, 33, wait_ms=900.0)
    change(folder, 2, 40, wait_ms=-1.0)  # damaged: the row is left out

    found, expected = read_steps(judged(folder)), sum_up(judged(folder).aligned)

    assert found
    assert expected
    assert (found.first, found.last, found.counts.tolist()) == (6, 60, expected.counts.tolist())
    assert np.allclose(found.sums, expected.sums)
    assert [(one.step, one.rank) for one in found.long_steps] == [(34, 1)]


def test_the_rows_of_each_rank_are_read_as_they_come(tmp_path: Path) -> None:
    folder = write_group(tmp_path / "one", [1, 21])
    paths = [folder_of_rank(folder, rank) / STEPS_FILE for rank in range(2)]
    data = [path.read_bytes() for path in paths]
    found, lasts = GroupHistory(folder), []
    for counts in ((0, 0), (30, 0), (30, 25), (50, 60), (60, 60)):
        for path, of_rank, count in zip(paths, data, counts, strict=True):
            path.write_bytes(of_rank[: count * STEP.itemsize + 7])
        list(found.read())
        lasts.append(found.steps.last if found.steps else None)

    assert lasts == [None, None, 25, 50, 60]
    assert found.steps
    assert found.steps.counts.sum() == 55


def test_another_run_of_the_ranks_begins_again(tmp_path: Path) -> None:
    folder = write_group(tmp_path / "one", [1, 21])
    found = GroupHistory(folder)
    list(found.read())
    for rank, rows in enumerate(meeting_rows([1, 1], [1, 1], count=30)):
        write_run(folder_of_rank(folder, rank, 2), rows, group="one", rank=rank)

    list(found.read())

    assert found.steps
    assert found.steps.last == 30


def test_steps_out_of_order_end(tmp_path: Path) -> None:
    folder = write_group(tmp_path / "one", [1, 21])
    for at in range(20, 40):
        change(folder, 1, at, step=1000 - at)

    assert read_steps(judged(folder)) is not None
    assert read_steps(judged(write_group(tmp_path / "alone", [1]))) is None

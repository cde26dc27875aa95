"""Blocks of a group's steps, spread over all of its run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.groups import CALL, STEPS, write_group
from tests.runs.folders import FakeClock
from tfwatch.core.rows import STEP
from tfwatch.live.groups import sampled_steps
from tfwatch.live.groups.judged_group import JudgedGroup
from tfwatch.live.groups.sampled_steps import sample_steps
from tfwatch.runs.format import STEPS as STEPS_FILE
from tfwatch.runs.groups.group_file import folder_of_rank
from tfwatch.runs.groups.reading import open_group

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JudgedGroup:
    """A group of 60 steps, of which the newest 30 are read."""
    monkeypatch.setattr("tfwatch.runs.groups.reading.NEWEST_ROWS", 30)
    return JudgedGroup(open_group(write_group(tmp_path / "one", [1, 21]), FakeClock(2).clock))


def test_all_steps_of_a_short_run_count(judged: JudgedGroup) -> None:
    found = sample_steps(judged, 0)

    assert found.aligned.steps.tolist() == list(range(6, STEPS + 1))
    assert [len(rows) for rows in found.rows.values()] == [STEPS, STEPS]
    assert np.allclose(found.aligned.shared, CALL)


def test_of_a_long_run_blocks_at_equal_distances_count(
    judged: JudgedGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampled_steps, "BLOCKS", 4)
    monkeypatch.setattr(sampled_steps, "BLOCK", 5)

    found = sample_steps(judged, 10)

    assert found.aligned.steps.reshape(4, 5)[:, 0].tolist() == [11, 26, 41, 56]
    assert found.aligned.steps[-1] == STEPS
    assert found.rows[1]["wait_ms"] == pytest.approx(21.0)
    assert min(found.rows[1]["step"]) == 11


def test_without_common_steps_there_are_none(judged: JudgedGroup) -> None:
    assert len(sample_steps(judged, STEPS).aligned.steps) == 0
    path = folder_of_rank(judged.group.folder, 1) / STEPS_FILE
    np.empty(0, dtype=STEP).tofile(path)

    assert len(sample_steps(JudgedGroup(open_group(judged.group.folder)), 0).rows[0]) == 0

"""Folders of groups, whose ranks meet in each call."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.judge.step_rows import make_steps
from tests.runs.folders import ORIGIN_WALL_NS, write_run
from tfwatch.core.events import RunEnded
from tfwatch.core.rows import Rows
from tfwatch.runs.group import GroupFile, folder_of_rank, write_group_file

#: Milliseconds of a call in which nobody is waited for.
CALL = 8.0
STEPS = 60
FINISHED = RunEnded(10**9, "finished", STEPS)


def meeting_rows(
    waits: Sequence[float], hosts: Sequence[float], noise: float = 0.0, count: int = STEPS
) -> list[Rows]:
    """Rows of ranks that meet in each call: it ends for all of them `CALL` after the last one
    came."""
    random, shape = np.random.default_rng(3), (len(waits), count)
    wait = np.array(waits)[:, None] + np.abs(random.normal(0, noise, shape))
    host = np.array(hosts)[:, None] + np.abs(random.normal(0, noise, shape))
    before = np.concatenate([np.zeros((len(waits), 1)), host[:, :-1]], axis=1)
    own = wait + before
    call = CALL + own.max(axis=0) - own
    return [make_steps(wait[rank], call[rank], host[rank]) for rank in range(len(waits))]


def write_group(
    folder: Path,
    waits: Sequence[float],
    hosts: Sequence[float] | None = None,
    size: int | None = None,
    **changes: Any,
) -> Path:
    """Write a group whose ranks wait so many milliseconds for data, and are over."""
    folder.mkdir()
    write_group_file(
        folder,
        GroupFile(
            "tf_config", "TF_CONFIG", ORIGIN_WALL_NS / 1e9, ORIGIN_WALL_NS, size or len(waits)
        ),
    )
    for rank, rows in enumerate(meeting_rows(waits, hosts or [1.0] * len(waits))):
        place = folder_of_rank(folder, rank)
        names = {
            "run": f"{folder.name}/{place.name}",
            "group": folder.name,
            "rank": rank,
            "group_size": size,
        }
        write_run(place, rows, FINISHED, **{**names, **changes})
    return folder

"""Limits of the runs folder, kept beside a training."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from tests.runs.begun import begin_run
from tests.runs.folders import write_run
from tfwatch.core.events import RunEnded
from tfwatch.core.rows import STEP
from tfwatch.runs import removal
from tfwatch.runs.removal import RunsToKeep, start_pruning

NO_STEPS = np.empty(0, dtype=STEP)


def test_the_limit_is_kept_by_a_process_beside_the_training(tmp_path: Path) -> None:
    names = [f"2026-11-20T10-17-0{number}_cnn" for number in range(5)]
    for name in names:
        write_run(tmp_path / name, NO_STEPS, RunEnded(10**9, "finished", 0, ""))
    writer, _ = begin_run(tmp_path, "cnn")
    assert writer.folder

    start_pruning(tmp_path, RunsToKeep(count=1))
    (process,) = removal._newest
    words: Any = process.args
    assert Path(words[3], "tfwatch", "cli").is_dir(), "it runs this tfwatch"
    start_pruning(tmp_path, RunsToKeep(count=1))
    assert removal._newest == [process], "a second one does the same"

    deadline_s = time.monotonic() + 60
    while len(list(tmp_path.iterdir())) > 2:
        assert time.monotonic() < deadline_s
        time.sleep(0.05)  # another process removes them
    assert {path.name for path in tmp_path.iterdir()} == {names[4], writer.folder.name}
    while process.returncode is None:  # a thread waits for it: no other wait for a child finds it
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    assert process.returncode == 0
    writer.close()

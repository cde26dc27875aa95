"""Notices and limits around a whole training, without TensorFlow."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.runs.begun import begin_run
from tests.runs.folders import write_run
from tfwatch.cli.script.script_notices import ScriptNotices
from tfwatch.core.clock import SYSTEM
from tfwatch.core.events import RunEnded
from tfwatch.core.rows import STEP
from tfwatch.runs.announcements import announce, announce_in
from tfwatch.runs.library import removal
from tfwatch.runs.library.removal import RunsToKeep, start_pruning
from tfwatch.terminal.notification import NotifyOptions

if TYPE_CHECKING:
    import pytest

NO_STEPS = np.empty(0, dtype=STEP)


def test_the_end_of_a_script_is_noticed_and_not_that_of_its_runs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    notices = ScriptNotices(NotifyOptions(in_terminal=True), SYSTEM)
    announce_in(str(notices.announced))
    writer, _ = begin_run(tmp_path, "cnn")
    assert writer.folder
    announce(writer.folder)
    announce_in("")
    writer.end("finished")
    notices.start()
    notices.end("script ended, exit code 3")

    assert capfd.readouterr().err == "tfwatch: script ended, exit code 3\n"
    assert not notices.announced.parent.exists()
    writer.close()


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

"""`tfwatch train` in a terminal."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.pseudo import Pseudo
from tfwatch.core.events import PipelineSwitched
from tfwatch.runs.library import list_runs
from tfwatch.runs.run import open_run

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.runs.snapshot import Snapshot

pytestmark = pytest.mark.terminal


def the_run(folder: Path) -> Snapshot:
    (run,) = list_runs(folder / "runs")
    return open_run(run)


def trains(folder: Path) -> bool:
    return any(len(open_run(run).steps) > 5 for run in list_runs(folder / "runs"))


@pytest.mark.tensorflow
def test_cnn_trains_on_the_screen_and_is_switched_by_a_key(tmp_path: Path) -> None:
    small = ("--batch-size", "16", "--image-size", "16")
    words = ("-m", "tfwatch", "train", "cnn", "--runs-dir", str(tmp_path / "runs"), *small)
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "COLUMNS": "120", "LINES": "40"}
    with Pseudo(*words, columns=120, rows=40, **environ) as terminal:
        terminal.wait_for("cnn runs, no fit yet")
        terminal.read_until(lambda: trains(tmp_path), timeout_s=120)
        terminal.press("p")
        terminal.read_until(
            lambda: any(isinstance(one, PipelineSwitched) for one in the_run(tmp_path).events),
            timeout_s=60,
        )
        terminal.answer("y")
        assert terminal.wait(timeout_s=60) == 128 + signal.SIGINT
        assert terminal.state == terminal.before
    run = the_run(tmp_path)
    assert run.ended
    assert run.ended.cause == "stopped"

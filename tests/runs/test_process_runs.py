"""The runs of one process are found among all runs: those before, and each that begins."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tfwatch.core.clock import SYSTEM
from tfwatch.runs.create import begin_run
from tfwatch.runs.format import NotARunError
from tfwatch.runs.scripts.script_process import ProcessRuns

if TYPE_CHECKING:
    from pathlib import Path


def run(runs_dir: Path, pid: int | None = None, **described: str) -> Path:
    """Write a run of one step that is over. pid: of another process than this one."""
    writer, _ = begin_run(runs_dir, "cnn")
    if pid:
        writer.describe(pid=pid)
    writer.describe(**described)
    writer.step(0, 1, 0, 0, 4.0, 1.0, 5.0, 1.0)
    writer.end("finished")
    writer.close()
    assert writer.folder
    return writer.folder


def test_the_runs_of_the_process_come_once_and_in_order(tmp_path: Path) -> None:
    first, _, second = run(tmp_path), run(tmp_path, pid=1), run(tmp_path)
    runs = ProcessRuns(second)
    assert runs.take() == [first, second]
    (tmp_path / "empty").mkdir()
    assert runs.take() == []

    run(tmp_path, pid=1, control_socket="/tmp/socket")
    third, fourth = run(tmp_path, control_socket="/tmp/socket"), run(tmp_path, no_control="full")
    assert runs.take() == [third, fourth]
    assert runs.take() == []


def test_a_run_waits_for_its_control_socket_two_seconds(tmp_path: Path) -> None:
    late_ns = 0
    clock = replace(SYSTEM, wall_ns=lambda: SYSTEM.wall_ns() + late_ns)
    runs = ProcessRuns(run(tmp_path), clock)
    runs.take()
    second = run(tmp_path)
    assert runs.take() == []
    late_ns = 3 * 10**9
    assert runs.take() == [second]


def test_a_folder_that_is_gone_has_no_more_runs(tmp_path: Path) -> None:
    first = run(tmp_path / "runs")
    runs = ProcessRuns(first)
    (tmp_path / "runs").rename(tmp_path / "moved")
    assert runs.take() == [first]
    with pytest.raises(NotARunError):
        ProcessRuns(tmp_path / "nothing")

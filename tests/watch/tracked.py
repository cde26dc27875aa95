"""Runs of tracked loops, as the tests read them."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import tfwatch
from tfwatch import Track
from tfwatch.runs.library import list_runs
from tfwatch.runs.run import open_run
from tfwatch.runs.snapshot import Snapshot
from tfwatch.watch.loops.tracked_loop import all_runs

ROOT = Path(tfwatch.__file__).parents[1]
BATCHES = [np.full((4, 2), n) for n in range(5)]


def end_all() -> None:
    """End all runs, so that none waits for a call in another test."""
    for loop in list(all_runs):
        loop.end()


def opened(tracked: Track[Any]) -> Snapshot:
    assert tracked.run_path
    return flushed(tracked.run_path)


def runs_in(runs_dir: Path) -> list[Snapshot]:
    """Return the runs in a folder, the oldest first."""
    return [flushed(run) for run in reversed(list_runs(runs_dir))]


def flushed(folder: Path) -> Snapshot:
    for loop in all_runs:
        loop._writer.flush()
    return open_run(folder)


def cause(run: Snapshot) -> str:
    assert run.ended
    return run.ended.cause


def python(code: str, runs_dir: Path, *, rc: int = 0) -> list[Snapshot]:
    """Run code in another process; return its runs, the oldest first."""
    script = runs_dir.parent / "script.py"
    script.write_text(f"import sys, tfwatch\nRUNS = {str(runs_dir)!r}\n{code}")
    done = subprocess.run(
        [sys.executable, script], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == rc, done.stderr
    return [open_run(run) for run in reversed(list_runs(runs_dir))]

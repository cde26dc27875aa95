"""A trial of a script in a child process: its first steps, and its end."""

from __future__ import annotations

import os
import subprocess
import threading
from typing import TYPE_CHECKING

from tfwatch.cli.script.run import script_command, startable
from tfwatch.core.clock import SYSTEM
from tfwatch.core.errors import BadInputError, printable

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.cli.script.request import RunOptions
    from tfwatch.judge.comparing.run_to_compare import RunToCompare

#: Seconds between two looks at the child, and the last lines of one that failed.
_LOOK_S, _LAST_LINES = 0.5, 5
#: Looks after the end of a run: a process whose pipeline waits in Python may not end by itself, and
#: is killed.
_LOOKS_AFTER_END = 10


def measure(options: RunOptions, name: str) -> RunToCompare:
    """Run the script, and return its run.

    Raises:
        BadInputError: it failed, or has no fit.
    """
    from tfwatch.judge.comparing.run_to_compare import RunToCompare
    from tfwatch.judge.judged_run import JudgedRun
    from tfwatch.runs.run import open_run

    options.runs_dir.mkdir()
    output = options.runs_dir / "output.txt"
    code = _run(options, output)
    folders = [one.parent for one in options.runs_dir.glob("*/run.json")]
    if code or not folders:
        lines = output.read_text(errors="replace").splitlines()[-_LAST_LINES:]
        failed = f"its exit code is {code}" if code else "it has no fit"
        why = "; ".join(("the script cannot be tried", failed, *map(printable, lines)))
        raise BadInputError(why)
    return RunToCompare(JudgedRun(open_run(folders[0])), name)


def _run(options: RunOptions, output: Path) -> int:
    """Run the script to its last step, and return its exit code."""
    environment = {**os.environ, "TFWATCH_RUNS_DIR": str(options.runs_dir)}
    with output.open("wb") as log:
        with startable(options):
            child = subprocess.Popen(
                script_command(options, None),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
            )
        try:
            return _wait(child, options.runs_dir)
        finally:
            child.kill()
            child.wait()


def _wait(child: subprocess.Popen[bytes], runs_dir: Path) -> int:
    """Wait for the end of the script.

    Raises:
        BadInputError: it trains in a loop of its own, which would run to its end.
    """
    from tfwatch.runs.run import RECENT, open_run

    pause, looks = threading.Event(), 0
    while child.poll() is None and looks < _LOOKS_AFTER_END:
        runs = [open_run(one.parent, SYSTEM, RECENT) for one in runs_dir.glob("*/run.json")]
        if loop := next(filter(None, (run.manifest.loop for run in runs)), ""):
            raise BadInputError(f"a loop of the script's own cannot be tried: {printable(loop)}")
        looks += any(run.ended for run in runs)
        pause.wait(_LOOK_S)
    return child.returncode or 0

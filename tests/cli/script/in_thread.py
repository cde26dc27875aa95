"""Runs a script as `tfwatch train` runs a workload: in a thread, under the live screen. python -m
... SCRIPT RUNS_DIR"""

from __future__ import annotations

import sys
from pathlib import Path

from tfwatch.cli.script.request import RunOptions
from tfwatch.cli.script.run import run

if __name__ == "__main__":
    script, runs = sys.argv[1:]
    sys.exit(run(RunOptions([script, runs], Path(runs), headless=False, is_workload=True)))

"""Keeps the limits of the runs folder by itself: a process beside the training prunes it when a run begins."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from tfwatch.config.config_file import ConfigError, read_config
from tfwatch.core.errors import fails_open
from tfwatch.runs.library.finding import default_runs_dir
from tfwatch.runs.library.removal import Limits

if TYPE_CHECKING:
    from collections.abc import Callable

#: The lowest priority: the process reads and removes folders while a training starts.
_PROGRAM = """\
import os, sys
os.nice(19)
sys.path[0] = sys.argv[1]
from tfwatch.cli import main
sys.exit(main(sys.argv[2:]))
"""
#: The process that prunes. It stays referenced, as Python warns of one that is not waited for.
_newest: list[subprocess.Popen[bytes]] = []
_UNITS_S = {"w": 604_800, "d": 86_400, "h": 3600, "m": 60}


def configured_limits(runs_dir: Path) -> Limits | None:
    """Return the limits of the config file; None without any, and for another folder than the one that is its own."""
    try:
        values = read_config().values
    except ConfigError:
        return None
    limits = Limits(values.get("keep-age"), values.get("keep-runs"), values.get("keep-size"))
    return limits if limits != Limits() and runs_dir == default_runs_dir() else None


def start_pruning(
    runs_dir: Path,
    limits: Limits | None,
    on_failure: Callable[[str], None] = lambda _: None,
    *,
    in_training: bool = True,
) -> None:
    """Start the process that prunes a folder, where there are limits and no earlier one still runs.

    It outlives this process. in_training: a thread waits for it: a training may wait for any child that it has.
    """
    if limits is None or not reap_pruning():
        return
    nowhere, root = subprocess.DEVNULL, str(Path(__file__).parents[2])
    with fails_open(lambda why: on_failure(f"the runs folder is not pruned: {why}")):
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, root, *prune_words(runs_dir, limits)],
            stdin=nowhere,
            stdout=nowhere,
            stderr=nowhere,
            start_new_session=True,
        )
        _newest.append(process)
        if in_training:
            threading.Thread(target=process.wait, name="tfwatch-pruning", daemon=True).start()


def reap_pruning() -> bool:
    """Forget the process that prunes if it has ended; return whether none runs."""
    _newest[:] = [process for process in _newest if process.poll() is None]
    return not _newest


def prune_words(runs_dir: Path, limits: Limits) -> list[str]:
    """Return the command that prunes a folder once."""
    words = ["runs", "prune", "--yes", "--runs-dir", str(runs_dir.absolute())]
    return words + limit_words(limits, count="--keep", age="--older-than", size="--max-size")


def limit_words(
    limits: Limits, count: str = "--keep-runs", age: str = "--keep-age", size: str = "--keep-size"
) -> list[str]:
    """Return limits as options of these names."""
    words = [] if limits.count is None else [count, str(limits.count)]
    words += [] if limits.age_s is None else [age, _age(limits.age_s)]
    words += [] if limits.size_bytes is None else [size, f"{limits.size_bytes / 2**30:.12g}"]
    return words


def _age(age_s: float) -> str:
    """Return an age in the largest unit without a rest, as `core.parsing.age` reads it."""
    name, unit_s = next((name, unit_s) for name, unit_s in _UNITS_S.items() if age_s % unit_s == 0)
    return f"{age_s / unit_s:.0f}{name}"

"""`tfwatch runs`: lists the recorded runs, and removes them."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from tfwatch.cli.named_runs import find, readable
from tfwatch.core import units
from tfwatch.core.clock import SYSTEM
from tfwatch.core.errors import BadInputError, printable
from tfwatch.judge.past_run import PastRun, past_entry
from tfwatch.runs.folder import RunFolder
from tfwatch.runs.format import NotARunError, is_own
from tfwatch.runs.library import FolderToRemove, list_runs, runs_of
from tfwatch.runs.liveness import Life
from tfwatch.runs.run import RECENT, open_run
from tfwatch.terminal.output import render, write

if TYPE_CHECKING:
    import argparse
    import os
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path


def list_past_runs(args: argparse.Namespace) -> int:
    """Print the runs, the newest first, and return the exit code.

    Raises:
        BadInputError: the folder cannot be read.
    """
    with readable(args.runs_dir):
        folders = list_runs(args.runs_dir)
    listed = [(one, run) for one in folders if (run := past_entry(one, one.name, SYSTEM))]
    if args.json:
        values = [_as_json(folder, run) for folder, run in listed]
        return write(sys.stdout, json.dumps({"runs": values}) + "\n")
    if listed:
        return write(sys.stdout, _table(listed))
    return write(sys.stdout, printable(f"no runs yet in {args.runs_dir}\n"))


def _as_json(folder: Path, run: PastRun) -> dict[str, object]:
    values = asdict(run)
    return {
        "run": values.pop("words"),
        "folder": str(folder),
        **values,
        "size_bytes": folder_bytes(folder),
    }


def _table(listed: Iterable[tuple[Path, PastRun]]) -> str:
    from rich.table import Table

    table = Table("run", "age", "state", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.columns[0].overflow = "fold"
    for name in ("steps", "step", "wait", "size"):
        table.add_column(name, justify="right")
    for folder, run in listed:
        ranks = f", {units.counted(run.ranks, 'rank')}" if run.ranks else ""
        table.add_row(
            printable(folder.name) + ranks,
            units.age(run.age_s),
            printable(run.state),
            units.count(run.steps),
            units.milliseconds(run.step_ms),
            units.percent(run.wait_share),
            units.memory(folder_bytes(folder)),
        )
    return render(sys.stdout, table)


# -- removing --------------------------------------------------------------------------------------


def remove_runs(args: argparse.Namespace) -> int:
    """Remove the runs that the user names, once they agree, and return the exit code.

    Raises:
        BadInputError: there is no such run, it still runs, or nobody can be asked.
    """
    folders = list(dict.fromkeys(find(one, args.runs_dir, only=True) for one in args.which))
    for folder in folders:
        if why := why_kept(folder):
            raise BadInputError(f"{folder.name} is not removed: {why}")
    return _remove(args, folders)


def prune_runs(args: argparse.Namespace) -> int:
    """Remove the runs beyond the limits, once the user agrees, and return the exit code.

    Raises:
        BadInputError: there is no limit, the folder cannot be read, or nobody can be asked.
    """
    size = None if args.max_size is None else args.max_size * 2**30
    limits = args.older_than, args.keep, size
    if limits == (None, None, None):
        raise BadInputError("give a limit: --older-than, --keep or --max-size")
    with readable(args.runs_dir):
        folders = list_runs(args.runs_dir)
    return _remove(args, list(beyond(folders, *limits)))


def _remove(args: argparse.Namespace, folders: Sequence[Path]) -> int:
    with readable(args.runs_dir):
        found = [FolderToRemove(folder) for folder in folders]
    size = units.memory(sum(map(folder_bytes, folders)))
    count = units.counted(len(folders), "run")
    if not folders:
        return write(sys.stdout, "no run to remove\n")
    listed = "".join(f"{printable(folder.name)}\n" for folder in folders)
    if not (args.yes or _ask(f"{listed}Remove {count}, {size}? [y/N] ")):
        return write(sys.stdout, "nothing is removed\n")
    failures = [why for folder in found if (why := _failure_of(folder))]
    if failures:
        others = len(failures) - 1
        more = f"; {units.counted(others, 'other run')} neither" if others else ""
        raise BadInputError(f"{failures[0]}{more}")
    return write(sys.stdout, f"removed {count}, {size}\n")


def _failure_of(folder: FolderToRemove) -> str:
    """Remove a run; return why it cannot be removed. One that another process removes meanwhile is
    gone as well."""
    try:
        folder.remove()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{folder.path} cannot be removed: {error.strerror or error}"
    return ""


def _ask(question: str) -> bool:
    for name, stream in (("stdin", sys.stdin), ("stdout", sys.stdout)):
        if not (stream and stream.isatty()):
            raise BadInputError(f"{name} is no terminal: add --yes")
    write(sys.stdout, question)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


# -- which runs may be removed ---------------------------------------------------------------------

#: The process of a run that looks killed may be alive in a container of this machine's name, which
#: no other process can look up. It writes its pulse ten times a second; a limit waits for a disk
#: that hangs.
_SILENT_S, _LIMIT_SILENT_S = 5.0, 3600.0


def why_kept(folder: Path, *, by_limit: bool = False) -> str:
    """Return why a run must not be removed; empty where it may be.

    by_limit: nobody names it, so it is kept where its state is unknown.
    """
    if folder.is_symlink():
        return "it is a link"
    try:
        if not is_own(folder):
            return "it belongs to another user"
        lives = {open_run(run, SYSTEM, RECENT).life for run in runs_of(folder)}
    except (NotARunError, OSError) as error:
        return f"nobody knows whether it still runs: {error}"
    silent_s = _LIMIT_SILENT_S if by_limit else _SILENT_S
    if Life.KILLED in lives and _written_s_ago(folder) < silent_s:
        return "it still runs, or did a moment ago"
    over = {Life.ENDED, Life.KILLED} | (set() if by_limit else {Life.UNKNOWN})
    return "" if lives and lives <= over else "it still runs"


def _written_s_ago(folder: Path) -> float:
    found = filter(None, map(_lstat, folder.rglob("*")))
    return SYSTEM.wall_ns() / 1e9 - max((one.st_mtime for one in found), default=0.0)


def beyond(
    folders: Iterable[Path], age_s: float | None, count: int | None, size_bytes: float | None
) -> Iterator[Path]:
    """Yield the runs beyond a limit that are over and readable, of runs from the newest to the
    oldest: those older than `age_s`, all but the newest `count`, all but the newest of `size_bytes`
    in all."""
    seen = sum_bytes = 0
    for folder in folders:
        if why_kept(folder, by_limit=True):
            continue
        seen += 1
        sum_bytes += folder_bytes(folder)
        values = (_age_s(folder), age_s), (seen, count), (sum_bytes, size_bytes)
        if any(limit is not None and value > limit for value, limit in values):
            yield folder


def _age_s(folder: Path) -> float:
    begun_ns = min(RunFolder(run).manifest().origin_wall_ns for run in runs_of(folder))
    return (SYSTEM.wall_ns() - begun_ns) / 1e9


def folder_bytes(folder: Path) -> int:
    """Return the size of a folder's files; of those that can be read."""
    return sum(status.st_size for path in folder.rglob("*") if (status := _lstat(path)))


def _lstat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:  # removed meanwhile
        return None

"""`tfwatch runs`: lists the recorded runs, and removes them."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from tfwatch.cli.named_runs import find, readable
from tfwatch.core import units
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import BadInputError, printable
from tfwatch.judge.past_run import PastRun, past_entry
from tfwatch.runs.library import list_runs
from tfwatch.runs.removal import (
    RunsToKeep,
    beyond,
    candidates,
    folder_bytes,
    remove,
    why_kept,
)
from tfwatch.terminal.output import render, write

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence
    from pathlib import Path


def list_past_runs(args: argparse.Namespace, clock: Clock = SYSTEM) -> int:
    """Print the runs, the newest first, and return the exit code.

    Raises:
        BadInputError: the folder cannot be read.
    """
    with readable(args.runs_dir):
        folders = list_runs(args.runs_dir)
    listed = [(one, run) for one in folders if (run := past_entry(one, one.name, clock))]
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


def remove_runs(args: argparse.Namespace, clock: Clock = SYSTEM) -> int:
    """Remove the runs that the user names, once they agree, and return the exit code.

    Raises:
        BadInputError: there is no such run, it still runs, or nobody can be asked.
    """
    folders = list(dict.fromkeys(find(one, args.runs_dir, only=True) for one in args.which))
    for folder in folders:
        if why := why_kept(folder, clock):
            raise BadInputError(f"{folder.name} is not removed: {why}")
    return _remove(args, folders)


def prune_runs(args: argparse.Namespace, clock: Clock = SYSTEM) -> int:
    """Remove the runs beyond the limits, once the user agrees, and return the exit code.

    Raises:
        BadInputError: there is no limit, the folder cannot be read, or nobody can be asked.
    """
    limits = RunsToKeep(args.older_than, args.keep, args.max_size)
    if limits == RunsToKeep():
        raise BadInputError("give a limit: --older-than, --keep or --max-size")
    with readable(args.runs_dir):
        folders = list_runs(args.runs_dir)
    return _remove(args, [one.folder for one in beyond(candidates(folders, clock), limits)])


def _remove(args: argparse.Namespace, folders: Sequence[Path]) -> int:
    size = units.memory(sum(map(folder_bytes, folders)))
    count = units.counted(len(folders), "run")
    if not folders:
        return write(sys.stdout, "no run to remove\n")
    listed = "".join(f"{printable(folder.name)}\n" for folder in folders)
    if not (args.yes or _ask(f"{listed}Remove {count}, {size}? [y/N] ")):
        return write(sys.stdout, "nothing is removed\n")
    failures = [error for folder in folders if (error := _failure_of(folder))]
    if failures:
        first, others = failures[0], len(failures) - 1
        more = f"; {units.counted(others, 'other run')} neither" if others else ""
        raise BadInputError(
            f"{first.filename or 'a run'} cannot be removed: {first.strerror or first}{more}"
        )
    return write(sys.stdout, f"removed {count}, {size}\n")


def _failure_of(folder: Path) -> OSError | None:
    """Remove a run; return why it cannot be removed. One that another process removes meanwhile is
    gone as well."""
    try:
        remove(folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        return error
    return None


def _ask(question: str) -> bool:
    for name, stream in (("stdin", sys.stdin), ("stdout", sys.stdout)):
        if not (stream and stream.isatty()):
            raise BadInputError(f"{name} is no terminal: add --yes")
    write(sys.stdout, question)
    return sys.stdin.readline().strip().lower() in ("y", "yes")

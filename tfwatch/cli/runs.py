"""`tfwatch runs`: lists the recorded runs, and removes them."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from tfwatch.cli import options
from tfwatch.cli.named_runs import find, readable
from tfwatch.core import units
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import BadInputError, printable
from tfwatch.judge.past_run import PastRun, past_entry
from tfwatch.runs.library.finding import list_folders, list_runs
from tfwatch.runs.library.removal import (
    RunsToKeep,
    beyond,
    candidates,
    folder_bytes,
    remove,
    why_kept,
)
from tfwatch.terminal.output import render, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

_MOST = 1_000_000


def add_runs(commands: Any, text: str) -> None:
    """Add the command's parser. text: its help."""
    runs = options.add_command(commands, "runs", text, _run_list)
    runs.add_argument(
        "--filter", metavar="TEXT", default="", help="those with the text in name or state"
    )
    runs.add_argument("--last", metavar="N", type=options.whole(1, _MOST), help="the newest N")
    runs.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    options.add_runs_dir(runs)
    actions = runs.add_subparsers(title="actions", metavar="ACTION")
    _add_removals(actions)
    runs.commands = tuple(actions.choices)


def _action(actions: Any, name: str, text: str, run: Callable[[argparse.Namespace], int]) -> Any:
    action = options.add_command(actions, name, text, run)
    options.add_runs_dir(
        action, default=argparse.SUPPRESS
    )  # keeps DIR of `tfwatch runs --runs-dir DIR ACTION`
    return action


def _add_removals(actions: Any) -> None:
    remove = _action(actions, "remove", "remove runs with all their files", _run_remove)
    remove.add_argument("which", metavar="RUN", nargs="+", help=options.RUN)
    prune = _action(
        actions,
        "prune",
        "remove runs beyond a limit; never one that still runs",
        _run_prune,
    )
    prune.add_argument(
        "--older-than", metavar="AGE", type=options.typed(units.parse_age), help="as 12h, 30d, 8w"
    )
    prune.add_argument(
        "--keep", metavar="N", type=options.whole(0, _MOST), help="all but the newest N"
    )
    prune.add_argument(
        "--max-size",
        metavar="GB",
        type=options.typed(units.parse_gigabytes),
        help="all but the newest GB",
    )
    for action in (remove, prune):
        action.add_argument("--yes", action="store_true", help="do not ask")
        action.add_argument(
            "--dry-run", action="store_true", help="only list what would be removed"
        )


def _run_list(args: argparse.Namespace) -> int:
    return list_past_runs(Listing(options.runs_dir(args), args.filter, args.last, args.json))


def _run_remove(args: argparse.Namespace) -> int:
    return remove_runs(_removal(args), args.which)


def _run_prune(args: argparse.Namespace) -> int:
    limits = RunsToKeep(args.older_than, args.keep, args.max_size)
    if limits == RunsToKeep():
        raise BadInputError("give a limit: --older-than, --keep or --max-size")
    return prune_runs(_removal(args), limits)


def _removal(args: argparse.Namespace) -> Any:
    return Removal(options.runs_dir(args), args.yes, args.dry_run)


_COLUMNS: tuple[tuple[str, Literal["left", "right"]], ...] = (
    ("run", "left"),
    ("age", "left"),
    ("state", "left"),
    ("steps", "right"),
    ("step", "right"),
    ("wait", "right"),
    ("size", "right"),
)
#: The columns that a narrow terminal goes without, the first one first.
_LESS_NEEDED = ("size", "age", "steps", "step", "wait", "state")
#: Cells in which a name is folded at the narrowest.
_LEAST_NAME = 26


@dataclass(frozen=True, slots=True)
class Listing:
    """The options of the list. wanted: a part of the runs' name, workload or state. most: runs at
    most."""

    runs_dir: Path
    wanted: str = ""
    most: int | None = None
    as_json: bool = False


@dataclass(frozen=True, slots=True)
class Removal:
    """The options of a removal. is_agreed: do not ask. is_dry: only say what would be removed."""

    runs_dir: Path
    is_agreed: bool = False
    is_dry: bool = False


def list_past_runs(listing: Listing, clock: Clock = SYSTEM) -> int:
    """Print the runs, the newest first, and return the exit code.

    Raises:
        BadInputError: the folder cannot be read.
    """
    with readable(listing.runs_dir):
        folders = list_runs(listing.runs_dir)
    listed = list(_matching(folders, listing, clock))
    if listing.as_json:
        return write(
            sys.stdout,
            json.dumps({"runs": [_as_json(folder, run) for folder, run in listed]}) + "\n",
        )
    if not listed:
        none = (
            f"no run matches {listing.wanted!r}"
            if listing.wanted
            else f"no runs yet in {listing.runs_dir}"
        )
        return write(sys.stdout, printable(none) + "\n")
    return write(sys.stdout, _table(listed))


def _matching(
    folders: Sequence[Path], listing: Listing, clock: Clock
) -> Iterator[tuple[Path, PastRun]]:
    matching = (
        (folder, run) for folder in folders if (run := past_entry(folder, folder.name, clock))
    )
    wanted = listing.wanted.casefold()
    yield from islice((one for one in matching if wanted in _searched(*one)), listing.most)


def _searched(folder: Path, run: PastRun) -> str:
    return f"{folder.name} {run.workload} {run.state}".casefold()


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

    rows = [_row(folder, run) for folder, run in listed]
    shown = _columns_that_fit(rows, shutil.get_terminal_size().columns)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for name, justify in _COLUMNS:
        if name in shown:
            table.add_column(name, justify=justify, no_wrap=name != "run", overflow="fold")
    for row in rows:
        table.add_row(*(row[name] for name in shown))
    return render(sys.stdout, table)


def _row(folder: Path, run: PastRun) -> dict[str, str]:
    """Return the cells of a run, by the columns in their order."""
    figures = (
        units.milliseconds(run.step_ms),
        units.percent(run.wait_share),
        units.memory(folder_bytes(folder)),
    )
    cells = (
        _label(folder, run),
        units.age(run.age_s),
        printable(run.state),
        units.count(run.steps),
        *figures,
    )
    return {name: cell for (name, _), cell in zip(_COLUMNS, cells, strict=True)}


def _columns_that_fit(rows: Sequence[dict[str, str]], width: int) -> list[str]:
    """Return the columns for a terminal's width: the name of a run is the last to go."""
    shown = [name for name, _ in _COLUMNS]
    cells = {name: max(len(name), *(len(row[name]) for row in rows)) for name in shown}
    cells["run"] = min(cells["run"], _LEAST_NAME)
    for name in _LESS_NEEDED:
        if sum(cells[one] + 1 for one in shown) <= width + 1:
            break
        shown.remove(name)
    return shown


def _label(folder: Path, run: PastRun) -> str:
    ranks = f", {units.counted(run.ranks, 'rank')}" if run.ranks else ""
    return printable(folder.name) + ranks


# -- removing --------------------------------------------------------------------------------------
def remove_runs(removal: Removal, wanted: Sequence[str], clock: Clock = SYSTEM) -> int:
    """Remove the runs that the user names, once they agree, and return the exit code.

    Raises:
        BadInputError: there is no such run, it still runs, or nobody is there to agree.
    """
    folders = list(dict.fromkeys(find(one, removal.runs_dir) for one in wanted))
    for folder in folders:
        if why := why_kept(folder, clock):
            raise BadInputError(f"{folder.name} is not removed: {why}")
    return _remove(removal, folders)


def prune_runs(removal: Removal, limits: RunsToKeep, clock: Clock = SYSTEM) -> int:
    """Remove the runs beyond the limits, once the user agrees, and return the exit code.

    Raises:
        BadInputError: the folder cannot be read, or nobody is there to agree.
    """
    with readable(removal.runs_dir):
        folders = list_folders(removal.runs_dir)
    return _remove(removal, [one.folder for one in beyond(candidates(folders, clock), limits)])


def _remove(removal: Removal, folders: Sequence[Path]) -> int:
    size = units.memory(sum(map(folder_bytes, folders)))
    count = units.counted(len(folders), "run")
    if not folders:
        return write(sys.stdout, "no run to remove\n")
    listed = "".join(f"{printable(folder.name)}\n" for folder in folders)
    if removal.is_dry:
        return write(sys.stdout, f"{listed}{count}, {size}: would be removed\n")
    if not (removal.is_agreed or _ask(f"{listed}Remove {count}, {size}? [y/N] ")):
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
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadInputError("nobody is there to agree: add --yes")
    write(sys.stdout, question)
    return sys.stdin.readline().strip().lower() in ("y", "yes")

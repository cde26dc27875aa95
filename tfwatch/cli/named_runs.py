"""The runs that a user names: found, opened, and joined to sides of a comparison."""

from __future__ import annotations

import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.errors import BadInputError, printable
from tfwatch.runs.folder import RunFolder
from tfwatch.runs.format import NotARunError
from tfwatch.runs.library import (
    LATEST,
    find_run,
    list_runs,
    list_single_runs,
    of_workload,
    replay_argument,
    run_name,
    runs_named,
)
from tfwatch.runs.liveness import is_process_alive
from tfwatch.runs.machine_info import boot_id
from tfwatch.runs.requests import why_no_requests
from tfwatch.runs.run import RECENT, open_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tfwatch.judge.comparing.run_to_compare import RunToCompare
    from tfwatch.runs.snapshot import Snapshot

#: The most runs that a sentence names.
_LISTED = 10


def find(wanted: str | None, runs_dir: Path, *, only: bool = False) -> Path:
    """Return the folder of the run that a user names; of several that match, the newest, and say
    so.

    only: several are bad input.

    Raises:
        BadInputError: there is no such run, or the folder of the runs cannot be read.
    """
    with readable(runs_dir):
        folder = find_run(wanted, runs_dir)
        matching = _matching(wanted, folder, runs_dir)
    if len(matching) > 1:
        found = f"{len(matching)} runs match {wanted!r}"
        if only:
            more = f" and {len(matching) - _LISTED} more" if len(matching) > _LISTED else ""
            raise BadInputError(f"{found}: give one of {', '.join(matching[:_LISTED])}{more}")
        sys.stderr.write(f"tfwatch: {printable(found)}: {folder.name}, the newest, is taken\n")
    return folder


def _matching(wanted: str | None, folder: Path, runs_dir: Path) -> list[str]:
    """Return the names of the runs that have a part of a name, or are of a script or workload; none
    where it is a whole name, or a folder."""
    if not wanted or wanted in (LATEST, folder.name) or folder.parent != runs_dir:
        return []
    return [run.name for run in runs_named(wanted, runs_dir)]


def opened(folder: Path) -> Snapshot:
    """Return the run in a folder.

    Raises:
        BadInputError: it is not a run that this tfwatch reads.
    """
    with readable(folder):
        return open_run(folder)


@contextmanager
def readable(place: Path) -> Iterator[None]:
    """Raise a BadInputError for a run that is missing or cannot be read."""
    try:
        yield
    except (FileNotFoundError, NotARunError) as error:
        raise BadInputError(str(error)) from error
    except OSError as error:
        raise BadInputError(f"{place} cannot be read: {error.strerror or error}") from error


def find_side(words: str, runs_dir: Path) -> list[RunToCompare]:
    """Return the runs of one side: one run, or several separated by commas.

    Raises:
        BadInputError: there is no such run, or it cannot be read.
    """
    from tfwatch.judge.comparing.run_to_compare import RunToCompare
    from tfwatch.judge.judged_run import JudgedRun

    names = [word.strip() for word in words.split(",") if word.strip()]
    if not names:
        raise BadInputError(f"{words!r} names no run")
    folders = [_find_one(name, runs_dir) for name in names]
    return [RunToCompare(JudgedRun(opened(one)), run_name(one)) for one in folders]


def _find_one(name: str, runs_dir: Path) -> Path:
    """Return the newest run of a script or workload, else the only run with a part of a name."""
    with readable(runs_dir):
        newest = find_run(name, runs_dir)
        is_newest = newest in of_workload(name, list_runs(runs_dir))
    return newest if is_newest else find(name, runs_dir, only=True)


def last_two(name: str, runs_dir: Path) -> tuple[str, str]:
    """Return the last run but one, and the last, of those of a name (`runs_named`).

    Raises:
        BadInputError: there are no two.
    """
    with readable(runs_dir):
        runs = [*map(str, runs_named("" if name == LATEST else name, runs_dir))]
    if len(runs) < 2:
        found = units.counted(len(runs), "run")
        raise BadInputError(f"{found} of {name!r} in {runs_dir}: a comparison needs two")
    return runs[1], runs[0]


def find_training(wanted: str | None, runs_dir: Path) -> Path:
    """Return the folder of a training that takes requests: the one that a user names, as for
    `find_run`, or the newest.

    Raises:
        BadInputError: there is none; the message is a sentence for the user.
    """
    with readable(runs_dir):
        folder = find_run(wanted, runs_dir) if wanted else next(_running(runs_dir), None)
        if folder is None:
            raise BadInputError(
                f"no training runs on this machine now, among the runs in {runs_dir}: start one"
                " with tfwatch run or tfwatch train; tfwatch replay shows those that are over"
            )
        if why := _why_not_attached(folder):
            raise BadInputError(why)
    return folder


def _why_not_attached(folder: Path) -> str:
    """Return why a run takes no requests from here; empty where it does."""
    replay, manifest = f"tfwatch replay {replay_argument(folder)}", RunFolder(folder).manifest()
    if open_run(folder, newest=RECENT).life.is_over:
        return f"{folder.name} is over: {replay} shows it"
    if manifest.boot_id != boot_id():
        host = manifest.machine.get("host") or "another machine"
        return f"{folder.name} trains on {host}: attach there; {replay} follows it"
    why = why_no_requests(folder)
    return f"{folder.name}: {why}; {replay} follows it" if why else ""


def _running(runs_dir: Path) -> Iterator[Path]:
    """Yield the runs whose training goes on, the newest first."""
    for folder in list_single_runs(runs_dir):
        with suppress(NotARunError, OSError, ValueError):
            manifest = RunFolder(folder).manifest()
            is_here = manifest.boot_id == boot_id() and is_process_alive(manifest)
            if is_here and not open_run(folder, newest=RECENT).life.is_over:
                yield folder

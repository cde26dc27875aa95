"""The runs that a user names: found, opened, and joined to sides of a comparison."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import BadInputError
from tfwatch.runs.format import NotARunError
from tfwatch.runs.library.finding import find_run, list_runs, run_name
from tfwatch.runs.reading.folder import RunFolder
from tfwatch.runs.reading.opened import open_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tfwatch.judge.comparing.comparability import Subject
    from tfwatch.judge.comparing.measured_runs import RunToCompare
    from tfwatch.runs.reading.opened import Run


def find(wanted: str | None, runs_dir: Path) -> Path:
    """Return the folder of the run that a user names.

    Raises:
        BadInputError: there is no such run, or the folder of the runs cannot be read.
    """
    with readable(runs_dir):
        return find_run(wanted, runs_dir)


def opened(folder: Path, clock: Clock) -> Run:
    """Return the run in a folder.

    Raises:
        BadInputError: it is not a run that this tfwatch reads.
    """
    with readable(folder):
        return open_run(folder, clock)


@contextmanager
def readable(place: Path) -> Iterator[None]:
    """Raise a BadInputError for a run that is missing or cannot be read."""
    try:
        yield
    except (FileNotFoundError, NotARunError) as error:
        raise BadInputError(str(error)) from error
    except OSError as error:
        raise BadInputError(f"{place} cannot be read: {error.strerror or error}") from error


#: Past runs that are read for the spread between runs, and those among which they are looked for.
_MOST_PAST, _MOST_LOOKED_AT = 10, 200


def find_side(words: str, runs_dir: Path, clock: Clock = SYSTEM) -> list[RunToCompare]:
    """Return the runs of one side: one run, or several separated by commas.

    Raises:
        BadInputError: there is no such run, or it cannot be read.
    """
    try:
        return [open_named(words, runs_dir, clock)]
    except BadInputError:
        if "," not in words:
            raise
    names = [word.strip() for word in words.split(",") if word.strip()]
    if not names:
        raise BadInputError(f"{words!r} names no run")
    return [open_named(name, runs_dir, clock) for name in names]


def open_named(wanted: str | None, runs_dir: Path, clock: Clock = SYSTEM) -> RunToCompare:
    """Open a run by its folder, its name or a part of it, or `latest`.

    Raises:
        BadInputError: there is no such run, or it cannot be read.
    """
    from tfwatch.judge.comparing.measured_runs import RunToCompare
    from tfwatch.judge.judged_run import JudgedRun

    folder = find(wanted, runs_dir)
    return RunToCompare(JudgedRun(opened(folder, clock)), run_name(folder))


def find_past(subject: Subject, runs_dir: Path, clock: Clock = SYSTEM) -> Sequence[RunToCompare]:
    """Return the newest runs that equal a run in settings, versions and machine, the oldest first."""
    from tfwatch.judge.comparing.compared_runs import equal_runs, may_equal
    from tfwatch.judge.comparing.measured_runs import RunToCompare
    from tfwatch.judge.judged_run import JudgedRun

    runs = []
    try:
        folders = list_runs(runs_dir)
    except OSError:
        return []
    for folder in islice(folders, _MOST_LOOKED_AT):
        try:
            manifest = RunFolder(folder).manifest()
            if not may_equal(manifest, subject):
                continue
            run = JudgedRun(open_run(folder, clock))
            runs += equal_runs([RunToCompare(run, folder.name)], subject)
        except (NotARunError, OSError):
            continue
        if len(runs) == _MOST_PAST:
            break
    return runs[::-1]

"""The run folders on this machine: their place, a test whether it can be written, finding a run in
it, and removing one."""

from __future__ import annotations

import errno
import os
import re
import shlex
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tfwatch.core.clock import Clock, stamp_of
from tfwatch.runs.folder import RunFolder
from tfwatch.runs.format import (
    FOLDER_MODE,
    GROUP_FILE,
    MANIFEST,
    NotARunError,
    is_own,
    make_folder,
    opened_folder,
    write_atomically,
)
from tfwatch.runs.group import WINDOW_S, is_group, rank_folders, read_group_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


#: What `make_run_dir` puts after a taken name.
_NUMBER = re.compile(r"-\d{1,3}$")
#: A user's word for the newest run.
LATEST = "latest"


def default_runs_dir() -> Path:
    """Return `$TFWATCH_RUNS_DIR`, else `$XDG_STATE_HOME/tfwatch/runs`.

    On macOS `~/Library/Application Support/tfwatch/runs`.

    Raises:
        RuntimeError: the user has no home.
    """
    if named := os.environ.get("TFWATCH_RUNS_DIR"):
        return Path(os.path.expanduser(named))
    import platformdirs  # the environment of a script that tfwatch runs may lack it

    return Path(platformdirs.user_state_dir("tfwatch", appauthor=False)) / "runs"


def is_default(runs_dir: Path) -> bool:
    """Return whether commands look for runs in a folder where none is named."""
    with suppress(RuntimeError):
        return default_runs_dir() == runs_dir
    return False


def home_folder() -> Path:
    """Return the user's home; `~` itself where they have none."""
    return Path(os.path.expanduser("~"))


def short_path(path: Path) -> str:
    """Return the path with the user's home as `~`."""
    home = home_folder()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def make_run_dir(runs_dir: Path, workload: str, clock: Clock) -> Path:
    """Create a new folder `2026-11-20T10-17-03_cnn`, with a suffix where the name is taken.

    Raises:
        OSError: the runs folder cannot be written.
    """
    make_folder(runs_dir)
    name = f"{clock.stamp()}_{workload}"
    for suffix in ("", *(f"-{n}" for n in range(2, 1000))):
        path = runs_dir / (name + suffix)
        try:
            path.mkdir(FOLDER_MODE)
        except FileExistsError:
            continue
        return path
    raise FileExistsError(f"{runs_dir / name} and 999 more are taken")


def list_runs(runs_dir: Path) -> list[Path]:
    """Return the runs and groups of a folder, the newest first; none where the folder does not
    exist. A name that begins with a dash, which commands read as an option, is none of tfwatch's.

    Raises:
        OSError: the folder cannot be read.
    """
    try:
        folders = list(runs_dir.iterdir())
    except FileNotFoundError:
        return []
    entries = [one for one in folders if not one.name.startswith("-") and _is_entry(one)]
    return sorted(entries, key=_sort_key, reverse=True)


def run_name(run: Path, is_rank: bool | None = None) -> str:
    """Return the name by which `find_run` finds a run: its folder's, with the group's in front of a
    rank's.

    is_rank: whether it is that of a rank; None asks the disk.
    """
    path = run.absolute()
    is_rank = is_group(path.parent) if is_rank is None else is_rank
    return f"{path.parent.name}/{path.name}" if is_rank else path.name


def list_single_runs(runs_dir: Path) -> list[Path]:
    """Return the runs, with those of a group's ranks in its place; the newest first.

    Raises:
        OSError: the folder cannot be read.
    """
    return [run for entry in list_runs(runs_dir) for run in runs_of(entry)]


def runs_of(entry: Path) -> list[Path]:
    """Return the runs of a group's ranks, the newest of each process and the first rank first; or
    the run itself.

    Raises:
        OSError: the folder cannot be read.
    """
    if not is_group(entry):
        return [entry]
    folders = sorted(rank_folders(entry), key=lambda one: (-one.round, one.rank))
    return [one.folder for one in folders]


def _is_entry(folder: Path) -> bool:
    return _is_run(folder) or is_group(folder)


def _is_run(folder: Path) -> bool:
    """Return whether the folder contains a manifest; an unreadable folder does not."""
    with suppress(OSError, ValueError):
        return (folder / MANIFEST).is_file()
    return False


def _sort_key(run: Path) -> list[tuple[int, str]]:
    """Return a key that sorts names by their numbers: `_cnn-11` is newer than `_cnn-9`."""
    return [
        (int(number or 0), text) for text, number in re.findall(r"(\D*)(\d*)", _dated_name(run))
    ]


def _dated_name(entry: Path) -> str:
    """Return the name of an entry with its date in front: the folder of a group has none."""
    with suppress(NotARunError):
        if is_group(entry):
            return f"{stamp_of(read_group_file(entry).began_wall_ns)}_{entry.name}"
    return entry.name


def find_run(wanted: str | None, runs_dir: Path) -> Path:
    """Return the run that a user names; None, and `latest`, are the newest one.

    A user names it by its folder, its name, the name of its script or workload, or a part of its
    name (the newest match). The run of a rank is GROUP/RANK, and GROUP may be a part of the group's
    name; a group itself is found as a run is.

    Raises:
        FileNotFoundError: there is no such run; the message is a sentence for the user.
        OSError: the runs' folder cannot be read.
    """
    if wanted and _is_entry(folder := Path(os.path.expanduser(wanted))):
        return folder
    if wanted and os.sep in wanted and _is_run(runs_dir / wanted):
        return runs_dir / wanted
    if wanted and (rank := _find_rank(wanted, runs_dir)):
        return rank
    wanted = None if wanted == LATEST else wanted
    runs = [] if wanted == "" else runs_named(wanted, runs_dir)
    if not runs:
        raise FileNotFoundError(_not_found(wanted, runs_dir))
    return runs[0]


def runs_named(wanted: str | None, runs_dir: Path) -> list[Path]:
    """Return the runs that have a name, the newest first: the one with this whole name, else those
    of the script or workload of this name, else those with it as a part; all without a name.

    Raises:
        OSError: the runs' folder cannot be read.
    """
    runs = list_runs(runs_dir)
    if not wanted:
        return runs
    whole = [run for run in runs if run.name == wanted]
    return whole or of_workload(wanted, runs) or [run for run in runs if wanted in run.name]


def of_workload(wanted: str, runs: Sequence[Path]) -> list[Path]:
    """Return those runs that are of the script or workload of this name."""
    names = {run.name for run in runs if run.name.partition("_")[2] == wanted}
    return [run for run in runs if {run.name, _NUMBER.sub("", run.name)} & names]


def _find_rank(wanted: str, runs_dir: Path) -> Path | None:
    """Return the run of a rank whose group is named by a part of its name, as `night/rank-1`; None
    where none is."""
    part, slash, rank = wanted.rpartition(os.sep)
    groups = list_runs(runs_dir) if slash and part else []
    ranks = (group / rank for group in groups if part in group.name and is_group(group))
    return next(filter(_is_run, ranks), None)


def _not_found(wanted: str | None, runs_dir: Path) -> str:
    """Return a sentence about the missing run."""
    if wanted is None:
        return f"no runs yet in {runs_dir}"
    if os.sep in wanted and os.path.isdir(os.path.expanduser(wanted)):
        return f"{wanted} is not a run: it has no file {MANIFEST}"
    return f"no run {wanted!r} in {runs_dir}: tfwatch runs lists them"


def replay_argument(run: Path, is_rank: bool | None = None) -> str:
    """Return the argument of `tfwatch replay` for a run: its name, or its path outside the default
    folder.

    is_rank: as of `run_name`.
    """
    path = run.absolute()
    name = run_name(path, is_rank)
    if is_default(path.parents[name.count("/")]):
        return name
    short = short_path(path)
    below_home = short.removeprefix("~/")
    return f"~/{shlex.quote(below_home)}" if below_home != short else shlex.quote(short)


def runs_since(runs_dir: Path, pid: int, began_ns: int) -> Iterator[Path]:
    """Yield the runs that a process of this user has recorded since a moment, nanoseconds since
    1970, the newest first.

    Raises:
        OSError: the folder cannot be read.
    """
    for folder in list_single_runs(runs_dir):  # another rank of its group may have begun before it
        with suppress(NotARunError, OSError):
            manifest = RunFolder(folder).manifest()
            if manifest.origin_wall_ns < began_ns - WINDOW_S * 1e9:
                return
            began = manifest.origin_wall_ns >= began_ns
            if began and manifest.pid == pid and is_own(folder):
                yield folder


NAME = "copied.py"


def save_copy(folder: Path | None, text: str, name: str = NAME) -> Path | None:
    """Save text as a file, for terminals without a clipboard; return its path, None where it cannot
    be written.

    The file is in the run's folder where that is the user's own, else next to all runs.
    """
    with suppress(OSError):
        if folder and is_own(folder):
            write_atomically(folder / name, text + "\n")
            return folder / name
    with suppress(OSError, RuntimeError):
        place = default_runs_dir().parent
        make_folder(place)
        write_atomically(place / name, text + "\n")
        return place / name
    return None


def find_problem(folder: Path) -> str:
    """Return the reason why no file can be written in the folder, or where it would be created;
    empty where one can."""
    try:
        with tempfile.TemporaryFile(dir=nearest(folder), buffering=0) as file:
            file.write(bytes(4096))
            os.fsync(file.fileno())
    except OSError as error:
        return error.strerror or str(error)
    return ""


def nearest(folder: Path) -> Path:
    """Return the folder, or the nearest one above it that exists.

    Raises:
        NotADirectoryError: a file has the name of a folder on the way.
    """
    for path in (folder, *folder.parents):
        if path.is_dir():
            return path
        if os.path.lexists(path):
            raise NotADirectoryError(0, f"{path} is not a folder")
    return folder


# -- removal --------------------------------------------------------------------------------------

_LAST = (MANIFEST, GROUP_FILE)


class FolderToRemove:
    """The folder of a run or a group, as it is now; `path` is its place.

    A folder of runs may be shared, and a name there exchanged between a question and its answer:
    another folder of that name is not removed.

    Raises:
        OSError: there is none.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._status = path.lstat()

    def remove(self) -> None:
        """Remove the folder with everything in it, relative to its descriptor.

        The file that makes it a run goes last: a removal cut short can be repeated.

        Raises:
            OSError: a file cannot be removed, or another folder has taken its place.
        """
        with opened_folder(self.path.parent) as place:
            with opened_folder(self.path.name, place, os.O_NOFOLLOW) as folder:
                if not os.path.samestat(os.fstat(folder), self._status):
                    raise OSError(errno.ESTALE, "another folder has taken its place")
                _empty(folder)
            os.rmdir(self.path.name, dir_fd=place)


def _empty(folder: int) -> None:
    """Remove everything in a folder."""
    for name in sorted(os.listdir(folder), key=_LAST.__contains__):
        if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=folder)
            continue
        with opened_folder(name, folder, os.O_NOFOLLOW) as inner:
            _empty(inner)
        os.rmdir(name, dir_fd=folder)

"""A group of ranks: the place of a process in it, its folder, and the newest run of each rank.

The group's folder has a name that every rank works out by itself, from the launch. Making it is
exclusive: one rank makes it, the others find it there. A folder of an earlier launch has the rank
already, or ranks whose process is gone, or was made long before. Then the next number is taken.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from tfwatch.core.bounds import Count, StartTime, WallTime, encode_json
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import quoted
from tfwatch.runs.folder import RunFolder, read_file
from tfwatch.runs.format import (
    FOLDER_MODE,
    GROUP_FILE,
    MANIFEST,
    NotARunError,
    is_own,
    make_folder,
    write_atomically,
)
from tfwatch.runs.liveness import is_process_alive
from tfwatch.runs.machine_info import boot_id
from tfwatch.runs.run import open_run
from tfwatch.runs.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_LARGEST_BYTES = 2**14
#: The folder of a rank's first run, and of a later one of the same process.
_RANK_FOLDER = re.compile(r"rank-(\d{1,5})(?:-(\d{1,6}))?", re.ASCII)


class GroupFile(msgspec.Struct, frozen=True):
    """The contents of group.json, written by the rank that comes first."""

    name: str
    #: Whose variables hold rank and size.
    launcher: str
    #: The start of the process that made the folder, and when it made it, both since 1970.
    process_started_s: StartTime
    began_wall_ns: WallTime
    #: The number of ranks, None where it is not known.
    size: Count | None = None


@dataclass(frozen=True, slots=True, order=True)
class RankFolder:
    """A rank's run. round: the number of this run among those of its process, from 1."""

    round: int
    rank: int
    folder: Path


def write_group_file(folder: Path, group: GroupFile) -> None:
    """Write group.json.

    Raises:
        OSError: the folder cannot be written.
    """
    write_atomically(folder / GROUP_FILE, encode_json(group).decode() + "\n")


def read_group_file(folder: Path) -> GroupFile:
    """Read group.json.

    Raises:
        NotARunError: it is missing, or no group's.
    """
    try:
        text = read_file(folder / GROUP_FILE, 0, _LARGEST_BYTES)
        return msgspec.json.decode(text, type=GroupFile)
    except (ValueError, RecursionError) as error:
        raise NotARunError(f"{folder}: its {GROUP_FILE} cannot be read: {quoted(error)}") from error


def is_group(folder: Path) -> bool:
    """Return whether a folder is a group's; an unreadable one is not."""
    with suppress(OSError, ValueError):
        return (folder / GROUP_FILE).is_file()
    return False


def folder_of_rank(group: Path, rank: int, number: int = 1) -> Path:
    """Return the folder of a rank's run; number: of the run in its process, from 1."""
    return group / (f"rank-{rank}" if number == 1 else f"rank-{rank}-{number}")


def newest_round(folders: Sequence[RankFolder]) -> list[RankFolder]:
    """Return the ranks' newest runs, of those that are the same run of their processes."""
    newest = max((one.round for one in folders), default=0)
    return [one for one in folders if one.round == newest]


def rank_folders(group: Path) -> list[RankFolder]:
    """Return the runs of a group's ranks, by round and rank; those that have a manifest.

    Raises:
        OSError: the folder cannot be read.
    """
    folders = []
    for folder in group.iterdir():
        name = _RANK_FOLDER.fullmatch(folder.name)
        if name and (folder / MANIFEST).is_file():
            folders.append(RankFolder(int(name[2] or 1), int(name[1]), folder))
    return sorted(folders)


def without_group(folder: Path) -> Path:
    """Return the run of a group that has one rank and awaits no other; else the folder itself.

    Raises:
        NotARunError: its group.json cannot be read. OSError: the folder cannot be read.
    """
    ranks = newest_round(rank_folders(folder)) if is_group(folder) else []
    is_alone = len(ranks) == 1 and read_group_file(folder).size in (None, 1)
    return ranks[0].folder if is_alone else folder


@dataclass(frozen=True, slots=True)
class Group:
    """The newest run of each rank of a group, by rank. unreadable: why the run of a rank cannot be
    opened, by rank."""

    folder: Path
    file: GroupFile
    ranks: dict[int, Snapshot]
    unreadable: dict[int, str]

    @property
    def missing(self) -> list[int]:
        """The ranks that have no run; none where the size of the group is not known."""
        return [
            rank
            for rank in range(self.file.size or 0)
            if rank not in self.ranks and rank not in self.unreadable
        ]


#: The rows of each kind that are read of a rank: of 64 ranks of a million steps, all of them take a
#: gigabyte.
NEWEST_ROWS = 5_000


def open_group(folder: Path, clock: Clock = SYSTEM) -> Group:
    """Open a group folder, with the newest rows of each rank.

    Raises:
        NotARunError: its group.json cannot be read, or no rank has a run.
        OSError: the folder cannot be read.
    """
    file, folders = read_group_file(folder), newest_round(rank_folders(folder))
    opened = {one.rank: _open(one.folder, clock) for one in folders}
    ranks = {rank: run for rank, run in opened.items() if isinstance(run, Snapshot)}
    if not ranks:
        raise NotARunError(f"{folder}: no rank of the group has a run")
    unreadable = {rank: why for rank, why in opened.items() if isinstance(why, str)}
    return Group(folder, file, ranks, unreadable)


def _open(folder: Path, clock: Clock) -> Snapshot | str:
    try:
        return open_run(folder, clock, NEWEST_ROWS)
    except NotARunError as error:
        return str(error)


# -- the place of a process ------------------------------------------------------------------------

#: The variable of a user who names the group.
GROUP = "TFWATCH_GROUP"
#: The most ranks of a group.
MOST_RANKS = 65_536
_LOOPBACK = ("localhost", "127.", "[::1]", "::1", "0.0.0.0")
#: The roles of a `TF_CONFIG` that take part in the collective, in the order of their ranks.
_ROLES = ("chief", "master", "worker")
_LONGEST_NAME = 40


@dataclass(frozen=True, slots=True)
class Membership:
    """The place of a process in its group."""

    #: None where the first free one is taken.
    rank: int | None
    #: The number of ranks, None where it is not known.
    size: int | None
    #: Whose variables say so.
    launcher: str
    #: A text that is the same in all processes of a launch.
    launch: str
    #: Of the group.
    name: str


def find_membership(environ: Mapping[str, str], host: str) -> Membership | None:
    """Return the place of a process with this environment on this host; None where it trains alone.

    A process that trains alone under a launcher, and one without a part in the collective (a
    parameter server, an evaluator), is in no group. `TF_CONFIG` goes before a launcher. A group
    that the user names keeps the launcher's ranks.
    """
    found = _tf_config(environ, host) or next(_of_launchers(environ), None)
    if name := environ.get(GROUP, "").strip():
        place = (found.rank, found.size) if found else (None, None)
        return Membership(*place, GROUP, f"{GROUP}\n{name}", _folder_name(name))
    if found is None or found.size is None or found.size < 2:
        return None
    launch = (found.launcher, found.launch, environ.get("SLURM_JOB_ID", ""))
    return replace(found, launch="\n".join(launch))


def _tf_config(environ: Mapping[str, str], host: str) -> Membership | None:
    """Read TensorFlow's own variable: the chief has rank 0, the workers follow. Addresses that
    every machine has are this host's."""
    try:
        config = json.loads(environ.get("TF_CONFIG", ""))
        cluster, task = config["cluster"], config["task"]
        names = [str(one) for role in _ROLES for one in cluster.get(role, ())]
        index, role = _whole(str(task["index"])), task["type"]
        if "ps" in cluster or role not in _ROLES or index is None or index >= len(cluster[role]):
            return None
        rank = sum(len(cluster.get(one, ())) for one in _ROLES[: _ROLES.index(role)]) + index
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    local = [host] if any(name.startswith(_LOOPBACK) for name in names) else []
    return _place(rank, len(names), "TF_CONFIG", ",".join([*names, *local]), "tf_config")


def _of_launchers(environ: Mapping[str, str]) -> Iterator[Membership]:
    """Yield the places by the variables of Open MPI and SLURM.

    SLURM's are those of `srun`: in a batch script without it, one process trains, whatever the
    job's tasks are.
    """

    def of(*variables: str) -> str:
        return "\n".join(environ.get(one, "") for one in variables)

    mpi = of("OMPI_COMM_WORLD_RANK"), of("OMPI_COMM_WORLD_SIZE")
    launch = of("PMIX_NAMESPACE") or of("OMPI_MCA_ess_base_jobid")
    if place := _place(_whole(mpi[0]), _whole(mpi[1]), "Open MPI", launch, "mpi"):
        yield place
    job, step = of("SLURM_JOB_ID"), of("SLURM_STEP_ID")
    rank, size = _whole(of("SLURM_PROCID")), _whole(of("SLURM_STEP_NUM_TASKS"))
    launch = of("SLURM_CLUSTER_NAME", "SLURM_STEP_ID", "SLURM_RESTART_COUNT")
    if (place := _place(rank, size, "SLURM", launch, f"slurm-{job}.{step}")) and job and step:
        yield place


def _place(
    rank: int | None, size: int | None, launcher: str, launch: str, name: str
) -> Membership | None:
    if rank is None or size is None or not rank < size <= MOST_RANKS:
        return None
    return Membership(rank, size, launcher, launch, _folder_name(name))


def _whole(text: Any) -> int | None:
    """Return a whole number from 0; None for any other text."""
    is_whole = isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 10
    return int(text) if is_whole else None


def _folder_name(name: str) -> str:
    """Return a name as a folder's: it never begins with a dot."""
    safe = "".join(one if one.isalnum() or one in "-_." else "_" for one in name)
    return safe[:_LONGEST_NAME].lstrip(".-") or "group"


# -- the folder of a rank's next run ---------------------------------------------------------------

#: The processes of a launch start within this time.
WINDOW_S = 600.0
#: Groups of one launch's name, ranks, and runs of a rank.
_MOST = 100_000

#: The group that this process has joined and its rank, by its id and the folder of the runs: later
#: runs of the process go there.
_joined: dict[tuple[int, Path], tuple[Path, int]] = {}


def join(runs_dir: Path, membership: Membership, started_s: float, clock: Clock) -> RankFolder:
    """Create the folder of a rank's next run. started_s: the start of this process, since 1970.

    Raises:
        OSError: the runs folder cannot be written.
    """
    make_folder(runs_dir)
    key = os.getpid(), runs_dir.absolute()
    if key in _joined:
        group, rank = _joined[key]
        make_folder(group)
        return _first_free(
            RankFolder(number, rank, folder_of_rank(group, rank, number))
            for number in range(2, _MOST)
        )
    ranks = range(_MOST) if membership.rank is None else (membership.rank,)
    for group in _candidates(runs_dir, membership):
        made = False
        with suppress(FileExistsError):  # another rank made it
            group.mkdir(FOLDER_MODE)
            made = True
        if not (made or is_own(group)):  # others may put links in the place of its runs
            continue
        if not is_group(group):
            name, launcher, size = membership.name, membership.launcher, membership.size
            write_group_file(group, GroupFile(name, launcher, started_s, clock.wall_ns(), size))
        if made or _is_same_launch(group, started_s):
            with suppress(FileExistsError):
                joined = _first_free(
                    RankFolder(1, one, folder_of_rank(group, one)) for one in ranks
                )
                _joined[key] = group, joined.rank
                return joined
    raise FileExistsError(f"all groups of {membership.name} in {runs_dir} are taken")


def _first_free(folders: Iterator[RankFolder]) -> RankFolder:
    """Create the first of these folders that nobody has."""
    for one in folders:
        with suppress(FileExistsError):
            one.folder.mkdir(FOLDER_MODE)
            return one
    raise FileExistsError("all are taken")


def _candidates(runs_dir: Path, membership: Membership) -> Iterator[Path]:
    """Yield the group folders of a launch's name that there are, the newest first, and then those
    to make."""
    launch = membership.launch.encode(errors="surrogatepass")  # a variable may hold any bytes
    stem = f"{membership.name}_{hashlib.sha256(launch).hexdigest()[:8]}"
    pattern = re.compile(re.escape(stem) + r"(?:-(\d{1,6}))?", re.ASCII)
    names = (pattern.fullmatch(folder.name) for folder in runs_dir.iterdir())
    numbers = sorted((int(one[1] or 1) for one in names if one), reverse=True)
    last = numbers[0] if numbers else 0
    for number in (*numbers, *range(last + 1, last + _MOST)):
        yield runs_dir / (stem if number == 1 else f"{stem}-{number}")


def _is_same_launch(group: Path, started_s: float) -> bool:
    """Return whether a process that started at a moment belongs to the launch of a group: it was
    made within `WINDOW_S`, and no rank of this machine is gone."""
    with suppress(NotARunError, OSError):
        is_near = abs(started_s - read_group_file(group).process_started_s) <= WINDOW_S
        return is_near and not any(_is_gone(one.folder) for one in rank_folders(group))
    return False


def _is_gone(folder: Path) -> bool:
    """Return whether the process of a rank ran on this machine, and is gone."""
    with suppress(NotARunError, OSError):
        manifest = RunFolder(folder).manifest()
        return manifest.boot_id == boot_id() and not is_process_alive(manifest)
    return False

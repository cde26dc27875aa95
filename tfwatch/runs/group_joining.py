"""Makes a rank's run folder below its group's: the ranks of one launch find the same folder by
themselves.

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

from tfwatch.runs.folder import RunFolder
from tfwatch.runs.format import FOLDER_MODE, NotARunError, make_folder
from tfwatch.runs.group import (
    GroupFile,
    folder_of_rank,
    is_group,
    rank_folders,
    read_group_file,
    write_group_file,
)
from tfwatch.runs.liveness import is_process_alive
from tfwatch.runs.machine_info import boot_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tfwatch.core.clock import Clock

#: Variables of a user whose launcher sets none: the group's name, and, where they are known, rank
#: and size.
GROUP, RANK, SIZE = "TFWATCH_GROUP", "TFWATCH_RANK", "TFWATCH_SIZE"
#: The most ranks of a group.
MOST_RANKS = 65_536
#: Numbers of a scheduler's job: they are the same in all processes of a launch.
_JOBS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID")
_LOOPBACK = ("localhost", "127.", "[::1]", "::1", "0.0.0.0")
#: The roles of a `TF_CONFIG` that take part in the collective, in the order of their ranks.
_ROLES = ("chief", "master", "worker")
_LONGEST_NAME = 40


@dataclass(frozen=True, slots=True)
class Membership:
    """The place of a process in its group.

    rank: None where the first free one is taken. size: the number of ranks, None where it is not
    known.
    launcher: whose variables say so. launch: a text that is the same in all processes of a launch.
    name: of the group.
    """

    rank: int | None
    size: int | None
    launcher: str
    launch: str
    name: str


def find_membership(environ: Mapping[str, str], host: str) -> Membership | None:
    """Return the place of a process with this environment on this host; None where it trains alone.

    A process that trains alone under a launcher, and one without a part in the collective (a
    parameter server, an evaluator), is in no group. A process may have the variables of several
    launchers: the one that starts the processes of the collective goes first.
    """
    found = _tf_config(environ, host) or next(_of_launchers(environ, host), None)
    if name := environ.get(GROUP, "").strip():
        return _named(name, environ, found)
    if found is None or found.size is None or found.size < 2:
        return None
    job = [environ[variable] for variable in _JOBS if environ.get(variable)]
    return replace(found, launch="\n".join([found.launcher, found.launch, *job]))


def _named(name: str, environ: Mapping[str, str], found: Membership | None) -> Membership:
    """Return the place in a group that the user names; a launcher's rank is kept.

    Of a rank and a size that contradict each other, as of ranks that count from 1, the rank is
    kept.
    """
    rank, size = _whole(environ.get(RANK)), _whole(environ.get(SIZE))
    if place := _place(rank, size, "", "", "") or found:
        rank, size = place.rank, place.size
    elif rank is not None or size not in range(1, MOST_RANKS + 1):
        size = None
    return Membership(rank, size, GROUP, f"{GROUP}\n{name}", _folder_name(name))


def _tf_config(environ: Mapping[str, str], host: str) -> Membership | None:
    """Read TensorFlow's own variable: the chief has rank 0, the workers follow."""
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
    return _place(rank, len(names), "TF_CONFIG", _addresses(names, host), "tf_config")


def _of_launchers(environ: Mapping[str, str], host: str) -> Iterator[Membership]:
    """Yield the places by the variables of launchers that number their processes.

    SLURM's are those of `srun`: in a batch script without it, one process trains, whatever the
    job's tasks are.
    """

    def of(variable: str) -> str:
        return environ.get(variable, "")

    job, step = of("SLURM_JOB_ID"), of("SLURM_STEP_ID")
    horovod = [_addresses([of("HOROVOD_GLOO_RENDEZVOUS_ADDR")], host)]
    horovod.append(of("HOROVOD_GLOO_RENDEZVOUS_PORT"))
    for rank, size, launcher, name, launch in (
        ("HOROVOD_RANK", "HOROVOD_SIZE", "Horovod", "horovod", "\n".join(horovod)),
        (
            "OMPI_COMM_WORLD_RANK",
            "OMPI_COMM_WORLD_SIZE",
            "Open MPI",
            "mpi",
            of("PMIX_NAMESPACE") or of("OMPI_MCA_ess_base_jobid"),
        ),
        (
            "SLURM_PROCID" if job and step else "",
            "SLURM_STEP_NUM_TASKS",
            "SLURM",
            f"slurm-{job}.{step}",
            "\n".join([of("SLURM_CLUSTER_NAME"), step, of("SLURM_RESTART_COUNT")]),
        ),
    ):
        place = _place(_whole(of(rank)), _whole(of(size)), launcher, launch, name)
        if place:
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


def _addresses(names: list[str], host: str) -> str:
    """Return addresses as a text; those that every machine has are this host's."""
    is_local = any(name.startswith(_LOOPBACK) for name in names)
    return ",".join([*names, host] if is_local else names)


def _folder_name(name: str) -> str:
    """Return a name as a folder's: it never begins with a dot."""
    safe = "".join(one if one.isalnum() or one in "-_." else "_" for one in name)
    return safe[:_LONGEST_NAME].lstrip(".-") or "group"


# -- the folder ------------------------------------------------------------------------------------

#: The processes of a launch start within this time.
WINDOW_S = 600.0
#: Groups of one launch's name, and ranks.
_MOST = 100_000


@dataclass(frozen=True, slots=True)
class Joined:
    """The folder of a rank's run. rank: its number, also where it was the first free one."""

    folder: Path
    rank: int


#: The group that this process has joined, by its id and the folder of the runs: later runs of the
#: process go there.
_joined: dict[tuple[int, Path], tuple[Path, int]] = {}


def join(runs_dir: Path, membership: Membership, started_s: float, clock: Clock) -> Joined:
    """Create the folder of a rank's next run. started_s: the start of this process, since 1970.

    Raises:
        OSError: the runs folder cannot be written.
    """
    make_folder(runs_dir)
    key = os.getpid(), runs_dir.absolute()
    if key in _joined:
        return _next_run(*_joined[key])
    for group in _candidates(runs_dir, _folder_stem(membership)):
        made = _make_group(group, membership, started_s, clock)
        if not made and not _is_same_launch(group, started_s):
            continue
        rank = _take_rank(group, membership.rank)
        if rank is not None:
            _joined[key] = group, rank
            return Joined(folder_of_rank(group, rank), rank)
    raise FileExistsError(f"{runs_dir / _folder_stem(membership)} and all after it are taken")


def _folder_stem(membership: Membership) -> str:
    launch = membership.launch.encode(errors="surrogatepass")  # a variable may hold any bytes
    return f"{membership.name}_{hashlib.sha256(launch).hexdigest()[:8]}"


def _candidates(runs_dir: Path, stem: str) -> Iterator[Path]:
    """Yield the group folders of a launch's name that there are, the newest first, and then those
    to make."""
    pattern = re.compile(re.escape(stem) + r"(?:-(\d{1,6}))?", re.ASCII)
    names = (pattern.fullmatch(folder.name) for folder in runs_dir.iterdir())
    numbers = sorted((int(one[1] or 1) for one in names if one), reverse=True)
    last = numbers[0] if numbers else 0
    for number in (*numbers, *range(last + 1, last + _MOST)):
        yield runs_dir / (stem if number == 1 else f"{stem}-{number}")


def _make_group(group: Path, membership: Membership, started_s: float, clock: Clock) -> bool:
    """Create the group's folder; return False where another rank did. Its file is written by
    whoever finds none."""
    made = True
    try:
        group.mkdir(FOLDER_MODE)
    except FileExistsError:
        made = False
    if not is_group(group):
        file = GroupFile(
            membership.name, membership.launcher, started_s, clock.wall_ns(), membership.size
        )
        write_group_file(group, file)
    return made


def _is_same_launch(group: Path, started_s: float) -> bool:
    """Return whether a process that started at a moment belongs to the launch of a group: it was
    made within `WINDOW_S`, and no rank of this machine is gone."""
    try:
        is_near = abs(started_s - read_group_file(group).process_started_s) <= WINDOW_S
        return is_near and not any(_is_gone(one.folder) for one in rank_folders(group))
    except (NotARunError, OSError):
        return False


def _is_gone(folder: Path) -> bool:
    """Return whether the process of a rank ran on this machine, and is gone."""
    with suppress(NotARunError, OSError):
        manifest = RunFolder(folder).manifest()
        return manifest.boot_id == boot_id() and not is_process_alive(manifest)
    return False


def _take_rank(group: Path, rank: int | None) -> int | None:
    """Create the folder of a rank, or of the first free one; return its number, None where it is
    taken."""
    for number in range(_MOST) if rank is None else (rank,):
        with suppress(FileExistsError):
            folder_of_rank(group, number).mkdir(FOLDER_MODE)
            return number
    return None


def _next_run(group: Path, rank: int) -> Joined:
    """Create the folder of a later run of this process."""
    make_folder(group)
    for number in range(2, _MOST):
        folder = folder_of_rank(group, rank, number)
        with suppress(FileExistsError):
            folder.mkdir(FOLDER_MODE)
            return Joined(folder, rank)
    raise FileExistsError(f"all runs of rank {rank} in {group} are taken")

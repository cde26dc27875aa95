"""Rank, size and launch of a process, as its launcher leaves them in the environment.

A function of a mapping: nothing is asked of the system, and no process talks to another.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Variables of a user whose launcher sets none: the group's name, and, where they are known, rank and size.
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

    rank: None where the first free one is taken. size: the number of ranks, None where it is not known.
    launcher: whose variables say so. launch: a text that is the same in all processes of a launch. name: of the group.
    """

    rank: int | None
    size: int | None
    launcher: str
    launch: str
    name: str


def find_membership(environ: Mapping[str, str], host: str) -> Membership | None:
    """Return the place of a process with this environment on this host; None where it trains alone.

    A process that trains alone under a launcher, and one without a part in the collective (a parameter server, an
    evaluator), is in no group.
    """
    membership = next((one for read in _LAUNCHERS if (one := read(environ, host))), None)
    if name := environ.get(GROUP, "").strip():
        return _named(name, environ, membership)
    if membership is None or membership.size is None or membership.size < 2:
        return None
    job = [environ[variable] for variable in _JOBS if environ.get(variable)]
    return replace(membership, launch="\n".join([membership.launcher, membership.launch, *job]))


def _named(name: str, environ: Mapping[str, str], membership: Membership | None) -> Membership:
    """Return the place in a group that the user names; a launcher's rank is kept.

    Of a rank and a size that contradict each other, as of ranks that count from 1, the rank is kept.
    """
    rank, size = _whole(environ.get(RANK)), _whole(environ.get(SIZE))
    place = _place(rank, size, "", "", "") or membership
    if place:
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
        index = _whole(str(task["index"]))
        if (
            "ps" in cluster
            or task["type"] not in _ROLES
            or index is None
            or index >= len(cluster[task["type"]])
        ):
            return None
        before = _ROLES[: _ROLES.index(task["type"])]
        rank = sum(len(cluster.get(role, ())) for role in before) + index
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return _place(rank, len(names), "TF_CONFIG", _addresses(names, host), "tf_config")


def _horovod(environ: Mapping[str, str], host: str) -> Membership | None:
    address = environ.get("HOROVOD_GLOO_RENDEZVOUS_ADDR", "")
    launch = [_addresses([address], host), environ.get("HOROVOD_GLOO_RENDEZVOUS_PORT", "")]
    return _numbered(environ, "HOROVOD_RANK", "HOROVOD_SIZE", "Horovod", launch, "horovod")


def _torchrun(environ: Mapping[str, str], host: str) -> Membership | None:
    """Read torchrun's variables: RANK alone may be anybody's."""
    address = environ.get("MASTER_ADDR", "")
    if not address or "MASTER_PORT" not in environ:
        return None
    names = ("MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")
    launch = [_addresses([address], host), *(environ.get(name, "") for name in names)]
    return _numbered(environ, "RANK", "WORLD_SIZE", "torchrun", launch, "torchrun")


def _open_mpi(environ: Mapping[str, str], host: str) -> Membership | None:
    launch = [environ.get("PMIX_NAMESPACE") or environ.get("OMPI_MCA_ess_base_jobid", "")]
    return _numbered(
        environ, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "Open MPI", launch, "mpi"
    )


def _slurm(environ: Mapping[str, str], host: str) -> Membership | None:
    """Read the variables of `srun`: in a batch script without it, one process trains, whatever the job's tasks are."""
    job, step = environ.get("SLURM_JOB_ID", ""), environ.get("SLURM_STEP_ID", "")
    if not job or not step:
        return None
    launch = [environ.get("SLURM_CLUSTER_NAME", ""), step, environ.get("SLURM_RESTART_COUNT", "")]
    return _numbered(
        environ, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM", launch, f"slurm-{job}.{step}"
    )


#: A process may have the variables of several: the one that starts the processes of the collective goes first.
_LAUNCHERS = (_tf_config, _horovod, _torchrun, _open_mpi, _slurm)


def _numbered(
    environ: Mapping[str, str], rank: str, size: str, launcher: str, launch: list[str], name: str
) -> Membership | None:
    """Return the place that two variables hold; None where one is missing or no number."""
    return _place(
        _whole(environ.get(rank)), _whole(environ.get(size)), launcher, "\n".join(launch), name
    )


def _place(
    rank: int | None, size: int | None, launcher: str, launch: str, name: str
) -> Membership | None:
    if rank is None or size is None or not rank < size <= MOST_RANKS:
        return None
    return Membership(rank, size, launcher, launch, _folder_name(name))


def _whole(text: Any) -> int | None:
    """Return a whole number from 0; None for any other text."""
    return (
        int(text)
        if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 10
        else None
    )


def _addresses(names: list[str], host: str) -> str:
    """Return addresses as a text; those that every machine has are this host's."""
    is_local = any(name.startswith(_LOOPBACK) for name in names)
    return ",".join([*names, host] if is_local else names)


def _folder_name(name: str) -> str:
    """Return a name as a folder's: it never begins with a dot."""
    safe = "".join(one if one.isalnum() or one in "-_." else "_" for one in name)
    return safe[:_LONGEST_NAME].lstrip(".-") or "group"

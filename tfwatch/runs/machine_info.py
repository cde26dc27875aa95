"""The machine a run is on: its identity, its boot, and the limits of a container (cgroup v2).

Which machine and which boot of it this is.

What a container, or another control group of Linux, lets this process use of the machine (cgroup v2).
"""

from __future__ import annotations

import functools
import math
import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import psutil

from tfwatch.core.system_tool import run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@functools.cache
def boot_id() -> str:
    """A text that is the same for every process since this machine booted, and for no other boot."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return _boot_session() or f"{platform.node()}-{psutil.boot_time():.0f}"


def _boot_session() -> str:
    """macOS' own; a Mac's name changes with its network, and its boot time with its clock."""
    command = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]
    answer = run(command, timeout_s=2.0)
    return "" if answer.why_not else answer.out.strip()


def describe_machine() -> dict[str, Any]:
    """Host name, system, cores and memory, as run.json holds them.

    cores_allowed, memory_limit_bytes: what a container leaves of them to this process; None is all.
    """
    allowed = limits()
    return {
        "host": os.uname().nodename,
        "system": platform.platform(),
        "cores": psutil.cpu_count() or 0,
        "memory_bytes": psutil.virtual_memory().total,
        "cores_allowed": allowed.cores,
        "memory_limit_bytes": allowed.memory_bytes,
    }


def memory_total(machine: Mapping[str, Any]) -> float:
    """The memory, in bytes, that a run could have, given what `describe_machine` found; NaN where it is not known."""
    known = [machine.get(name) for name in ("memory_bytes", "memory_limit_bytes")]
    return float(min((value for value in known if isinstance(value, int) and value > 0), default=math.nan))


#: No counter of the kernel has more digits.
_COUNT = re.compile(r"\d{1,20}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Limits:
    """What this process may use; None is no limit of its own.

    memory_bytes: of the tightest group around it, which is the folder `group`. cores: how many at a time, from the
    groups' quotas (cpu.max) and the cores it is bound to.
    """

    memory_bytes: int | None = None
    group: Path | None = None
    cores: float | None = None

    def words(self, cores: int, memory_bytes: int) -> str:
        """`2 of 4 cores and 8.0 of 64.0 GB of memory`, given what the machine has; empty where it may use all."""
        parts = []
        if self.cores is not None:
            parts.append(f"{self.cores:g} of {cores} cores")
        if self.memory_bytes is not None:
            parts.append(f"{self.memory_bytes / 2**30:.1f} of {memory_bytes / 2**30:.1f} GB of memory")
        return " and ".join(parts)


def limits(root: Path = Path("/")) -> Limits:
    """Those of this process, as long as it stays in its group; none where the system knows no such groups.

    root: the file system's, for tests.
    """
    groups = list(_groups(root))
    memories = [(limit, group) for group in groups if (limit := parse_limit(_read(group / "memory.max"))) is not None]
    installed = psutil.virtual_memory().total
    limit, group = min(memories, default=(installed, None), key=lambda memory: memory[0])
    quotas = [quota for group in groups if (quota := parse_cpu_max(_read(group / "cpu.max"))) is not None]
    cores = min([*quotas, _bound_to()], default=float("inf"))
    return Limits(
        memory_bytes=limit if limit < installed else None,
        group=group if limit < installed else None,
        cores=cores if cores < (psutil.cpu_count() or 1) else None,
    )


def free_bytes() -> int:
    """What this process may still take without the system swapping: the machine's, or its control group's if less."""
    free = int(psutil.virtual_memory().available)
    allowed = limits()
    if allowed.memory_bytes is None or allowed.group is None:
        return free
    used = used_bytes(allowed.group)
    return free if used is None else min(free, max(allowed.memory_bytes - used, 0))


def used_bytes(group: Path) -> int | None:
    """What a group holds of its memory: less the file pages that were not used lately, which can be dropped at once.

    The working set, as Kubernetes counts it against a limit (memory.current - inactive_file).
    """
    held = parse_limit(_read(group / "memory.current"))
    dropped = parse_stat(_read(group / "memory.stat"), "inactive_file")
    return None if held is None else max(held - (dropped or 0), 0)


def parse_limit(text: str) -> int | None:
    """A number of bytes; None for `max` and for anything else."""
    found = _COUNT.fullmatch(text.strip())
    return int(found[0]) if found else None


def parse_cpu_max(text: str) -> float | None:
    """Cores, from `200000 100000` (microseconds of every so many); None for `max 100000` and for anything else."""
    quota, _, period = text.strip().partition(" ")
    if not _COUNT.fullmatch(quota) or not _COUNT.fullmatch(period) or not int(period) or not int(quota):
        return None
    return int(quota) / int(period)


def parse_stat(text: str, name: str) -> int | None:
    """One counter of a file of lines `NAME NUMBER`; None where it is not there."""
    for line in text.splitlines():
        key, _, value = line.strip().partition(" ")
        if key == name:
            return parse_limit(value)
    return None


def parse_groups(own: str, mounts: str) -> list[str]:
    """The folders of the groups that a process is in, its own first, up to the one that is mounted.

    own: /proc/self/cgroup; mounts: /proc/self/mountinfo. Empty where no cgroup v2 holds it.
    """
    paths = [line[3:] for line in own.splitlines() if line.startswith("0::/")]
    for fields in (line.split(" ") for line in mounts.splitlines()):
        if not paths or "-" not in fields[6:] or fields[fields.index("-", 6) + 1 :][:1] != ["cgroup2"]:
            continue
        mounted, point = PurePosixPath(fields[3]), PurePosixPath(fields[4])
        path = PurePosixPath(paths[0])
        inside = path.relative_to(mounted) if path.is_relative_to(mounted) else PurePosixPath()
        if ".." in inside.parts or not point.is_absolute():
            continue
        return [str(point / folder) for folder in (inside, *inside.parents)]
    return []


def _groups(root: Path) -> Iterator[Path]:
    for folder in parse_groups(_read(root / "proc/self/cgroup"), _read(root / "proc/self/mountinfo")):
        yield root / folder.lstrip("/")


def _bound_to() -> float:
    """How many cores this process is bound to; infinite where the system does not say."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else float("inf")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return ""

"""The machine of a run: its identity, its boot, and the limits of a container or control group
(cgroup v2)."""

from __future__ import annotations

import functools
import math
import os
import platform
import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import psutil

from tfwatch.core.system_tool import run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfwatch.runs.format import Machine


@functools.cache
def boot_id() -> str:
    """Return a text that identifies this boot of this machine, the same for every process."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        # A Mac's name changes with its network, and its boot time with its clock.
        session = run(["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"], timeout_s=2.0)
        known = "" if session.failure else session.out.strip()
        return known or f"{platform.node()}-{psutil.boot_time():.0f}"


def describe_machine() -> Machine:
    """Return host name, system, cores and memory, as in run.json.

    cores: those that this process is bound to, as by SLURM, `taskset` or `docker --cpuset-cpus`.
    cores_allowed, memory_limit_bytes: the limits of a container; None: no limit.
    """
    allowed = limits()
    return {
        "host": os.uname().nodename,
        "system": platform.platform(),
        "cores": len(bound_cores()),
        "memory_bytes": psutil.virtual_memory().total,
        "cores_allowed": allowed.cores,
        "cpu_types": cpu_types(),
        "memory_limit_bytes": allowed.memory_bytes,
        "gpus_hidden": hides_gpus(os.environ.get("CUDA_VISIBLE_DEVICES")),
    }


def hides_gpus(visible_devices: str | None) -> bool:
    """Return whether this value of CUDA_VISIBLE_DEVICES hides all GPUs; None: it is not set."""
    if visible_devices is None:
        return False
    return visible_devices.split(",")[0].strip() in ("", "-1", "none", "NoDevFiles")


#: The flags of Linux' /proc/cpuinfo for arithmetic in a type of 16 bits that TensorFlow uses, x86
#: and Arm. It does not use avx512_fp16: on a Xeon that has it a step with two separable
#: convolutions took 180 ms in float16, and 4.3 in float32.
_TYPES = {"float16": {"asimdhp"}, "bfloat16": {"avx512_bf16", "bf16"}}
#: It repeats them for each core, and has these lines before them.
_CPU_INFO, _FIRST_LINES = Path("/proc/cpuinfo"), 40


def cpu_types(file: Path = _CPU_INFO) -> list[str] | None:
    """Return the types of 16 bits that TensorFlow computes with instructions of the CPU; None where
    that is unknown."""
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            first = [line.partition(":") for line in islice(lines, _FIRST_LINES)]
    except OSError:
        return None
    flags = next((after for name, _, after in first if name.strip() in ("flags", "Features")), "")
    words = set(flags.split())
    return [name for name, known in _TYPES.items() if known & words] if words else None


def memory_total(machine: Machine) -> float:
    """Return the memory in bytes that a run can use; NaN where it is unknown."""
    known = machine.get("memory_bytes"), machine.get("memory_limit_bytes")
    return float(min((value for value in known if value), default=math.nan))


#: No counter of the kernel has more digits.
_COUNT = re.compile(r"\d{1,20}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """The limits of this process; None: no limit.

    memory_bytes: the smallest limit of its control groups; `group` is the folder of that one.
    cores: the minimum of the groups' quotas, where that is less than the cores.
    """

    memory_bytes: int | None = None
    group: Path | None = None
    cores: float | None = None


def limits(root: Path = Path("/")) -> ProcessLimits:
    """Return the limits of this process; none where the system has no control groups.

    root: of the file system, for tests.
    """
    groups = list(_groups(root))
    memories = [
        (limit, group)
        for group in groups
        if (limit := parse_limit(kernel_text(group / "memory.max"))) is not None
    ]
    installed = psutil.virtual_memory().total
    limit, group = min(memories, default=(installed, None), key=lambda memory: memory[0])
    quotas = [parse_cpu_max(kernel_text(group / "cpu.max")) for group in groups]
    cores = min((quota for quota in quotas if quota is not None), default=math.inf)
    return ProcessLimits(
        memory_bytes=limit if limit < installed else None,
        group=group if limit < installed else None,
        cores=cores if cores < len(bound_cores()) else None,
    )


def free_bytes() -> int:
    """Return the memory that this process can add without swapping: the machine's, or its group's
    if that is less."""
    free = int(psutil.virtual_memory().available)
    allowed = limits()
    if allowed.memory_bytes is None or allowed.group is None:
        return free
    used = used_bytes(allowed.group)
    return free if used is None else min(free, max(allowed.memory_bytes - used, 0))


def used_bytes(group: Path) -> int | None:
    """Return the memory that a group uses, without inactive file pages, which the kernel can drop.

    The working set that Kubernetes compares with a limit (memory.current - inactive_file).
    """
    used = parse_limit(kernel_text(group / "memory.current"))
    dropped = parse_stat(kernel_text(group / "memory.stat"), "inactive_file")
    return None if used is None else max(used - (dropped or 0), 0)


def parse_limit(text: str) -> int | None:
    """Return a number of bytes; None for `max` and any other text."""
    digits = _COUNT.fullmatch(text.strip())
    return int(digits[0]) if digits else None


def parse_cpu_max(text: str) -> float | None:
    """Return cores from `200000 100000` (microseconds per period); None for `max 100000` and any
    other text."""
    quota, _, period = text.strip().partition(" ")
    are_counts = _COUNT.fullmatch(quota) and _COUNT.fullmatch(period)
    return int(quota) / int(period) if are_counts and int(period) and int(quota) else None


def parse_stat(text: str, name: str) -> int | None:
    """Return one counter of a file of lines `NAME NUMBER`; None where it is missing."""
    for line in text.splitlines():
        key, _, value = line.strip().partition(" ")
        if key == name:
            return parse_limit(value)
    return None


def _groups(root: Path) -> Iterator[Path]:
    """Yield the folders of the groups of this process, its own first, up to the mounted one.

    A container may read the host's name of its group, below which it sees no files.
    """
    lines = kernel_text(root / "proc/self/cgroup").splitlines()
    path = next((line[4:].lstrip("/") for line in lines if line.startswith("0::/")), None)
    if path is None or ".." in path.split("/"):
        return
    own = PurePosixPath(path)
    for folder in (own, *own.parents):
        yield root / "sys/fs/cgroup" / folder


def bound_cores() -> list[int]:
    """Return the numbers of the cores that this process is bound to; all where it is unknown."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(psutil.cpu_count() or 1))


def kernel_text(path: Path) -> str:
    """Return the text of a file of the kernel's; empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return ""

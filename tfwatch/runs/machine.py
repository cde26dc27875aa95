"""Which machine and which boot of it this is."""

from __future__ import annotations

import functools
import math
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from tfwatch.core.tool import run
from tfwatch.runs.container import limits

if TYPE_CHECKING:
    from collections.abc import Mapping


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

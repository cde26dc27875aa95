"""Which machine and which boot of it this is."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import psutil


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
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=2, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def describe_machine() -> dict[str, Any]:
    """Host name, system, cores and memory, as run.json holds them."""
    return {
        "host": os.uname().nodename,
        "system": platform.platform(),
        "cores": psutil.cpu_count() or 0,
        "memory_bytes": psutil.virtual_memory().total,
    }

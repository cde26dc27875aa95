"""The facts of this machine that the check-up judges: a source that fails or hangs is one too."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from tfwatch.core.errors import reason
from tfwatch.core.system_tool import run
from tfwatch.doctor.packages import Installed
from tfwatch.doctor.trial import LIMIT_S, Trial, run_program
from tfwatch.runs.folder import DiskCall
from tfwatch.runs.library import find_problem, nearest, short_path
from tfwatch.runs.machine_info import free_bytes, kernel_text, limits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: A folder on a lost network answers after minutes, or never.
_PATIENCE_S = 10.0
_WHILE_TRAINING = "skipped while a training runs, which needs the cores: tfwatch doctor runs it"
_SYSCTL = ("/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string")
_SYSCTL_LIMIT_S = 2.0
_MODEL = re.compile(r"^model name\s*:\s*(.{1,200})$", re.MULTILINE)
_DRIVER = re.compile(r"Kernel Module(?: for \S{1,40})?\s{1,10}(\d{1,9}(?:\.\d{1,9}){1,3})")
#: PCI's vendor, and the class of displays: other devices of a card are for sound.
_NVIDIA, _DISPLAY = "0x10de", "0x03"
#: The load of other programs is measured for this time; from a quarter of a core on it can delay a
#: step.
_LOAD_S, _BUSY_CORES = 1.0, 0.25


@dataclass(frozen=True, slots=True)
class Nvidia:
    """NVIDIA's driver and card as the operating system reports them, independent of TensorFlow."""

    #: The kernel driver's version; empty without one.
    driver: str = ""
    #: There is a PCI device of NVIDIA's.
    has_card: bool = False
    #: The driver's device files exist.
    has_device_files: bool = False
    #: CUDA_VISIBLE_DEVICES; None where it is not set.
    hidden: str | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts of a machine."""

    #: The cores, and those that this process may run on.
    cores: int
    usable_cores: int
    #: The memory that a training can take; the memory of the machine, or of its container.
    free_bytes: float
    total_bytes: float
    #: The folder of the runs; the free space of its disk.
    runs_dir: str
    disk_free_bytes: float = 0.0
    #: The reason why the folder cannot be written, or does not answer; empty where it can.
    runs_problem: str = ""
    #: A container's limit on the processor's time, in cores; None without one.
    core_quota: float | None = None
    #: The cores that other programs keep busy; None beside a training of this process.
    busy_cores: float | None = None
    is_container: bool = False
    installed: Installed = field(default_factory=Installed)
    #: The processor's name.
    chip: str = ""
    trial: Trial = field(default_factory=lambda: Trial("skipped"))
    nvidia: Nvidia = field(default_factory=Nvidia)

    @property
    def machine(self) -> str:
        """Processor, memory and TensorFlow in one line."""
        memory = f"{self.total_bytes / 2**30:.0f} GB"
        return ", ".join(filter(None, (self.chip, memory, self.installed.stack)))

    @property
    def is_mac(self) -> bool:
        """True on macOS."""
        return self.installed.system == "darwin"

    @property
    def has_tensorflow(self) -> bool:
        """True where TensorFlow is installed."""
        return "tensorflow" in self.installed.versions


def collect_facts(
    runs_dir: Path, notify: Callable[[str], None], *, is_beside_training: bool = False
) -> Facts:
    """Collect the facts; `notify` gets the name of each part. Takes seconds and an import.

    is_beside_training: a training runs, so TensorFlow is not started.
    """
    notify("the machine")
    installed = Installed.here()
    cores, limit = psutil.cpu_count() or 1, limits()
    busy = None if is_beside_training else other_programs()
    problem, disk_free = _try_folder(runs_dir)
    return Facts(
        cores=cores,
        usable_cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores,
        free_bytes=free_bytes(),
        total_bytes=limit.memory_bytes or psutil.virtual_memory().total,
        runs_dir=short_path(runs_dir),
        disk_free_bytes=disk_free,
        runs_problem=problem,
        core_quota=limit.cores,
        busy_cores=busy,
        is_container=limit.memory_bytes is not None,
        installed=installed,
        chip=processor(installed.system),
        nvidia=nvidia(os.environ),
        trial=_trial(installed, notify, is_beside_training),
    )


def _trial(installed: Installed, notify: Callable[[str], None], is_beside_training: bool) -> Trial:
    if "tensorflow" not in installed.versions:
        return Trial("skipped")
    if is_beside_training:
        return Trial("skipped", log_text=_WHILE_TRAINING)
    notify("TensorFlow")
    return run_program("", LIMIT_S)


def _try_folder(folder: Path) -> tuple[str, float]:
    """Return why the runs folder cannot be written, empty where it can, and the free space of its
    disk; a folder that hangs in the kernel is abandoned."""
    call = DiskCall(lambda: (find_problem(folder), shutil.disk_usage(nearest(folder)).free))
    if not call.wait(_PATIENCE_S):
        return f"no answer within {_PATIENCE_S:g} s", 0.0
    try:
        return call.answer()
    except OSError as error:
        return reason(error), 0.0


# -- the processor and the GPU, without TensorFlow -------------------------------------------------


def processor(system: str, root: Path = Path("/")) -> str:
    """Return the processor's name; empty where it is not known."""
    if system == "darwin":
        return run(_SYSCTL, _SYSCTL_LIMIT_S).out.strip()
    found = _MODEL.search(kernel_text(root / "proc/cpuinfo"))
    return found[1].strip() if found else ""


def nvidia(environ: Mapping[str, str], root: Path = Path("/")) -> Nvidia:
    """Return NVIDIA's driver and card; WSL uses the driver of Windows."""
    is_windows = (root / "usr/lib/wsl/lib/libcuda.so.1").exists()
    driver = _DRIVER.search(kernel_text(root / "proc/driver/nvidia/version"))
    devices = (root / "sys/bus/pci/devices").glob("*")
    displays = (one for one in devices if kernel_text(one / "class").startswith(_DISPLAY))
    return Nvidia(
        driver=driver[1] if driver else "Windows' own" if is_windows else "",
        has_card=any(kernel_text(one / "vendor").strip() == _NVIDIA for one in displays),
        has_device_files=is_windows or any((root / "dev").glob("nvidia[0-9]*")),
        hidden=environ.get("CUDA_VISIBLE_DEVICES"),
    )


def other_programs(seconds: float = _LOAD_S) -> float:
    """Return the cores that other programs use, over these seconds, in which this process
    waits."""
    return float(psutil.cpu_percent(seconds)) / 100 * (psutil.cpu_count() or 1)


def describe_load() -> str:
    """Return a warning where other programs use enough of the machine to change a time; empty
    elsewhere."""
    used = other_programs()
    if used < _BUSY_CORES:
        return ""
    return f"other programs use {used:.1f} of {psutil.cpu_count()} cores: the times are theirs too"

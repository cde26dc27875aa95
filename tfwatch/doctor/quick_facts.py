"""Facts about this machine that take at most a second: its processor, its GPU, and the load of
other programs."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from tfwatch.core.system_tool import run
from tfwatch.doctor.packages import Installed
from tfwatch.runs.machine_info import kernel_text

if TYPE_CHECKING:
    from collections.abc import Mapping

_SYSCTL = (
    "/usr/sbin/sysctl",
    "-i",
    "sysctl.proc_translated",
    "hw.optional.arm64",
    "machdep.cpu.brand_string",
)
_SYSCTL_LIMIT_S = 2.0
_SETTING = re.compile(r"^([a-z][\w.]{1,80}):\s(.{0,4000})$", re.MULTILINE | re.ASCII)
_MODEL = re.compile(r"^model name\s*:\s*(.{1,200})$", re.MULTILINE)
_DRIVER = re.compile(r"Kernel Module(?: for \S{1,40})?\s{1,10}(\d{1,9}(?:\.\d{1,9}){1,3})")
_NVIDIA, _DISPLAY = "0x10de", "0x03"
#: The load of other programs is measured for this time; from a quarter of a core on it can delay a
#: step.
_LOAD_S, _BUSY_CORES = 1.0, 0.25
_WINDOWS = "Windows' own"


@dataclass(frozen=True, slots=True)
class Interpreter:
    """This Python and the processor that it runs on."""

    version: tuple[int, int, int] = (3, 11, 9)
    #: An Intel Python on an Apple chip, run by Rosetta 2; None off macOS and where it is unknown.
    is_rosetta: bool | None = None
    #: The processor's name.
    chip: str = ""


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

    @property
    def hides_all(self) -> bool:
        """True where CUDA_VISIBLE_DEVICES hides every GPU."""
        return self.hidden is not None and self.hidden.strip() in ("", "-1")


def interpreter(system: str, root: Path = Path("/")) -> Interpreter:
    """Return this Python and its processor."""
    is_rosetta = None
    if system == "darwin":
        is_rosetta, chip = parse_sysctl(run(_SYSCTL, _SYSCTL_LIMIT_S).out)
    else:
        chip = parse_cpuinfo(kernel_text(root / "proc/cpuinfo"))
    return Interpreter(sys.version_info[:3], is_rosetta, chip)


def parse_sysctl(text: str) -> tuple[bool | None, str]:
    """Return whether Rosetta 2 runs this process (None: not reported), and the chip's name."""
    settings = {name: value.strip() for name, value in _SETTING.findall(text) if name in _SYSCTL}
    translated = settings.get("sysctl.proc_translated")
    return (
        translated == "1" if translated in ("0", "1") else False if settings else None,
        settings.get("machdep.cpu.brand_string", ""),
    )


def parse_cpuinfo(text: str) -> str:
    """Return the first processor's name; empty without one."""
    found = _MODEL.search(text)
    return found[1].strip() if found else ""


def nvidia(environ: Mapping[str, str], root: Path = Path("/")) -> Nvidia:
    """Return NVIDIA's driver and card as the system reports them, independent of TensorFlow."""
    is_windows = (root / "dev/dxg").exists() and (root / "usr/lib/wsl/lib/libcuda.so.1").exists()
    driver = parse_driver(kernel_text(root / "proc/driver/nvidia/version"))
    return Nvidia(
        driver=driver or (_WINDOWS if is_windows else ""),
        has_card=any(map(_is_nvidia_display, (root / "sys/bus/pci/devices").glob("*"))),
        has_device_files=is_windows or any((root / "dev").glob("nvidia[0-9]*")),
        hidden=environ.get("CUDA_VISIBLE_DEVICES"),
    )


def parse_driver(text: str) -> str:
    """Return the version in /proc/driver/nvidia/version, e.g. `580.159.04`; empty without one."""
    found = _DRIVER.search(text)
    return found[1] if found else ""


def _is_nvidia_display(device: Path) -> bool:
    """Return True for an NVIDIA device of PCI class 0x03, a GPU; other devices are for sound."""
    is_display = kernel_text(device / "class").startswith(_DISPLAY)
    return is_display and kernel_text(device / "vendor").strip() == _NVIDIA


def describe_machine() -> str:
    """Return processor, memory and TensorFlow in one line."""
    installed = Installed.here()
    chip = interpreter(installed.system).chip
    memory = f"{psutil.virtual_memory().total / 2**30:.0f} GB"
    return ", ".join(filter(None, (chip, memory, installed.short_stack)))


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

"""What the operating system says of processor and GPUs: pure readers of its texts, and who hands them the texts."""

from __future__ import annotations

import re
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tfwatch.core.tool import run
from tfwatch.doctor.facts import Interpreter, Nvidia

if TYPE_CHECKING:
    from collections.abc import Mapping

_SYSCTL = (
    "/usr/sbin/sysctl",
    "-i",
    "sysctl.proc_translated",
    "hw.optional.arm64",
    "machdep.cpu.brand_string",
    "machdep.cpu.features",
    "machdep.cpu.leaf7_features",
)
_PATIENCE_S = 2.0
_SETTING = re.compile(r"^([a-z][\w.]{1,80}):\s(.{0,4000})$", re.MULTILINE | re.ASCII)
_DRIVER = re.compile(r"Kernel Module(?: for \S{1,40})?\s{1,10}(\d{1,9}(?:\.\d{1,9}){1,3})")
_NVIDIA, _DISPLAY = "0x10de", "0x03"
_WINDOWS = "Windows' own"


def interpreter(system: str, root: Path = Path("/")) -> Interpreter:
    """This Python and its processor."""
    if system == "darwin":
        translated, arm64, chip, instructions = parse_sysctl(run(_SYSCTL, _PATIENCE_S).out)
    else:
        translated = arm64 = None
        chip, instructions = parse_cpuinfo(_read(root / "proc/cpuinfo"))
    bits = 8 * struct.calcsize("P")
    return Interpreter(sys.version_info[:3], bits, translated, arm64, chip, instructions)


def parse_sysctl(text: str) -> tuple[bool | None, bool | None, str, frozenset[str] | None]:
    """Whether Rosetta 2 translates, whether it is an Apple chip, its name and, of an Intel one, its instructions."""
    settings = {name: value for name, value in _SETTING.findall(text) if name in _SYSCTL}
    listed = f"{settings.get('machdep.cpu.features', '')} {settings.get('machdep.cpu.leaf7_features', '')}".split()
    return (
        _switch(settings, "sysctl.proc_translated"),
        # An Intel Mac has no such setting at all.
        _switch(settings, "hw.optional.arm64") if "hw.optional.arm64" in settings else (False if settings else None),
        settings.get("machdep.cpu.brand_string", "").strip(),
        frozenset("avx" if name == "AVX1.0" else name.lower() for name in listed) or None,
    )


def parse_cpuinfo(text: str) -> tuple[str, frozenset[str] | None]:
    """The first processor's name, and its flags where there are any."""
    lines = (line.partition(":") for line in text.split("\n\n")[0].splitlines())
    fields = {name.strip(): value.strip() for name, _, value in lines}
    flags = frozenset(fields.get("flags", "").lower().split())
    return fields.get("model name", ""), flags or None


def nvidia(environ: Mapping[str, str], root: Path = Path("/")) -> Nvidia:
    """What there is of NVIDIA, whatever TensorFlow sees."""
    is_windows = (root / "dev/dxg").exists() and (root / "usr/lib/wsl/lib/libcuda.so.1").exists()
    return Nvidia(
        driver=parse_driver(_read(root / "proc/driver/nvidia/version")) or (_WINDOWS if is_windows else ""),
        card=any(map(_is_nvidia_display, (root / "sys/bus/pci/devices").glob("*"))),
        nodes=is_windows or any((root / "dev").glob("nvidia[0-9]*")),
        hidden=environ.get("CUDA_VISIBLE_DEVICES"),
    )


def parse_driver(text: str) -> str:
    """The version in /proc/driver/nvidia/version, `580.159.04`; empty where there is none."""
    found = _DRIVER.search(text)
    return found[1] if found else ""


def _is_nvidia_display(device: Path) -> bool:
    """Whether a PCI device is NVIDIA's and draws or computes: class 0x03; the others of a card make sound."""
    return _read(device / "vendor").strip() == _NVIDIA and _read(device / "class").startswith(_DISPLAY)


def _switch(settings: Mapping[str, str], name: str) -> bool | None:
    return {"0": False, "1": True}.get(settings.get(name, "").strip())


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return ""

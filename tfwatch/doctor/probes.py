"""Probes of the machine: processor and GPUs, the runs folder, the terminal, Keras' backend, the speed of the disk."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import struct
import sys
import tempfile
from dataclasses import replace
from pathlib import Path, PurePath
from typing import IO, TYPE_CHECKING

import psutil

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.system_tool import run
from tfwatch.doctor.facts import DiskSpeed, Interpreter, Nvidia, RunsFolder, Terminal
from tfwatch.runs.library.finding import find_problem, list_runs, nearest
from tfwatch.runs.machine_info import kernel_text
from tfwatch.sensors.cpu import CpuSensor
from tfwatch.sensors.protocol import Unavailable
from tfwatch.terminal.capture import has_colour, has_unicode
from tfwatch.terminal.guard import short_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


_SIZE_LIMIT_S = 0.5
_SYSCTL = (
    "/usr/sbin/sysctl",
    "-i",
    "sysctl.proc_translated",
    "hw.optional.arm64",
    "machdep.cpu.brand_string",
    "machdep.cpu.features",
    "machdep.cpu.leaf7_features",
)
_SYSCTL_LIMIT_S = 2.0
_SETTING = re.compile(r"^([a-z][\w.]{1,80}):\s(.{0,4000})$", re.MULTILINE | re.ASCII)
_DRIVER = re.compile(r"Kernel Module(?: for \S{1,40})?\s{1,10}(\d{1,9}(?:\.\d{1,9}){1,3})")
_NVIDIA, _DISPLAY = "0x10de", "0x03"
_WINDOWS = "Windows' own"
_READ_LIMIT_S = 1.0
_READ_LIMIT_BYTES = 256 * 2**20
#: Reading fewer bytes takes too little time to measure.
_LEAST_BYTES = 4 * 2**20
_TEMPORARY_BYTES = 64 * 2**20
#: The free space that a temporary file must leave.
_SPARE_BYTES = 2**30
_PIECE = 2**20
_READ = re.compile(r"^read_bytes: (\d{1,19})$", re.MULTILINE | re.ASCII)


def interpreter(system: str, root: Path = Path("/")) -> Interpreter:
    """Return this Python and its processor."""
    if system == "darwin":
        is_translated, is_arm64, chip, instructions = parse_sysctl(
            run(_SYSCTL, _SYSCTL_LIMIT_S).out
        )
    else:
        is_translated = is_arm64 = None
        chip, instructions = parse_cpuinfo(kernel_text(root / "proc/cpuinfo"))
    bits = 8 * struct.calcsize("P")
    return Interpreter(sys.version_info[:3], bits, is_translated, is_arm64, chip, instructions)


def parse_sysctl(text: str) -> tuple[bool | None, bool | None, str, frozenset[str] | None]:
    """Return is_translated, is_arm64, the chip's name and, of an Intel chip, its instructions; see `Interpreter`."""
    settings = {name: value for name, value in _SETTING.findall(text) if name in _SYSCTL}
    listed = f"{settings.get('machdep.cpu.features', '')} {settings.get('machdep.cpu.leaf7_features', '')}".split()
    return (
        _parse_switch(settings, "sysctl.proc_translated"),
        # An Intel Mac has no such setting at all.
        _parse_switch(settings, "hw.optional.arm64")
        if "hw.optional.arm64" in settings
        else (False if settings else None),
        settings.get("machdep.cpu.brand_string", "").strip(),
        frozenset("avx" if name == "AVX1.0" else name.lower() for name in listed) or None,
    )


def _parse_switch(settings: Mapping[str, str], name: str) -> bool | None:
    return {"0": False, "1": True}.get(settings.get(name, "").strip())


def parse_cpuinfo(text: str) -> tuple[str, frozenset[str] | None]:
    """Return the first processor's name and its flags; None without flags."""
    lines = (line.partition(":") for line in text.split("\n\n")[0].splitlines())
    fields = {name.strip(): value.strip() for name, _, value in lines}
    flags = frozenset(fields.get("flags", "").lower().split())
    return fields.get("model name", ""), flags or None


def nvidia(environ: Mapping[str, str], root: Path = Path("/")) -> Nvidia:
    """Return NVIDIA's driver and card as the system reports them, independent of TensorFlow."""
    is_windows = (root / "dev/dxg").exists() and (root / "usr/lib/wsl/lib/libcuda.so.1").exists()
    return Nvidia(
        driver=parse_driver(kernel_text(root / "proc/driver/nvidia/version"))
        or (_WINDOWS if is_windows else ""),
        has_card=any(map(_is_nvidia_display, (root / "sys/bus/pci/devices").glob("*"))),
        has_device_files=is_windows or any((root / "dev").glob("nvidia[0-9]*")),
        hidden=environ.get("CUDA_VISIBLE_DEVICES"),
    )


def parse_driver(text: str) -> str:
    """Return the version in /proc/driver/nvidia/version, e.g. `580.159.04`; empty without one."""
    found = _DRIVER.search(text)
    return found[1] if found else ""


def _is_nvidia_display(device: Path) -> bool:
    """Return True for an NVIDIA device of PCI class 0x03, a GPU; a card's other devices are for sound."""
    return kernel_text(device / "vendor").strip() == _NVIDIA and kernel_text(
        device / "class"
    ).startswith(_DISPLAY)


def terminal(environ: Mapping[str, str], needs: tuple[int, int]) -> Terminal | Unavailable:
    """Return the terminal of the first standard descriptor that has one."""
    for fd in (1, 2, 0):
        try:
            columns, rows = os.get_terminal_size(fd)
        except OSError:
            continue
        if columns > 0 and rows > 0:
            return Terminal(
                columns,
                rows,
                needs,
                count_colours(environ),
                has_unicode(environ),
                environ.get("TERM", ""),
            )
    return Unavailable("no standard descriptor is a terminal that reports its size", "")


def count_colours(environ: Mapping[str, str]) -> int:
    """Return the number of colours that Rich, which draws the screen, uses."""
    kind = environ.get("TERM", "")
    if not has_colour(environ) or kind in ("", "unknown"):
        return 0
    if environ.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit"):
        return 2**24
    return 256 if kind.endswith(("-256color", "-kitty")) else 16


def backend(environ: Mapping[str, str], home: Path) -> str:
    """Return Keras' backend: KERAS_BACKEND, else keras.json, else TensorFlow."""
    if named := environ.get("KERAS_BACKEND"):
        return named
    folder = environ.get("KERAS_HOME")
    try:
        path = os.path.join(folder or home / ".keras", "keras.json")
        with open(path, encoding="utf-8") as file:
            return str(dict(json.load(file)).get("backend") or "tensorflow")
    except (OSError, ValueError, TypeError):
        return "tensorflow"


def runs_folder(folder: Path, clock: Clock = SYSTEM) -> RunsFolder:
    """Return the state of the runs folder; a temporary file tests that it can be written."""
    is_there = folder.is_dir()
    size, is_partial = _size(folder, clock) if is_there else (0, False)
    return RunsFolder(
        path=short_path(folder),
        problem=find_problem(folder),
        is_there=is_there,
        runs=_count(folder),
        size_bytes=size,
        size_is_partial=is_partial,
        free_bytes=_free(folder),
    )


def describe_mount(folder: Path) -> str:
    """Return the mount of a folder, e.g. `/home (nfs4 from server:/home)`, without any call that the folder answers."""
    path = PurePath(os.path.abspath(folder))
    mounts = [
        mount for mount in psutil.disk_partitions(all=True) if path.is_relative_to(mount.mountpoint)
    ]
    # Of several at one point the last one is on top.
    mount = max(
        reversed(mounts), key=lambda mount: len(PurePath(mount.mountpoint).parts), default=None
    )
    return f"{mount.mountpoint} ({mount.fstype} from {mount.device})" if mount else str(path.parent)


def _count(folder: Path) -> int | None:
    try:
        return len(list_runs(folder))
    except OSError:
        return None


def _free(folder: Path) -> float | None:
    try:
        return shutil.disk_usage(nearest(folder)).free
    except OSError:
        return None


def _size(folder: Path, clock: Clock) -> tuple[int, bool]:
    """Return the bytes below a folder, and True where the time limit ended before all files were counted."""
    due_ns = clock.now_ns() + round(_SIZE_LIMIT_S * 1e9)
    size = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                size += os.lstat(os.path.join(where, name)).st_size
        if clock.now_ns() > due_ns:
            return size, True
    return size, False


def read_speed(folder: Path, clock: Clock = SYSTEM) -> DiskSpeed | Unavailable:
    """Read the files below a folder, in the order of listing; where they are too few, a temporary file.

    A slow read is repeated, and the faster one counts: another program may have used the disk.
    """
    found = _read_once(folder, clock)
    if isinstance(found, Unavailable) or not found.is_slow:
        return found
    again = _read_once(folder, clock)
    return again if isinstance(again, DiskSpeed) and again.bytes_s > found.bytes_s else found


def _read_once(folder: Path, clock: Clock) -> DiskSpeed | Unavailable:
    cores = CpuSensor()
    cores.read(clock.now_ns())
    found = _read_any(folder, clock)
    cores.read(clock.now_ns())
    if isinstance(found, Unavailable) or not cores.shares:
        return found
    return replace(found, cores_busy=sum(cores.shares) / len(cores.shares))


def _read_any(folder: Path, clock: Clock) -> DiskSpeed | Unavailable:
    try:
        files = list(_list_files(folder, clock.now_ns() + round(_READ_LIMIT_S * 0.5e9), clock))
        if sum(size for _, size in files) >= _LEAST_BYTES:
            return _read_files(folder, [path for path, _ in files], clock)
        return _read_temporary(_existing(folder), clock)
    except OSError as error:
        return Unavailable(
            f"no file could be read or written in {short_path(folder)}: {error.strerror or error}",
            "",
        )


def _list_files(folder: Path, due_ns: int, clock: Clock) -> Iterator[tuple[str, int]]:
    """Yield files and their sizes, as many as can be listed and read in time."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            if total >= _READ_LIMIT_BYTES or clock.now_ns() > due_ns:
                return
            path = os.path.join(where, name)
            with contextlib.suppress(OSError):
                if os.path.isfile(path):  # not a pipe or a device
                    size = os.path.getsize(path)
                    total += size
                    yield path, size


def _read_files(folder: Path, paths: Iterable[str], clock: Clock) -> DiskSpeed:
    for path in paths:
        with contextlib.suppress(OSError), open(path, "rb", buffering=0) as file:
            _drop_cache(file)
    before, begin_ns = _bytes_from_disk(), clock.now_ns()
    due_ns = begin_ns + round(_READ_LIMIT_S * 1e9)
    read = files = 0
    for path in paths:
        if clock.now_ns() > due_ns or read >= _READ_LIMIT_BYTES:
            break
        with contextlib.suppress(OSError), open(path, "rb", buffering=0) as file:
            _bypass_cache(file)
            files += 1
            for piece in _read_pieces(file, due_ns, clock):
                read += piece
                if read >= _READ_LIMIT_BYTES:
                    break
    took_s = (clock.now_ns() - begin_ns) / 1e9
    return DiskSpeed(short_path(folder), read, took_s, files, _share_from_disk(read, before))


def _read_temporary(folder: Path, clock: Clock) -> DiskSpeed | Unavailable:
    if shutil.disk_usage(folder).free < _TEMPORARY_BYTES + _SPARE_BYTES:
        return Unavailable(
            f"{short_path(folder)} has no data to read, and too little space for a temporary file",
            "free space",
        )
    due_ns = clock.now_ns() + round(_READ_LIMIT_S * 1e9)
    piece = os.urandom(_PIECE)
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        _bypass_cache(file)
        while file.tell() < _TEMPORARY_BYTES and clock.now_ns() < due_ns:
            file.write(piece)
        os.fsync(file.fileno())
        _drop_cache(file)
        file.seek(0)
        before, begin_ns = _bytes_from_disk(), clock.now_ns()
        read = sum(_read_pieces(file, begin_ns + round(_READ_LIMIT_S * 1e9), clock))
        took_s = (clock.now_ns() - begin_ns) / 1e9
    return DiskSpeed(short_path(folder), read, took_s, None, _share_from_disk(read, before))


def _read_pieces(file: IO[bytes], due_ns: int, clock: Clock) -> Iterator[int]:
    """Read in pieces; yield the length of each."""
    while (piece := file.read(_PIECE)) and clock.now_ns() < due_ns:
        yield len(piece)


def _drop_cache(file: IO[bytes]) -> None:
    """Drop a file from Linux' page cache."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _bypass_cache(file: IO[bytes]) -> None:
    """Make macOS bypass its cache; what the cache holds already is still read from memory."""
    if hasattr(fcntl, "F_NOCACHE"):
        fcntl.fcntl(file, fcntl.F_NOCACHE, 1)


def _bytes_from_disk() -> int | None:
    """Return the bytes that this thread has read from disks; None where the system does not count them."""
    try:
        with open("/proc/thread-self/io", encoding="ascii") as file:
            found = _READ.search(file.read())
    except OSError:
        return None
    return int(found[1]) if found else None


def _share_from_disk(read: int, before: int | None) -> float | None:
    after = _bytes_from_disk()
    return (
        None if before is None or after is None or not read else min((after - before) / read, 1.0)
    )


def _existing(folder: Path) -> Path:
    """Return the folder, or the nearest one above it that exists."""
    return next(path for path in (folder, *folder.parents) if path.is_dir())

"""Asks the machine: processor and GPUs, the runs folder, the terminal, the speed of the disk.

The folder of the runs and the terminal, as they are now.

What the operating system says of processor and GPUs: pure readers of its texts, and who hands them the texts.

How fast a folder's disk is read, in a second or so, and whether it was the disk at all.
"""

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
from pathlib import Path
from typing import IO, TYPE_CHECKING

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.system_tool import run
from tfwatch.doctor.facts import DiskSpeed, Interpreter, Nvidia, RunsFolder, Terminal
from tfwatch.runs.library import list_runs
from tfwatch.sensors.protocol import Unavailable
from tfwatch.terminal.capture import has_colour, has_unicode
from tfwatch.terminal.guard import short

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_SIZING_S = 0.5
_TRIED_BYTES = 2**12


def runs_folder(folder: Path, clock: Clock = SYSTEM) -> RunsFolder:
    """Whether it can be written, by writing a file and taking it away; what it holds; what is free."""
    is_there = folder.is_dir()
    size, is_partial = _size(folder, clock) if is_there else (0, False)
    return RunsFolder(
        path=short(folder),
        trouble=_trouble(folder),
        is_there=is_there,
        runs=_count(folder),
        size_bytes=size,
        size_is_partial=is_partial,
        free_bytes=_free(folder),
    )


def _trouble(folder: Path) -> str:
    """Why no file can be written there, or where it would be made. The file that tries it goes away at once."""
    try:
        with tempfile.TemporaryFile(dir=_nearest(folder), buffering=0) as file:
            file.write(b"\0" * _TRIED_BYTES)
            os.fsync(file.fileno())
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _nearest(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there.

    Raises:
        NotADirectoryError: a file stands in the way.
    """
    for path in (folder, *folder.parents):
        if path.is_dir():
            return path
        if os.path.lexists(path):
            raise NotADirectoryError(0, f"{short(path)} is no folder")
    return folder


def _count(folder: Path) -> int | None:
    try:
        return len(list_runs(folder))
    except OSError:
        return None


def _free(folder: Path) -> float | None:
    try:
        return shutil.disk_usage(_nearest(folder)).free
    except OSError:
        return None


def _size(folder: Path, clock: Clock) -> tuple[int, bool]:
    """Bytes below a folder, and whether time was over before all were counted."""
    due_ns = clock.now_ns() + round(_SIZING_S * 1e9)
    size = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                size += os.lstat(os.path.join(where, name)).st_size
        if clock.now_ns() > due_ns:
            return size, True
    return size, False


def terminal(environ: Mapping[str, str], needs: tuple[int, int]) -> Terminal | Unavailable:
    """The terminal of the first standard descriptor that is one."""
    for fd in (1, 2, 0):
        try:
            columns, rows = os.get_terminal_size(fd)
        except OSError:
            continue
        if columns > 0 and rows > 0:
            return Terminal(columns, rows, needs, colours(environ), has_unicode(environ), environ.get("TERM", ""))
    return Unavailable("no standard descriptor is a terminal, or it does not tell its size", "")


def colours(environ: Mapping[str, str]) -> int:
    """How many the screen will use: as Rich decides, which draws it."""
    kind = environ.get("TERM", "")
    if not has_colour(environ) or kind in ("", "unknown"):
        return 0
    if environ.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit"):
        return 2**24
    return 256 if kind.endswith(("-256color", "-kitty")) else 16


def backend(environ: Mapping[str, str], home: Path) -> str:
    """What Keras is set to compute with: KERAS_BACKEND, else keras.json, else TensorFlow."""
    if named := environ.get("KERAS_BACKEND"):
        return named
    folder = environ.get("KERAS_HOME")
    try:
        path = os.path.join(folder or home / ".keras", "keras.json")
        with open(path, encoding="utf-8") as file:
            return str(dict(json.load(file)).get("backend") or "tensorflow")
    except (OSError, ValueError, TypeError):
        return "tensorflow"


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


LIMIT_S = 1.0
_LIMIT_BYTES = 256 * 2**20
#: Files that hold less in all are read before the clock has anything to count.
_LEAST_BYTES = 4 * 2**20
_TEMPORARY_BYTES = 64 * 2**20
#: A temporary file is written only where it leaves so much.
_SPARE_BYTES = 2**30
_PIECE = 2**20
_READ = re.compile(r"^read_bytes: (\d{1,19})$", re.MULTILINE | re.ASCII)


def read_speed(folder: Path, clock: Clock = SYSTEM) -> DiskSpeed | Unavailable:
    """Read the files below a folder, in its own order, or a temporary file beside it where there are too few."""
    try:
        files = list(_some_files(folder, clock.now_ns() + round(LIMIT_S * 0.5e9), clock))
        if sum(size for _, size in files) >= _LEAST_BYTES:
            return _read_files(folder, [path for path, _ in files], clock)
        return _read_temporary(_existing(folder), clock)
    except OSError as error:
        return Unavailable(f"nothing could be read or tried in {short(folder)}: {error.strerror or error}", "")


def _some_files(folder: Path, due_ns: int, clock: Clock) -> Iterator[tuple[str, int]]:
    """Files and their sizes, as many as there is time to list and to read."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            if total >= _LIMIT_BYTES or clock.now_ns() > due_ns:
                return
            path = os.path.join(where, name)
            with contextlib.suppress(OSError):
                if os.path.isfile(path):  # no pipe, no device
                    size = os.path.getsize(path)
                    total += size
                    yield path, size


def _read_files(folder: Path, paths: Iterable[str], clock: Clock) -> DiskSpeed:
    for path in paths:
        with contextlib.suppress(OSError), open(path, "rb", buffering=0) as file:
            _forget(file)
    before, begin_ns = _bytes_from_disk(), clock.now_ns()
    due_ns = begin_ns + round(LIMIT_S * 1e9)
    read = files = 0
    for path in paths:
        if clock.now_ns() > due_ns or read >= _LIMIT_BYTES:
            break
        with contextlib.suppress(OSError), open(path, "rb", buffering=0) as file:
            _past_cache(file)
            files += 1
            for piece in _pieces(file, due_ns, clock):
                read += piece
                if read >= _LIMIT_BYTES:
                    break
    took_s = (clock.now_ns() - begin_ns) / 1e9
    return DiskSpeed(short(folder), read, took_s, files, _share(read, before))


def _read_temporary(folder: Path, clock: Clock) -> DiskSpeed | Unavailable:
    if shutil.disk_usage(folder).free < _TEMPORARY_BYTES + _SPARE_BYTES:
        return Unavailable(f"no data in {short(folder)} to read, and too little room to try with a file", "make room")
    due_ns = clock.now_ns() + round(LIMIT_S * 1e9)
    piece = os.urandom(_PIECE)
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        _past_cache(file)
        while file.tell() < _TEMPORARY_BYTES and clock.now_ns() < due_ns:
            file.write(piece)
        os.fsync(file.fileno())
        _forget(file)
        file.seek(0)
        before, begin_ns = _bytes_from_disk(), clock.now_ns()
        read = sum(_pieces(file, begin_ns + round(LIMIT_S * 1e9), clock))
        took_s = (clock.now_ns() - begin_ns) / 1e9
    return DiskSpeed(short(folder), read, took_s, None, _share(read, before))


def _pieces(file: IO[bytes], due_ns: int, clock: Clock) -> Iterator[int]:
    """Read on, and say of each piece how long it is."""
    while (piece := file.read(_PIECE)) and clock.now_ns() < due_ns:
        yield len(piece)


def _forget(file: IO[bytes]) -> None:
    """Have Linux drop what it keeps of a file in memory."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _past_cache(file: IO[bytes]) -> None:
    """Have macOS read and write without keeping anything; what it keeps already is still read from memory."""
    if hasattr(fcntl, "F_NOCACHE"):
        fcntl.fcntl(file, fcntl.F_NOCACHE, 1)


def _bytes_from_disk() -> int | None:
    """What this thread has read from disks so far; None where the system does not count it."""
    try:
        with open("/proc/thread-self/io", encoding="ascii") as file:
            found = _READ.search(file.read())
    except OSError:
        return None
    return int(found[1]) if found else None


def _share(read: int, before: int | None) -> float | None:
    after = _bytes_from_disk()
    return None if before is None or after is None or not read else min((after - before) / read, 1.0)


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there."""
    return next(path for path in (folder, *folder.parents) if path.is_dir())

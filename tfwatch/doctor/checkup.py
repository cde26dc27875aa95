"""The check-up: collects the facts of this machine, and has them judged.

Slow sources have a time limit, and a source that fails becomes a fact itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import threading
from dataclasses import dataclass
from functools import partial
from typing import IO, TYPE_CHECKING, TypeVar

import psutil

from tfwatch.config import short_path
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import fails_open
from tfwatch.doctor.checks import CheckUp, judge
from tfwatch.doctor.facts import Cores, DiskSpeed, Facts, Memory, RunsFolder
from tfwatch.doctor.packages import Installed
from tfwatch.doctor.quick_facts import describe_machine, interpreter, nvidia, other_programs
from tfwatch.doctor.trial import Trial, try_tensorflow
from tfwatch.runs.library import find_problem, nearest
from tfwatch.runs.machine_info import free_bytes, limits
from tfwatch.sensors.gpu.sensor import choose_source
from tfwatch.sensors.sensor import Unavailable, reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tfwatch.sensors.sensor import GpuSource

_T = TypeVar("_T")
#: A folder on a lost network answers after minutes, or never.
_PATIENCE_S = 10.0
_WHILE_TRAINING = "skipped while a training runs, because it takes cores from it: press t to run it"


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope of a check-up."""

    runs_dir: Path
    #: The folder whose disk is read.
    data: Path | None = None
    #: A training runs, so the check-up does not start TensorFlow.
    is_beside_training: bool = False


def check_up(scope: Scope, notify: Callable[[str], None], clock: Clock = SYSTEM) -> CheckUp:
    """Check this machine; `notify` gets the name of each part. Takes seconds and an import."""
    return judge(collect_facts(scope, notify, clock))


def collect_facts(scope: Scope, notify: Callable[[str], None], clock: Clock = SYSTEM) -> Facts:
    """Collect the facts."""
    notify("the machine")
    installed = Installed.here()
    cores = _cores(scope)
    notify("the disk")
    disk = None
    if scope.data:
        disk = _within_limit(partial(read_speed, scope.data, clock), "the disk")
    return Facts(
        machine=describe_machine(),
        interpreter=interpreter(installed.system),
        installed=installed,
        nvidia=nvidia(os.environ),
        cores=cores,
        memory=_memory(),
        disk=disk,
        runs=_within_limit(partial(_runs_folder, scope.runs_dir), "the folder of the runs"),
        gpu_sensor=_gpu_sensor(installed.system),
        trial=_trial(installed, scope, notify),
    )


def _trial(installed: Installed, scope: Scope, notify: Callable[[str], None]) -> Trial:
    if "tensorflow" not in installed.versions:
        return Trial("skipped")
    if scope.is_beside_training:
        return Trial("skipped", log_text=_WHILE_TRAINING)
    return try_tensorflow(lambda stage: notify(f"TensorFlow: {stage}"))


def _cores(scope: Scope) -> Cores:
    installed = psutil.cpu_count() or 1
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else installed
    busy = None
    if not scope.is_beside_training:
        busy = other_programs()
    return Cores(installed, bound, limits().cores, busy)


def _memory() -> Memory:
    total, allowed = psutil.virtual_memory().total, limits().memory_bytes
    try:
        swapped = psutil.swap_memory().used
    except (OSError, RuntimeError):
        swapped = 0
    return Memory(free_bytes(), allowed or total, allowed is not None, swapped)


def _runs_folder(folder: Path) -> RunsFolder:
    """Return the state of the runs folder; a temporary file tests that it can be written."""
    free = None
    with contextlib.suppress(OSError):
        free = shutil.disk_usage(nearest(folder)).free
    return RunsFolder(short_path(folder), find_problem(folder), free)


def _gpu_sensor(system: str) -> tuple[str, Unavailable | None]:
    """Return the GPU sensor that a run would ask, and why it cannot be read."""
    source = choose_source(system)
    return source.name, _within_limit(partial(_ask, source), source.name)


def _ask(source: GpuSource) -> Unavailable | None:
    try:
        return source.why_unavailable()
    finally:
        source.close()


def _within_limit(read: Callable[[], _T], name: str) -> _T | Unavailable:
    """Return the result of `read`; a call that hangs in the kernel is abandoned."""
    found: list[_T | Unavailable] = []
    thread = threading.Thread(
        target=lambda: found.append(_read_or_reason(read)), daemon=True, name="tfwatch-doctor"
    )
    thread.start()
    thread.join(_PATIENCE_S)
    why = f"{name} did not answer within {_PATIENCE_S:g} s"
    return found[0] if found else Unavailable(why, "")


def _read_or_reason(read: Callable[[], _T]) -> _T | Unavailable:
    reasons: list[str] = []
    with fails_open(reasons.append, reason):
        return read()
    return Unavailable(reasons[0], "")


# -- the speed of the disk ------------------------------------------------------------------------

_READ_LIMIT_S = 1.0
_READ_LIMIT_BYTES = 256 * 2**20
#: Reading fewer bytes takes too little time to measure.
_LEAST_BYTES = 4 * 2**20
_PIECE = 2**20


def read_speed(folder: Path, clock: Clock = SYSTEM) -> DiskSpeed | Unavailable:
    """Read the files below a folder, in the order of listing, past the system's cache."""
    due_ns = clock.now_ns() + round(_READ_LIMIT_S * 0.5e9)
    files = list(_list_files(folder, due_ns, clock))
    if sum(size for _, size in files) < _LEAST_BYTES:
        why = f"{short_path(folder)} has less than 4 MB of files: too few to measure its disk"
        return Unavailable(why, "name the folder of the data: --data DIR")
    begin_ns = clock.now_ns()
    due_ns = begin_ns + round(_READ_LIMIT_S * 1e9)
    read = count = 0
    for path, _ in files:
        if clock.now_ns() > due_ns:
            break
        with contextlib.suppress(OSError), open(path, "rb", buffering=0) as file:
            _bypass_cache(file)
            count += 1
            read += sum(_read_pieces(file, due_ns, clock))
    return DiskSpeed(short_path(folder), read, (clock.now_ns() - begin_ns) / 1e9, count)


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


def _read_pieces(file: IO[bytes], due_ns: int, clock: Clock) -> Iterator[int]:
    """Read in pieces; yield the length of each."""
    while (piece := file.read(_PIECE)) and clock.now_ns() < due_ns:
        yield len(piece)


def _bypass_cache(file: IO[bytes]) -> None:
    """Drop a file from Linux' page cache, or make macOS bypass its own."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if hasattr(fcntl, "F_NOCACHE"):
        fcntl.fcntl(file, fcntl.F_NOCACHE, 1)

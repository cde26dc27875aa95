"""Makes a rank's run folder below its group's: the ranks of one launch find the same folder by themselves.

The group's folder has a name that every rank works out by itself, from the launch. Making it is exclusive: one rank
makes it, the others find it there. A folder of an earlier launch with the same name is recognised by its ranks: the
last sign of life of one of them is older than this process. Then the next number is taken.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.core.events import RunEnded, decode
from tfwatch.runs import format as layout
from tfwatch.runs.format import FOLDER_MODE, NotARunError, decode_pulse, make_folder
from tfwatch.runs.groups.group_file import (
    GroupFile,
    folder_of_rank,
    is_group,
    rank_folders,
    read_group_file,
    write_group_file,
)
from tfwatch.runs.machine_info import boot_id
from tfwatch.runs.reading.liveness import is_process_alive
from tfwatch.runs.reading.streams import FolderSource, read_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tfwatch.core.clock import Clock
    from tfwatch.runs.groups.environment import Membership

#: The processes of a launch start within this time.
WINDOW_S = 600.0
#: Clocks of two machines differ by less; so does the start of a process of this one, by the kernel's clock.
CLOCKS_S = 5.0
_OWN_CLOCK_S = 0.1
#: Groups of one launch's name, and ranks.
_MOST = 100_000
#: The last bytes of events.jsonl, which hold the end of a run.
_TAIL_BYTES = 2**16


@dataclass(frozen=True, slots=True)
class Joined:
    """The folder of a rank's run. rank: its number, also where it was the first free one."""

    folder: Path
    rank: int


@dataclass(frozen=True, slots=True)
class Sign:
    """A rank of a group as a process that comes later finds it.

    last_s: its last sign of life, seconds since 1970; infinite where its process is alive. is_here: on this machine.
    """

    process_started_s: float
    last_s: float
    is_here: bool = False

    def is_since(self, started_s: float) -> bool:
        """Return whether the last sign of life came after a process of this machine started."""
        return self.last_s >= started_s - (_OWN_CLOCK_S if self.is_here else CLOCKS_S)


#: The group that this process has joined, by its id and the folder of the runs: later runs of the process go there.
_joined: dict[tuple[int, Path], tuple[Path, int]] = {}


def join(runs_dir: Path, membership: Membership, started_s: float, clock: Clock) -> Joined:
    """Create the folder of a rank's next run. started_s: the start of this process, since 1970.

    Raises:
        OSError: the runs folder cannot be written.
    """
    make_folder(runs_dir)
    key = os.getpid(), runs_dir.absolute()
    if key in _joined:
        return _next_run(*_joined[key])
    for group in _candidates(runs_dir, _folder_stem(membership)):
        made = _make_group(group, membership, started_s, clock)
        if not made and not _is_same_launch(group, started_s):
            continue
        rank = _take_rank(group, membership.rank)
        if rank is not None:
            _joined[key] = group, rank
            return Joined(folder_of_rank(group, rank), rank)
    raise FileExistsError(f"{runs_dir / _folder_stem(membership)} and all after it are taken")


def is_same_launch(group_started_s: float, ranks: list[Sign], started_s: float) -> bool:
    """Return whether a process that started at a moment belongs to the launch of these ranks.

    It does where it started within `WINDOW_S` of them, and none of them gave its last sign of life before that: the
    ranks of one launch train at the same time.
    """
    begins = [group_started_s, *(rank.process_started_s for rank in ranks)]
    is_near = all(abs(started_s - begin) <= WINDOW_S for begin in begins)
    return is_near and all(rank.is_since(started_s) for rank in ranks)


def _folder_stem(membership: Membership) -> str:
    launch = membership.launch.encode(errors="surrogatepass")  # a variable may hold any bytes
    return f"{membership.name}_{hashlib.sha256(launch).hexdigest()[:8]}"


def _candidates(runs_dir: Path, stem: str) -> Iterator[Path]:
    """Yield the group folders of a launch's name that there are, the newest first, and then those to make."""
    pattern = re.compile(re.escape(stem) + r"(?:-(\d{1,6}))?", re.ASCII)
    names = (pattern.fullmatch(folder.name) for folder in runs_dir.iterdir())
    numbers = sorted((int(one[1] or 1) for one in names if one), reverse=True)
    last = numbers[0] if numbers else 0
    for number in (*numbers, *range(last + 1, last + _MOST)):
        yield runs_dir / (stem if number == 1 else f"{stem}-{number}")


def _make_group(group: Path, membership: Membership, started_s: float, clock: Clock) -> bool:
    """Create the group's folder; return False where another rank did. Its file is written by whoever finds none."""
    made = True
    try:
        group.mkdir(FOLDER_MODE)
    except FileExistsError:
        made = False
    if not is_group(group):
        file = GroupFile(
            membership.name, membership.launcher, started_s, clock.wall_ns(), membership.size
        )
        write_group_file(group, file)
    return made


def _is_same_launch(group: Path, started_s: float) -> bool:
    try:
        signs = [sign for one in rank_folders(group) if (sign := _sign(one.folder))]
        return is_same_launch(read_group_file(group).process_started_s, signs, started_s)
    except (NotARunError, OSError):
        return False


def _sign(folder: Path) -> Sign | None:
    """Return a rank's last sign of life; None where its run cannot be read, or has written nothing yet."""
    with suppress(NotARunError, OSError):
        source = FolderSource(folder)
        manifest = source.manifest()
        is_here = manifest.boot_id == boot_id()
        if is_here and is_process_alive(manifest):
            return Sign(manifest.process_started_s, math.inf, is_here)
        pulse = decode_pulse(source.read(layout.PULSES, 0, 4096))
        last_ns = max(
            manifest.origin_wall_ns, pulse.wall_ns if pulse else 0, _end_wall_ns(folder, manifest)
        )
        return Sign(manifest.process_started_s, last_ns / 1e9, is_here)
    return None


def _end_wall_ns(folder: Path, manifest: layout.Manifest) -> int:
    """Return the time of a run's end event; 0 without one."""
    path = folder / layout.EVENTS
    with suppress(OSError):
        size = path.stat().st_size
        lines = read_file(path, max(0, size - _TAIL_BYTES), _TAIL_BYTES).splitlines()
        ends = [event for line in lines if isinstance(event := decode(line), RunEnded)]
        return manifest.origin_wall_ns + ends[-1].at_ns if ends else 0
    return 0


def _take_rank(group: Path, rank: int | None) -> int | None:
    """Create the folder of a rank, or of the first free one; return its number, None where it is taken."""
    for number in range(_MOST) if rank is None else (rank,):
        with suppress(FileExistsError):
            folder_of_rank(group, number).mkdir(FOLDER_MODE)
            return number
    return None


def _next_run(group: Path, rank: int) -> Joined:
    """Create the folder of a later run of this process."""
    make_folder(group)
    for number in range(2, _MOST):
        folder = folder_of_rank(group, rank, number)
        with suppress(FileExistsError):
            folder.mkdir(FOLDER_MODE)
            return Joined(folder, rank)
    raise FileExistsError(f"all runs of rank {rank} in {group} are taken")

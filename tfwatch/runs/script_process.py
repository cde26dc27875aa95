"""The process of a script: the runs that it announces, as others follow them, and its end by a
signal.

The file of announcements holds paths, each ended by a zero byte, which no path contains.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec
import psutil

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import name_of_signal
from tfwatch.core.events import RunEnded, encode
from tfwatch.core.rows import Phase
from tfwatch.runs import format as layout
from tfwatch.runs.folder import LateCall, RunFolder, read_file
from tfwatch.runs.format import Manifest, Pulse
from tfwatch.runs.library import runs_since
from tfwatch.runs.liveness import Life
from tfwatch.runs.machine_info import boot_id, describe_machine
from tfwatch.runs.requests import SwitchRequest  # noqa: TC001  msgspec reads the field's type
from tfwatch.runs.run import RECENT, open_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: The variable by which `--feed` passes the HOST:PORT of a tf.data service to the script.
FEED = "TFWATCH_FEED"

# -- in the process --------------------------------------------------------------------------------

_END = b"\0"
#: The file of this process and the process's id: a forked child announces nothing.
_file: list[tuple[str, int]] = []
#: Called with the first run.
_at_first_run: list[Callable[[], None]] = []


@dataclass(frozen=True, slots=True)
class ScriptTrial:
    """The process ends after so many steps of its first `fit`. validates: as the script does; else
    never."""

    steps: int
    validates: bool = False


@dataclass(frozen=True, slots=True)
class Launch:
    """The requests of `tfwatch run` and `train` for the runs of a script.

    runs_dir: where they are recorded; empty: nobody launched this script.
    steps: a `fit` ends after so many. switches: of the first `fit`.
    explain: a few steps of each run are profiled. settings: entries of the manifest's. trial: None
    where the script trains as it is.
    """

    runs_dir: str = ""
    steps: int | None = None
    switches: tuple[SwitchRequest, ...] = ()
    explain: bool = False
    settings: dict[str, str] = field(default_factory=dict)
    trial: ScriptTrial | None = None

    def to_text(self) -> str:
        """Return it as a word of a command line."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_text(cls, text: str) -> Launch:
        """Read what `to_text` wrote."""
        return msgspec.json.decode(text, type=cls)


_launch: list[Launch] = []


def announce_in(
    path: str, at_first_run: Callable[[], None] | None = None, launch: Launch | None = None
) -> None:
    """Announce the runs of this process in a file from now on; in none for an empty path.

    launch: None where the process runs by itself.
    """
    _launch[:] = [launch] if launch else []
    _file[:] = [(path, os.getpid())] if path else []
    _at_first_run[:] = [at_first_run] if at_first_run else []


def launched() -> Launch:
    """Return what is asked of the runs of this process."""
    return _launch[0] if _launch else Launch()


def take_switches() -> tuple[SwitchRequest, ...]:
    """Return the switches of the first `fit`, to the first caller alone."""
    switches = launched().switches
    _launch[:] = [replace(one, switches=()) for one in _launch]
    return switches


def announce(folder: Path) -> None:
    """Announce a run folder that has a manifest; does nothing where nobody asked, or the file is
    gone."""
    while _at_first_run:
        _at_first_run.pop()()
    for path, pid in _file:
        with suppress(OSError):
            fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            try:
                if pid == os.getpid():
                    os.write(fd, os.fsencode(os.path.abspath(folder)) + _END)
            finally:
                os.close(fd)


class Announcements:
    """Follows such a file, also after it has been removed."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._offset = 0

    def take(self) -> list[Path]:
        """Return the folders that were announced since the last call."""
        from pathlib import Path  # a script that announces its runs does without it

        size = os.fstat(self._fd).st_size
        data = os.pread(self._fd, size - self._offset, self._offset) if size > self._offset else b""
        data = data[: data.rfind(_END) + 1]
        self._offset += len(data)
        return [Path(os.fsdecode(name)) for name in data.split(_END) if name]

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


# -- seen by another one ---------------------------------------------------------------------------


class AwaitedRun(RunFolder):
    """A run without rows, in its phase `STARTING`. name: the script. log: its output so far."""

    def __init__(self, name: str, pid: int, log: Path, clock: Clock) -> None:
        super().__init__(log.parent)
        self._log = log
        self._text = f"{name} runs, no fit yet"
        self._clock = clock
        self._manifest = Manifest(
            run="",
            workload=name,
            origin_ns=clock.now_ns(),
            origin_wall_ns=clock.wall_ns(),
            pid=pid,
            process_started_s=_started_s(pid),
            boot_id=boot_id(),
            machine=describe_machine(),
        )

    @property
    def folder(self) -> Path | None:
        return None

    def _read_manifest(self) -> Manifest:
        return self._manifest

    def _read(self, name: str, offset: int, limit: int) -> bytes:
        if name == layout.LOG:
            return read_file(self._log, offset, limit)
        if name != layout.PULSES:
            return b""
        now_ns = self._clock.now_ns() - self._manifest.origin_ns
        return Pulse(now_ns, self._clock.wall_ns(), Phase.STARTING, 0, 0, 0, self._text).encode(0)


def _started_s(pid: int) -> float:
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return 0.0


#: Nanoseconds that the start of a process, by the kernel's clock, may lie after its first run.
_CLOCKS_NS = 2 * 10**9
#: New runs are looked for so often.
_LOOK_NS = 10**9


class ProcessRuns:
    """The runs of the process that writes `folder`: those before it, it, and each that begins
    later.

    Raises:
        NotARunError: the folder is not a run.
        OSError: the folder of all runs cannot be read.
    """

    def __init__(self, folder: Path, clock: Clock = SYSTEM) -> None:
        folder = folder.absolute()
        manifest = RunFolder(folder).manifest()
        began_ns = round(manifest.process_started_s * 1e9) - _CLOCKS_NS
        self._runs_dir, self._pid, self._began_ns = folder.parent, manifest.pid, began_ns
        self._clock = clock
        self._due_ns = clock.now_ns()
        self._looks: LateCall[list[Path]] = LateCall(clock=clock)
        known = self._look()
        self._found = known[: known.index(folder) + 1] if folder in known else [folder]
        self._seen = set(self._found)

    def take(self) -> list[Path]:
        """Return the folders that were found since the last call, the oldest first; none while the
        disk is silent."""
        if self._clock.now_ns() >= self._due_ns and (runs := self._looks.ask(self._look)):
            self._due_ns = self._clock.now_ns() + _LOOK_NS
            self._found += [run for run in runs if run not in self._seen]
            self._seen |= set(runs)
        folders, self._found = self._found, []
        return folders

    def _look(self) -> list[Path]:
        """Return the runs of the process, the oldest first."""
        return list(runs_since(self._runs_dir, self._pid, self._began_ns))[::-1]


#: Signals that people and other programs send to end a process; the others are faults of the
#: process itself.
ENDING_SIGNALS = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)


def record_signal(folder: Path, signum: int, clock: Clock = SYSTEM) -> None:
    """Record that a signal ended the process of a run. Of SIGKILL, which a full memory sends too,
    nothing is known.

    Raises:
        NotARunError: the folder is not a run.
        OSError: it cannot be written.
    """
    run = open_run(folder, clock, RECENT)
    if run.life is not Life.KILLED or signum == signal.SIGKILL:
        return
    last = run.open_phase
    steps = max(run.steps_total, last.step - last.phase.is_before_step if last else 0)
    ended = RunEnded(
        round(run.length_s * 1e9),
        "stopped" if signum in ENDING_SIGNALS else "failed",
        steps,
        f"the process was ended by {name_of_signal(signum)}",
        doing=last.phase.name if last else "",
        since_ns=last.since_ns if last else 0,
    )
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(folder / layout.EVENTS, flags, layout.FILE_MODE)
    try:
        layout.append_line(fd, encode(ended) + b"\n")
    finally:
        os.close(fd)

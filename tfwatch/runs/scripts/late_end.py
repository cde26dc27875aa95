"""The end of a run whose process was ended by a signal, recorded by the process that started it."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import name_of_signal
from tfwatch.core.events import RunEnded, encode
from tfwatch.core.rows import Phase
from tfwatch.runs import format as layout
from tfwatch.runs.liveness import Life
from tfwatch.runs.opened import open_run

if TYPE_CHECKING:
    from pathlib import Path

#: Signals that people and other programs send to end a process; the others are faults of the process itself.
_ASKED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
#: In these phases the step of a pulse is the next one.
_BEFORE_STEP = (Phase.WAIT, Phase.COMPUTE, Phase.COMPILE)


def record_signal(folder: Path, signum: int, clock: Clock = SYSTEM) -> None:
    """Record that a signal ended the process of a run. Of SIGKILL, which a full memory sends too, nothing is known.

    Raises:
        NotARunError: the folder is no run.
        OSError: it cannot be written.
    """
    run = open_run(folder, clock)
    if run.life is not Life.KILLED or signum == signal.SIGKILL:
        return
    last = run.open_phase
    steps = max(len(run.steps), last.step - (last.phase in _BEFORE_STEP) if last else 0)
    ended = RunEnded(
        round(run.length_s * 1e9),
        "stopped" if signum in _ASKED else "failed",
        steps,
        f"the process was ended by {name_of_signal(signum)}",
        doing=last.phase.name if last else "",
        since_ns=last.since_ns if last else 0,
    )
    _append_line(folder / layout.EVENTS, encode(ended).encode())


def _append_line(path: Path, line: bytes) -> None:
    """Append a line to a file whose last one may be torn."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, layout.FILE_MODE)
    try:
        size = os.fstat(fd).st_size
        is_torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
        os.write(fd, (b"\n" if is_torn else b"") + line + b"\n")
    finally:
        os.close(fd)

"""The state of a run's process, and the phase that was open when the run ended."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
import psutil

from tfwatch.core.rows import STEP, Phase, step_ms
from tfwatch.runs.machine_info import boot_id

if TYPE_CHECKING:
    from tfwatch.core.clock import Clock
    from tfwatch.core.events import RunEnded
    from tfwatch.core.rows import Rows
    from tfwatch.runs.format import Manifest, Pulse

#: A pulse is written ten times a second: a process whose pulse is older does not respond.
SILENT_S = 1.5
#: A pulse of another machine comes over a network and has that machine's clock: its limit is
#: longer.
_FORGOTTEN_S = 60.0


class Life(Enum):
    """The state of a run's process."""

    RUNNING = "running"
    NOT_RESPONDING = "not responding"
    ENDED = "ended"
    KILLED = "killed"
    UNKNOWN = "unknown"
    #: The folder was moved, deleted or unmounted: the state cannot be read.
    GONE = "folder gone"

    @property
    def is_over(self) -> bool:
        """True where no more data can follow."""
        return self in (Life.ENDED, Life.KILLED)

    @property
    def is_stale(self) -> bool:
        """True where the present state is unknown, and only an earlier one is."""
        return self in (Life.NOT_RESPONDING, Life.UNKNOWN, Life.GONE)


def life_of(manifest: Manifest, pulse: Pulse | None, clock: Clock) -> tuple[Life, float]:
    """Return the state of a run without an end event, and the age of its pulse in seconds if it
    does not respond.

    A run of this boot is looked up among this machine's processes. For a run of another machine, or
    of a container with its own processes, only the pulse is known.
    """
    if manifest.boot_id == boot_id() and is_process_alive(manifest):
        age_s = (clock.now_ns() - manifest.origin_ns - (pulse.now_ns if pulse else 0)) / 1e9
        return (Life.NOT_RESPONDING, age_s) if age_s > SILENT_S else (Life.RUNNING, 0.0)
    if manifest.machine.get("host") == os.uname().nodename:
        return Life.KILLED, 0.0
    age_s = (clock.wall_ns() - (pulse.wall_ns if pulse else manifest.origin_wall_ns)) / 1e9
    return (Life.UNKNOWN, age_s) if age_s > _FORGOTTEN_S else (Life.RUNNING, 0.0)


def state_now(
    manifest: Manifest,
    ended: RunEnded | None,
    pulse: Pulse | None,
    steps: Rows,
    clock: Clock,
    *,
    is_gone: bool = False,
) -> tuple[Life, float, float]:
    """Return the state of a run now, its time in seconds, and for how long it does not respond.

    steps: plausible ones; the last ends a run without an end event, if its pulse is older. is_gone:
    its folder is.
    """
    if ended:
        return Life.ENDED, ended.at_ns / 1e9, 0.0
    life, silent_s = (Life.GONE, 0.0) if is_gone else life_of(manifest, pulse, clock)
    if life in (Life.KILLED, Life.UNKNOWN, Life.GONE):
        return life, max(_end_s(steps), pulse.now_ns / 1e9 if pulse else 0.0), silent_s
    if manifest.boot_id == boot_id():
        return life, (clock.now_ns() - manifest.origin_ns) / 1e9, silent_s
    return life, (clock.wall_ns() - manifest.origin_wall_ns) / 1e9, silent_s


def _end_s(steps: Rows) -> float:
    """Return the end of the last step, seconds since the clock origin; 0.0 without any."""
    if not len(steps):
        return 0.0
    last = steps[-1]
    return float(last["start_ns"] / 1e9 + step_ms(last, np.float64) / 1e3)


def is_process_alive(manifest: Manifest) -> bool:
    """Return whether the process that writes a run of this boot is alive."""
    return is_alive(manifest.pid, manifest.process_started_s)


def is_alive(pid: int, started_s: float) -> bool:
    """Return whether a process of this boot is alive. started_s: its start, since 1970."""
    try:
        process = psutil.Process(pid)
        # Another process may have this number now. psutil's time changes with corrections of the
        # wall clock.
        same = abs(process.create_time() - started_s) < 2
        return bool(same and process.status() != psutil.STATUS_ZOMBIE)
    except (psutil.Error, ValueError, OverflowError):
        return False


@dataclass(frozen=True, slots=True)
class OpenPhase:
    """The phase from `since_ns` to the run's end, or to its last pulse; `step` is the next step.

    detail: the callback, or the Python that TensorFlow called, that runs then; empty where none is
    seen.
    """

    phase: Phase
    since_ns: int
    until_ns: int
    step: int
    epoch: int
    detail: str = ""

    @property
    def lasts_s(self) -> float:
        """Its duration, seconds."""
        return (self.until_ns - self.since_ns) / 1e9

    @property
    def is_before_call(self) -> bool:
        """True where the rank of a group has not come to the call, in which the others wait for
        it."""
        return self.phase in (Phase.WAIT, Phase.HOST)

    @property
    def is_in_call(self) -> bool:
        """True where the rank of a group is in the call, as those are that wait for another one
        there."""
        return self.phase is Phase.COMPUTE

    @property
    def wait(self) -> Rows:
        """The open data wait as a row of `core.rows.STEP` with the other parts 0; no row where
        there was none."""
        if self.phase is not Phase.WAIT:
            return np.empty(0, dtype=STEP)
        row = np.zeros(1, dtype=STEP)
        row["start_ns"], row["step"], row["epoch"] = self.since_ns, self.step, self.epoch & 0xFFFF
        row["wait_ms"], row["copy_ms"] = (self.until_ns - self.since_ns) / 1e6, np.nan
        return row


def find_open_phase(ended: RunEnded | None, pulse: Pulse | None) -> OpenPhase | None:
    """Return the last phase, from the run's end event or else its pulse; None where both are
    missing."""
    epoch = pulse.epoch if pulse else 0
    if ended:
        if ended.doing not in Phase.__members__:
            return None
        since_ns = min(ended.since_ns, ended.at_ns)
        return OpenPhase(Phase[ended.doing], since_ns, ended.at_ns, ended.steps + 1, epoch)
    if pulse is None:
        return None
    return OpenPhase(pulse.phase, pulse.since_ns, pulse.now_ns, pulse.step, epoch, pulse.detail)

"""Whether a run's process is alive, and the part of its last step that has no row yet.

What has become of a run's process.

What was under way where a run stands: the part of its last step that no row tells of yet.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
import psutil

from tfwatch.core.rows import STEP, Phase
from tfwatch.runs.machine_info import boot_id

if TYPE_CHECKING:
    from tfwatch.core.clock import Clock
    from tfwatch.core.events import RunEnded
    from tfwatch.core.rows import Rows
    from tfwatch.runs.format import Manifest, Pulse

#: A pulse is written ten times a second; older than this it is no answer.
SILENT_S = 1.5
#: A pulse from elsewhere comes over a network and another machine's clock: only this old it tells nothing.
_FORGOTTEN_S = 60.0


class Life(Enum):
    """What has become of the run's process."""

    RUNNING = "running"
    SILENT = "no answer"
    ENDED = "ended"
    KILLED = "killed"
    UNKNOWN = "unknown"
    #: Its folder was moved or deleted: nobody reads how it is.
    GONE = "folder gone"

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self in (Life.ENDED, Life.KILLED)

    @property
    def is_stale(self) -> bool:
        """Whether nobody knows how it is now: what is known is how it was then."""
        return self in (Life.SILENT, Life.UNKNOWN, Life.GONE)


def life_of(manifest: Manifest, pulse: Pulse | None, clock: Clock) -> tuple[Life, float]:
    """How a run without an end event is, and where it gives no answer how old its pulse is, in seconds.

    A run of this boot is looked for among this machine's processes. One of another machine, or of a container
    with processes of its own, has only its pulse to tell by.
    """
    if manifest.boot_id == boot_id() and _is_alive(manifest):
        age_s = (clock.now_ns() - manifest.origin_ns - (pulse.now_ns if pulse else 0)) / 1e9
        return (Life.SILENT, age_s) if age_s > SILENT_S else (Life.RUNNING, 0.0)
    if manifest.machine.get("host") == os.uname().nodename:
        return Life.KILLED, 0.0
    age_s = (clock.wall_ns() - (pulse.wall_ns if pulse else manifest.origin_wall_ns)) / 1e9
    return (Life.UNKNOWN, age_s) if age_s > _FORGOTTEN_S else (Life.RUNNING, 0.0)


def now_s(manifest: Manifest, life: Life, last_s: float, clock: Clock) -> float:
    """The run's time now, in seconds since its clock origin; `last_s` where it is over and left no end."""
    if life in (Life.KILLED, Life.UNKNOWN, Life.GONE):
        return last_s
    if manifest.boot_id == boot_id():
        return (clock.now_ns() - manifest.origin_ns) / 1e9
    return (clock.wall_ns() - manifest.origin_wall_ns) / 1e9


def _is_alive(manifest: Manifest) -> bool:
    try:
        process = psutil.Process(manifest.pid)
        # Another process may have the number by now. psutil's figure moves with the wall clock's corrections.
        same = abs(process.create_time() - manifest.process_started_s) < 2
        return bool(same and process.status() != psutil.STATUS_ZOMBIE)
    except (psutil.Error, ValueError, OverflowError):
        return False


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A phase that lasted from `since_ns` to the run's end, or to its last sign of life; `step` is the one to come."""

    phase: Phase
    since_ns: int
    until_ns: int
    step: int
    epoch: int

    @property
    def wait(self) -> Rows:
        """The wait that was open, as a row of `core.rows.STEP` without its other parts; no row where none was."""
        if self.phase is not Phase.WAIT:
            return np.empty(0, dtype=STEP)
        row = np.zeros(1, dtype=STEP)
        row["start_ns"], row["step"], row["epoch"] = self.since_ns, self.step, self.epoch & 0xFFFF
        row["wait_ms"] = (self.until_ns - self.since_ns) / 1e6
        return row


def under_way(ended: RunEnded | None, pulse: Pulse | None) -> UnderWay | None:
    """Told by a run's end, else by its pulse; None where neither says."""
    epoch = pulse.epoch if pulse else 0
    if ended:
        known = ended.doing in Phase.__members__
        return UnderWay(Phase[ended.doing], ended.since_ns, ended.at_ns, ended.steps + 1, epoch) if known else None
    if pulse is None:
        return None
    return UnderWay(pulse.phase, pulse.since_ns, pulse.now_ns, pulse.step, epoch)

"""What was under way where a run stands: the part of its last step that no row tells of yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core.rows import STEP, Phase

if TYPE_CHECKING:
    from tfwatch.core.events import RunEnded
    from tfwatch.core.rows import Rows
    from tfwatch.runs.pulse import Pulse


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

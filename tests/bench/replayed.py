"""How often does the banner change in recorded runs that did not?

    python -m tests.bench.replayed [--verbose] RUN ...

Each run folder is read again frame by frame, as its live screen read it, and each text of the
banner is compared with the one before. A change is another text: figures that differ are none.
Prints the changes of each run, and the most in any minute after the first verdict.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec
import numpy as np
import psutil

from tfwatch.core.clock import Clock
from tfwatch.core.rows import PULSE, Phase, plausible, step_ms
from tfwatch.judge.findings.finding import MOMENT
from tfwatch.judge.view import Follower
from tfwatch.runs import format as layout
from tfwatch.runs.folder import RunFolder
from tfwatch.runs.machine_info import boot_id
from tfwatch.runs.run import Run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tfwatch.core.rows import Rows
    from tfwatch.judge.findings.finding import Finding
    from tfwatch.runs.format import Manifest

#: Seconds from one frame to the next.
FRAME_S = 0.25
_FIGURE = re.compile(r"\d+([.,: ]\d+)*")

_Times: TypeAlias = "NDArray[np.int64]"


class ReplayedFolder(RunFolder):
    """A recorded run as far as it had come at a moment, which the caller moves.

    Attributes:
        now_ns: that moment, since the clock origin.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.now_ns = 0

    @property
    def clock(self) -> Clock:
        """The clock at that moment."""
        return Clock(now_ns=lambda: self.now_ns)

    def manifest(self) -> Manifest:
        """Return run.json as if this process wrote the run."""
        known = super().manifest()
        return msgspec.structs.replace(
            known,
            origin_ns=0,
            pid=os.getpid(),
            process_started_s=psutil.Process().create_time(),
            boot_id=boot_id(),
        )

    def read(self, name: str, offset: int, limit: int) -> bytes:
        """Read what was in a file at that moment; its pulse is made of the steps."""
        if name == layout.PULSES:
            return self._pulse()[offset : offset + limit]
        if name == layout.LOG:
            return b""
        size = self._size(name)
        return super().read(name, offset, min(limit, max(size - offset, 0)))

    @cached_property
    def steps(self) -> Rows:
        """All steps of the run."""
        rows = self.rows(layout.STEPS)
        return np.array(rows[plausible(rows)])

    @cached_property
    def ends_ns(self) -> _Times:
        """The ends of the steps, since the clock origin."""
        return _ends_ns(self.steps)

    def _size(self, name: str) -> int:
        if name == layout.EVENTS:
            times, sizes = self._events
            return int(sizes[np.searchsorted(times, self.now_ns, side="right")])
        rows = self.rows(name)
        times = _ends_ns(rows) if name == layout.STEPS else rows["at_ns"].astype(np.int64)
        return int(np.searchsorted(times, self.now_ns, side="right")) * rows.itemsize

    @cached_property
    def _events(self) -> tuple[_Times, _Times]:
        """Return the time of each line, and the bytes before it and after the last."""
        lines = (self._folder / layout.EVENTS).read_bytes().splitlines(keepends=True)
        times = np.array([json.loads(line)["at_ns"] for line in lines], dtype=np.int64)
        sizes = np.cumsum([0, *map(len, lines)])
        return np.maximum.accumulate(times), sizes

    def _pulse(self) -> bytes:
        phase, since_ns, at = self._phase()
        pulse = np.zeros(1, dtype=PULSE)
        pulse["phase"], pulse["since_ns"], pulse["now_ns"] = phase, since_ns, self.now_ns
        row = self.steps[min(at, len(self.steps) - 1)]
        pulse["step"], pulse["epoch"] = row["step"] - (not phase.is_before_step), row["epoch"]
        return pulse.tobytes()

    def _phase(self) -> tuple[Phase, int, int]:
        """Return the phase of the training thread, its begin, and the number of its step."""
        at = int(np.searchsorted(self.ends_ns, self.now_ns, side="right"))
        before_ns = int(self.ends_ns[at - 1]) if at else 0
        if at == len(self.steps) or self.now_ns < self.steps["start_ns"][at]:
            return (Phase.EPOCH_END if at else Phase.STARTING), before_ns, at
        begin_ns = int(self.steps["start_ns"][at])
        for phase, part in ((Phase.WAIT, "wait_ms"), (Phase.COMPUTE, "compute_ms")):
            end_ns = begin_ns + int(1e6 * self.steps[part][at])
            if self.now_ns < end_ns:
                return phase, begin_ns, at
            begin_ns = end_ns
        return Phase.HOST, begin_ns, at


def _ends_ns(rows: Rows) -> _Times:
    ends = rows["start_ns"].astype(np.int64) + (1e6 * step_ms(rows, np.float64)).astype(np.int64)
    return np.maximum.accumulate(ends) if len(ends) else ends


@dataclass(frozen=True)
class Change:
    """A new text of the banner, and its moment."""

    at_s: float
    finding: Finding

    @property
    def text(self) -> str:
        """The texts of the banner without their figures."""
        found = self.finding
        lines = found.word, found.remark, found.cause, found.advice
        return _FIGURE.sub("#", "\n".join(lines))


def changes_of_banner(folder: Path) -> Iterator[Change]:
    """Yield each text of the banner from the begin of a run to its last step."""
    source = ReplayedFolder(folder)
    run, follower = Run(source, source.clock), Follower(live=True)
    before = ""
    while source.now_ns < source.ends_ns[-1]:
        view = follower.follow(run.read(), (), None)
        change = Change(source.now_ns / 1e9, view.finding)
        if change.text != before:
            yield change
        before = change.text
        source.now_ns += int(FRAME_S * 1e9)


def most_in_a_minute(times_s: list[float]) -> int:
    """Return the most of these moments within 60 s."""
    return max((sum(0 <= one - first < 60 for one in times_s) for first in times_s), default=0)


def main() -> int:
    """Print a line for each run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--verbose", action="store_true", help="print each text")
    arguments = parser.parse_args()
    for folder in arguments.runs:
        changes = list(changes_of_banner(folder))
        if arguments.verbose:
            for one in changes:
                print(f"{one.at_s:6.1f} s  {one.finding.word} | {one.finding.sentence}")
                print(f"{'':10}{one.finding.cause}\n{'':10}{one.finding.advice}")
        verdicts = [one.at_s for one in changes if one.finding.kind != MOMENT]
        after = [one.at_s for one in changes if verdicts and one.at_s > verdicts[0]]
        print(f"{folder.name}: {len(after)} changes, at most {most_in_a_minute(after)} a minute")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What tfwatch itself costs, and how often it may draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.core import units

if TYPE_CHECKING:
    from tfwatch.core.clock import Clock
    from tfwatch.runs.reader import Snapshot

#: A frame that costs more is a tenth of its quarter second: the next ones are left out until that holds again.
DEAR_MS = 25.0
#: Where others use every core a frame is taken from them: a fiftieth.
DEAR_ON_FULL_MS = 5.0
_FULL = 0.9
_MOST_SKIPPED = 3
#: The first frames build the screen and say nothing about the later ones.
_WARM_UP = 4
#: Of a frame's cost so much goes into the mean.
_NEWEST = 0.25
_WORDS_S = 1.0
#: Samples come twice a second.
_FRESH_S = 2.0


@dataclass(frozen=True, slots=True)
class OwnCost:
    """What tfwatch itself uses.

    cores: over the last second. is_whole: of all its threads, not of the one alone that draws. skipped: frames that
    were left out.
    """

    cores: float
    is_whole: bool = True
    skipped: int = 0

    @property
    def share(self) -> str:
        """`3.1 %`."""
        return f"{self.cores * 100:.1f} %"

    @property
    def brief(self) -> str:
        """`tfwatch 3.1 % of a core`."""
        return f"{'tfwatch' if self.is_whole else 'screen'} {self.share} of a core"

    @property
    def words(self) -> str:
        """`tfwatch 3.1 % of a core, 51 skipped`."""
        return self.brief + (f", {units.count(self.skipped)} skipped" if self.skipped else "")


class Meter:
    """CPU of the thread that draws, from frame to frame, and of the threads that write and sense, from the samples."""

    def __init__(self, clock: Clock) -> None:
        self.cost: OwnCost | None = None
        self.skipped = 0
        self._clock = clock
        self._frames = 0
        self._skip = 0
        self._frame_cpu_ns = 0
        self._mean_ms = 0.0
        self._since = (0, 0)

    def skips(self) -> bool:
        """Whether this frame is left out."""
        if not self._skip:
            return False
        self._skip -= 1
        self.skipped += 1
        return True

    def frame(self, snapshot: Snapshot) -> None:
        """Call at each frame that is drawn, in the thread that draws."""
        cpu_ns = self._clock.thread_ns()
        frame_ms = (cpu_ns - self._frame_cpu_ns) / 1e6
        self._frame_cpu_ns = cpu_ns
        self._frames += 1
        others, full = _others(snapshot)
        if self._frames > _WARM_UP:
            self._mean_ms += _NEWEST * (frame_ms - self._mean_ms) if self._mean_ms else frame_ms
            self._skip = min(_MOST_SKIPPED, int(self._mean_ms / (DEAR_ON_FULL_MS if full else DEAR_MS)))
        self._say(others, cpu_ns)

    def _say(self, others: float | None, cpu_ns: int) -> None:
        now = self._clock.now_ns()
        before, before_cpu = self._since
        if now - before < _WORDS_S * 1e9:
            return
        self._since = (now, cpu_ns)
        if self._frames <= _WARM_UP:
            return
        share = (cpu_ns - before_cpu) / (now - before)
        self.cost = OwnCost(share + (others or 0.0), is_whole=others is not None, skipped=self.skipped)


def _others(snapshot: Snapshot) -> tuple[float | None, bool]:
    """Cores that tfwatch's other threads use, None where nobody tells; and whether all of the machine's are in use."""
    if snapshot.life.is_over:
        return 0.0, False
    newest = snapshot.samples[-1:]
    if not len(newest) or float(newest["at_ns"][0]) / 1e9 < snapshot.now_s - _FRESH_S:
        return None, False
    own, used = float(newest["own_cores"][0]), float(newest["cpu_cores"][0])
    cores = snapshot.manifest.machine.get("cores")
    return None if units.is_missing(own) else own, isinstance(cores, int) and used >= _FULL * cores > 0

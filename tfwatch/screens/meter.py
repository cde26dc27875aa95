"""What tfwatch itself costs, and how often it may draw."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.core.clock import Clock
    from tfwatch.core.rows import Rows

#: A frame that costs more is a tenth of its quarter second: the next ones are left out until that holds again.
DEAR_MS = 25.0
_MOST_SKIPPED = 3
#: The first frames build the screen and say nothing about the later ones.
_WARM_UP = 4
_WORDS_S = 1.0


class Meter:
    """CPU of the thread that draws, from frame to frame, and of tfwatch's other threads."""

    def __init__(self, clock: Clock, own_cpu_ns: Callable[[], int] | None) -> None:
        self.words = ""
        self.skipped = 0
        self.frame_ms = 0.0
        self._clock = clock
        self._own_cpu_ns = own_cpu_ns
        self._frames = 0
        self._skip = 0
        self._frame_cpu_ns = 0
        self._since = (0, 0, 0)

    def skips(self) -> bool:
        """Whether this frame is left out."""
        if not self._skip:
            return False
        self._skip -= 1
        self.skipped += 1
        return True

    def frame(self, samples: Rows) -> None:
        """Call at each frame that is drawn, in the thread that draws."""
        cpu_ns = self._clock.thread_ns()
        self.frame_ms = (cpu_ns - self._frame_cpu_ns) / 1e6
        self._frame_cpu_ns = cpu_ns
        self._frames += 1
        if self._frames > _WARM_UP:
            self._skip = min(_MOST_SKIPPED, int(self.frame_ms / DEAR_MS))
        self._say(samples, cpu_ns)

    def _say(self, samples: Rows, cpu_ns: int) -> None:
        now, others = self._clock.now_ns(), self._own_cpu_ns() if self._own_cpu_ns else 0
        before, before_cpu, before_others = self._since
        if now - before < _WORDS_S * 1e9:
            return
        self._since = (now, cpu_ns, others)
        if self._frames <= _WARM_UP:
            return
        share = (cpu_ns - before_cpu + others - before_others) / (now - before)
        if self._own_cpu_ns is None and len(samples) and not units.is_missing(float(samples[-1]["own_cores"])):
            share += float(samples[-1]["own_cores"])
        skipped = f", {units.count(self.skipped)} skipped" if self.skipped else ""
        self.words = f"tfwatch {share * 100:.1f} % of a core{skipped}"

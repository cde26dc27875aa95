"""The CPU time of a frame, which limits how many are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfwatch.core.clock import Clock
    from tfwatch.runs.snapshot import Snapshot

#: A frame that costs more takes a tenth of its quarter second: the next frames are skipped to make
#: up for it.
COSTLY_FRAME_MS = 25.0
#: The same where all cores are busy, so that a frame takes CPU from the training: a fiftieth.
COSTLY_FRAME_ON_FULL_CPU_MS = 5.0
_FULL = 0.9
_MOST_SKIPPED = 3
#: The first frames build the screen and cost more than the later ones.
_WARM_UP = 4
#: The newest frame's weight in the running mean.
_NEWEST = 0.25
#: Samples come twice a second.
_FRESH_S = 2.0


class FrameMeter:
    """Measures the CPU time of reading, judging and drawing from frame to frame."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._frames = self._skip = self._cpu_ns = 0
        self._mean_ms = 0.0

    def skips(self) -> bool:
        """Return True where this frame is skipped."""
        if not self._skip:
            return False
        self._skip -= 1
        return True

    def frame(self, snapshot: Snapshot, others_ns: int = 0) -> None:
        """Record a frame; call it in the drawing thread, once for each frame that is drawn.

        others_ns: the CPU time that other threads have taken for the frames so far.
        """
        before, self._cpu_ns = self._cpu_ns, self._clock.thread_ns() + others_ns
        frame_ms = (self._cpu_ns - before) / 1e6
        self._frames += 1
        if self._frames > _WARM_UP:
            self._mean_ms += _NEWEST * (frame_ms - self._mean_ms) if self._mean_ms else frame_ms
            costly = COSTLY_FRAME_ON_FULL_CPU_MS if _is_full(snapshot) else COSTLY_FRAME_MS
            self._skip = min(_MOST_SKIPPED, int(self._mean_ms / costly))


def _is_full(snapshot: Snapshot) -> bool:
    """Return True where all cores are busy, by the newest sample of a run that is not over."""
    newest = snapshot.samples[-1:]
    if snapshot.life.is_over or not len(newest):
        return False
    is_fresh = float(newest["at_ns"][0]) / 1e9 >= snapshot.now_s - _FRESH_S
    cores = snapshot.manifest.machine.get("cores") or 0
    return is_fresh and float(newest["cpu_cores"][0]) >= _FULL * cores > 0

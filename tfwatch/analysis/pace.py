"""How fast a run goes and how long it still takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfwatch.core.rows import Rows

_WINDOW_S = 60.0


def left_s(progress: Rows, steps: int | None) -> float | None:
    """Seconds until step `steps`, at the pace of the last minute, pauses included; None where it cannot be told.

    `progress` holds rows of `core.rows.PROGRESS`.
    """
    if steps is None or len(progress) < 2:
        return None
    recent = progress[-256:]
    recent = recent[recent["at_ns"] >= recent["at_ns"][-1] - _WINDOW_S * 1e9]
    took_s = (float(recent["at_ns"][-1]) - float(recent["at_ns"][0])) / 1e9
    done = int(recent["step"][-1]) - int(recent["step"][0])
    if done <= 0 or took_s < 1.0:
        return None
    return max(0, steps - int(recent["step"][-1])) * took_s / done

"""What changes once a second takes turns, a frame each, so that no frame has to pay for all of it."""

from __future__ import annotations

import math
from enum import IntEnum

_FRAMES = 4


class Turn(IntEnum):
    """Which frame of a second. What is found in one is shown in the next."""

    SEARCH = 0
    JUDGE = 1
    MACHINE = 2
    HEADER = 3


def second_of(now_s: float, turn: Turn) -> int:
    """A number that changes once a second, in the frame of this turn."""
    return math.floor(now_s - turn / _FRAMES)

"""A schedule within each second: what is due once a second has a frame of its own, so that no frame does it all."""

from __future__ import annotations

import math
from enum import IntEnum

_FRAMES = 4


class Slot(IntEnum):
    """A frame of each second. The results of one are shown in the next."""

    SEARCH = 0
    JUDGE = 1
    MACHINE = 2
    HEADER = 3


def second_of(now_s: float, slot: Slot) -> int:
    """A number that changes once a second, in the frame of this slot."""
    return math.floor(now_s - slot / _FRAMES)

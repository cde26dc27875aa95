"""The one place that asks Python where each of its threads stands."""

from __future__ import annotations

import gc
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

#: Python 3.11 makes frame objects while it holds the lock that each thread needs to begin or end, and a garbage
#: collection that this starts may hand the interpreter to such a thread: both wait for ever, and the training with
#: them (https://github.com/python/cpython/issues/106883). Seen in 3.11.2 and 3.11.7; not in 3.10, 3.12 and 3.13.
DEADLOCKS = sys.version_info[:2] == (3, 11)
_one_at_a_time = threading.Lock()


def of_threads() -> dict[int, FrameType]:
    """The frame in which each thread stands, by the thread's identifier. Where `DEADLOCKS`, without a collection."""
    if not DEADLOCKS:
        return sys._current_frames()
    with _one_at_a_time:
        collects = gc.isenabled()
        gc.disable()
        try:
            return sys._current_frames()
        finally:
            if collects:
                gc.enable()

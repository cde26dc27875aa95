"""The frames of Python's threads, without a deadlock in Python 3.11."""

from __future__ import annotations

import gc
import operator
import sys
import threading
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

#: Python 3.11 creates frame objects while it holds the lock that each thread needs to begin or end. A garbage
#: collection that this starts may pass the interpreter to such a thread: both wait forever, and the training with
#: them (https://github.com/python/cpython/issues/106883). Seen in 3.11.2 and 3.11.7; not in 3.10, 3.12 and 3.13.
DEADLOCKS = sys.version_info[:2] == (3, 11)


def thread_frames() -> dict[int, FrameType]:
    """Return the current frame of each other thread, by thread identifier.

    Where `DEADLOCKS`, no garbage collection starts. The calling thread's own frame is left out: a reference to it is a
    cycle, which keeps everything that the others' frames hold alive until a collection.
    """
    frames = _without_collection() if DEADLOCKS else sys._current_frames()
    frames.pop(threading.get_ident(), None)
    return frames


def _without_collection() -> dict[int, FrameType]:
    while True:
        if got := _call_atomically(False, gc.isenabled, sys._current_frames):
            return got.pop()  # type: ignore[no-any-return]
        try:
            got = _call_atomically(True, gc.isenabled, gc.disable, sys._current_frames, gc.enable)
        except Exception:  # a user's audit hook may raise anything
            gc.enable()
            raise
        if got:
            return got.pop(2)  # type: ignore[no-any-return]


def _call_atomically(expected: bool, *functions: Callable[[], Any]) -> list[Any]:
    """Return the result of each function, or nothing where the first result is not the expected one.

    Python can switch threads between two lines of Python, but not between these functions: they and their callers are
    C. So no other thread's `gc.disable()` comes in between, and none is undone.
    """
    return list(takewhile(partial(operator.is_not, not expected), map(operator.call, functions)))

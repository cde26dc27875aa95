"""The one place that asks Python where each of its threads stands."""

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

#: Python 3.11 makes frame objects while it holds the lock that each thread needs to begin or end, and a garbage
#: collection that this starts may hand the interpreter to such a thread: both wait for ever, and the training with
#: them (https://github.com/python/cpython/issues/106883). Seen in 3.11.2 and 3.11.7; not in 3.10, 3.12 and 3.13.
DEADLOCKS = sys.version_info[:2] == (3, 11)


def of_threads() -> dict[int, FrameType]:
    """The frame in which each other thread stands, by the thread's identifier. Where `DEADLOCKS`, without a collection.

    The calling thread's own is left out: whoever keeps that keeps himself, and all that the others' frames hold, until
    a collection.
    """
    frames = _without_collection() if DEADLOCKS else sys._current_frames()
    frames.pop(threading.get_ident(), None)
    return frames


def _without_collection() -> dict[int, FrameType]:
    while True:
        if got := _at_once(False, gc.isenabled, sys._current_frames):
            return got.pop()  # type: ignore[no-any-return]
        try:
            got = _at_once(True, gc.isenabled, gc.disable, sys._current_frames, gc.enable)
        except Exception:  # an audit hook of the user's may raise anything
            gc.enable()
            raise
        if got:
            return got.pop(2)  # type: ignore[no-any-return]


def _at_once(expected: bool, *functions: Callable[[], Any]) -> list[Any]:
    """What each function gives, or nothing where the first one does not give what is expected.

    Python lets another thread on between two lines of Python, but not between these functions, which are C as all that
    calls them is: so no thread's own `gc.disable()` can come in between, and none is taken back.
    """
    return list(takewhile(partial(operator.is_not, not expected), map(operator.call, functions)))

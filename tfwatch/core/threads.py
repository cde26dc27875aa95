"""The frames of Python's threads, without a deadlock or a crash in Python 3.11."""

from __future__ import annotations

import gc
import operator
import sys
import threading
from functools import partial
from itertools import accumulate, chain, repeat, takewhile
from typing import TYPE_CHECKING, Any

from tfwatch.core.errors import raise_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

#: Python 3.11 creates frame objects while it holds the lock that each thread needs to begin or end.
#: A garbage collection that this starts may pass the interpreter to such a thread: both wait
#: forever, and the training with them (https://github.com/python/cpython/issues/106883). Seen in
#: 3.11.2 and 3.11.7; not in 3.10, 3.12 and 3.13. So it is with a caller and the variables of a
#: frame: the thread goes on meanwhile, and Python reads freed memory.
DEADLOCKS = sys.version_info[:2] == (3, 11)


def thread_frames() -> dict[int, FrameType]:
    """Return the current frame of each other thread, by thread identifier.

    Where `DEADLOCKS`, no garbage collection starts. The calling thread's own frame is left out: a
    reference to it is a cycle, which keeps everything that the others' frames hold alive until a
    collection.
    """
    frames: dict[int, FrameType] = _without_collection(sys._current_frames)
    frames.pop(threading.get_ident(), None)
    return frames


def with_callers(frame: FrameType) -> list[FrameType]:
    """Return a frame of another thread and its callers, the innermost first."""
    callers: Iterator[Any] = accumulate(chain[Any]((frame,), repeat("f_back")), getattr)
    frames: list[FrameType] = _without_collection(
        partial(list, takewhile(partial(operator.is_not, None), callers))
    )
    return frames


def variable_of(frame: FrameType, name: str) -> Any:
    """Return a variable of a frame of another thread; None without one."""
    return _without_collection(partial(getattr, frame, "f_locals")).get(name)


def _without_collection(read: Callable[[], Any]) -> Any:
    """Return what `read` returns, a function in C. Where `DEADLOCKS`, no garbage collection starts
    in it."""
    if not DEADLOCKS:
        return read()
    while True:
        if got := _call_atomically(False, gc.isenabled, read):
            return got.pop()
        try:
            got = _call_atomically(True, gc.isenabled, gc.disable, read, gc.enable)
        except Exception as error:  # a user's audit hook may raise anything
            raise_interrupt(error)
            gc.enable()
            raise
        if got:
            return got.pop(2)


def _call_atomically(expected: bool, *functions: Callable[[], Any]) -> list[Any]:
    """Return the result of each function, or nothing where the first result is not the expected
    one.

    Python can switch threads between two lines of Python, but not between these functions: they and
    their callers are C. So no other thread's `gc.disable()` comes in between, and none is undone.
    """
    return list(takewhile(partial(operator.is_not, not expected), map(operator.call, functions)))

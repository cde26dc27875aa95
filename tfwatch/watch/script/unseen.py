"""Hides tfwatch from the script of its process: its threads, and its frames from a debugger."""

from __future__ import annotations

import functools
import os
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType, TracebackType

#: The names of tfwatch's threads begin with it.
_PREFIX = "tfwatch-"
#: The program whose frames call the script.
_BOOTSTRAP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bootstrap.py")


def hide_own_threads() -> None:
    """Leave tfwatch's threads out of `threading.enumerate` and `threading.active_count`.

    A script that joins all threads would wait for them: until its run ends, a minute after its last
    step.
    """
    every = threading.enumerate

    @functools.wraps(every)
    def others() -> list[threading.Thread]:
        return [thread for thread in every() if not thread.name.startswith(_PREFIX)]

    @functools.wraps(threading.active_count)
    def count() -> int:
        return len(others())

    threading.enumerate = others
    threading.active_count = count


def hide_own_frames(debugger: Any) -> None:
    """Leave the frames that call the script out of the stack of pdb, and of what derives from it.

    debugger: the module `bdb`.
    """
    every = debugger.Bdb.get_stack

    @functools.wraps(every)
    def get_stack(
        self: Any, frame: FrameType | None, trace: TracebackType | None
    ) -> tuple[list[tuple[FrameType, int]], int]:
        stack, current = every(self, frame, trace)
        own = 0
        while own < current and stack[own][0].f_code.co_filename == _BOOTSTRAP:
            own += 1
        return stack[own:], current - own

    debugger.Bdb.get_stack = get_stack

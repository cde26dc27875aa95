"""The threads of tfwatch within a script's process: the script does not see them."""

from __future__ import annotations

import functools
import threading

#: The names of tfwatch's threads begin with it.
_PREFIX = "tfwatch-"


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

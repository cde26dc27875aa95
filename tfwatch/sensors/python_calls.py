"""Python that TensorFlow calls within a step: a `py_function` of the step, a map or a generator of its data set.

In rows and pulses a fetch within a call, or a call, that hangs looks like one that waits for another rank.
"""

from __future__ import annotations

import os
import sysconfig
from typing import TYPE_CHECKING

from tfwatch.core.rows import Phase
from tfwatch.core.threads import thread_frames, with_callers

if TYPE_CHECKING:
    from types import FrameType

    from tfwatch.runs.writer import RunWriter

#: A phase that lasts longer is looked into, and again after so long: reading frames takes Python's lock.
LASTS_NS, AGAIN_NS = 2_000_000_000, 1_000_000_000
_PHASES = (Phase.WAIT, Phase.COMPUTE)
#: The module through which TensorFlow calls Python.
_CALLER = os.path.join("tensorflow", "python", "ops", "script_ops.py")
_LIBRARIES = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")})


class PythonCalls:
    """Names the Python that runs in a long data wait or call, between calls of `poll`."""

    def __init__(self, writer: RunWriter) -> None:
        self._writer = writer
        self._due_ns = 0

    def poll(self) -> None:
        """Check once."""
        phase, since_ns, *_ = self._writer.status
        now_ns = self._writer.now_ns()
        if phase not in _PHASES or now_ns < max(since_ns + LASTS_NS, self._due_ns):
            return
        self._due_ns = now_ns + AGAIN_NS
        name = python_in_call()
        if self._writer.status[1] == since_ns:
            self._writer.current_callback = (since_ns, name)


def python_in_call() -> str:
    """Return the function that a thread runs for TensorFlow, as `read (train.py:11)`; empty where none does."""
    names = map(_called_by_tensorflow, thread_frames().values())
    return next(filter(None, names), "")


def _called_by_tensorflow(thread: FrameType) -> str:
    """Return the innermost function of the user that TensorFlow has called in a thread; else the innermost one."""
    own = innermost = ""
    for frame in with_callers(thread):
        path = frame.f_code.co_filename
        if path.endswith(_CALLER):
            return own or innermost
        name = f"{frame.f_code.co_name} ({os.path.basename(path)}:{frame.f_lineno})"
        innermost = innermost or name
        own = own or ("" if path.startswith(_LIBRARIES) else name)
    return ""

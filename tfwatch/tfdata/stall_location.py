"""Locate a stall: the line of Python that runs while the training waits for a batch, and the CPU used meanwhile."""

from __future__ import annotations

import math
import os
import site
import sysconfig
import traceback
from typing import TYPE_CHECKING, Any

from tfwatch.core.rows import Phase
from tfwatch.core.threads import thread_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType

    from tfwatch.runs.writer import RunWriter

#: In a thread of tf.data's, a generator or a py_function runs below this file of TensorFlow's.
_FROM_TENSORFLOW = os.path.join("ops", "script_ops.py")
#: The files of AutoGraph's copies of functions.
_GENERATED = "__autograph_generated_file"
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
#: Code that is neither the user's nor a workload's.
_LIBRARIES = tuple(
    {
        *(os.path.join(path, "") for path in (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")) if path),
        *(os.path.join(path, "") for path in site.getsitepackages()),
        *(os.path.join(_HERE, room, "") for room in ("tfdata", "training", "watch")),
    }
)


def find_running_line(training_thread: int, frames: Mapping[int, FrameType] | None = None) -> tuple[str, str]:
    """Return the running line, e.g. `feed.py:41 in rows`, and its owner: `generator`, else `training`.

    trains_in: the identifier of the training thread. frames: of each thread. Both results are empty if no Python runs.
    """
    frames = thread_frames() if frames is None else frames
    for thread, frame in frames.items():
        inside = _called_by_tensorflow(frame) if thread != training_thread else []
        if inside:
            return _describe(inside), "generator"
    stack = (
        [frame for frame, _ in traceback.walk_stack(frames.get(training_thread))] if training_thread in frames else []
    )
    return (_describe(stack), "training") if stack else ("", "")


def _called_by_tensorflow(frame: FrameType) -> list[FrameType]:
    """Return the frames of user code that TensorFlow called in this thread, innermost first."""
    stack = [one for one, _ in traceback.walk_stack(frame)]
    called = next((n for n, one in enumerate(stack) if one.f_code.co_filename.endswith(_FROM_TENSORFLOW)), 0)
    return [one for one in stack[:called] if not os.path.basename(one.f_code.co_filename).startswith(_GENERATED)]


def _describe(stack: list[FrameType]) -> str:
    """Return the innermost frame outside libraries, or the innermost frame if all are in libraries."""
    own = next((frame for frame in stack if not frame.f_code.co_filename.startswith(_LIBRARIES)), stack[0])
    return f"{os.path.basename(own.f_code.co_filename)}:{own.f_lineno} in {own.f_code.co_name}"


_SAMPLE_S = 0.003
_MIN_WAIT_NS = 6_000_000


class WaitCpu:
    """The CPU that the process uses while its training waits for a batch: then only the pipeline works.

    wait: sleeps for seconds. One thread calls `sample` and `cores`.
    """

    def __init__(self, writer: RunWriter, wait: Callable[[float], Any]) -> None:
        self._writer = writer
        self._wait = wait
        self._cpu_ns = 0
        self._wall_ns = 0

    def sample(self) -> None:
        """If the training waits, measure the CPU that the process uses in a few milliseconds."""
        clock, status = self._writer.clock, self._writer.status
        if status[0] is not Phase.WAIT:
            return
        wall_ns, cpu_ns = clock.now_ns(), clock.process_ns()
        self._wait(_SAMPLE_S)
        if self._writer.status[:2] == status[:2]:
            self._wall_ns += clock.now_ns() - wall_ns
            self._cpu_ns += clock.process_ns() - cpu_ns

    def cores(self) -> float:
        """Return the cores in use since the last call; NaN if the training hardly waited."""
        cpu_ns, wall_ns = self._cpu_ns, self._wall_ns
        self._cpu_ns = self._wall_ns = 0
        return cpu_ns / wall_ns if wall_ns >= _MIN_WAIT_NS else math.nan

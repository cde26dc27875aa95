"""Where the training stands while it waits for a batch: the line of Python, and what the process does meanwhile.

The line of Python in which the training, or a generator of its input pipeline, stands.

What the process does while its training waits for a batch.
"""

from __future__ import annotations

import math
import os
import site
import sysconfig
import traceback
from typing import TYPE_CHECKING, Any

from tfwatch.core.rows import Phase
from tfwatch.core.threads import of_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType

    from tfwatch.runs.writer import RunWriter

#: Below this function of TensorFlow's, in a thread of tf.data's, runs what a generator or a py_function does.
_FROM_TENSORFLOW = os.path.join("ops", "script_ops.py")
#: Autograph's copies of functions.
_GENERATED = "__autograph_generated_file"
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
#: What is not the user's own code, nor a workload's.
_LIBRARIES = tuple(
    {
        *(os.path.join(path, "") for path in (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")) if path),
        *(os.path.join(path, "") for path in site.getsitepackages()),
        *(os.path.join(_HERE, room, "") for room in ("tfdata", "training", "watch")),
    }
)


def standing(trains_in: int, frames: Mapping[int, FrameType] | None = None) -> tuple[str, str]:
    """Where Python stands, e.g. `feed.py:41 in rows`, and whose line that is: `generator`, else `training`.

    trains_in: the identifier of the thread that trains. Both are empty where no Python runs. frames: of each thread.
    """
    frames = of_threads() if frames is None else frames
    for thread, frame in frames.items():
        inside = _below_tensorflow(frame) if thread != trains_in else []
        if inside:
            return _place(inside), "generator"
    stack = [frame for frame, _ in traceback.walk_stack(frames.get(trains_in))] if trains_in in frames else []
    return (_place(stack), "training") if stack else ("", "")


def _below_tensorflow(frame: FrameType) -> list[FrameType]:
    """What TensorFlow called in this thread, innermost first; nothing where it called nothing that anybody wrote."""
    stack = [one for one, _ in traceback.walk_stack(frame)]
    called = next((n for n, one in enumerate(stack) if one.f_code.co_filename.endswith(_FROM_TENSORFLOW)), 0)
    return [one for one in stack[:called] if not os.path.basename(one.f_code.co_filename).startswith(_GENERATED)]


def _place(stack: list[FrameType]) -> str:
    """The innermost frame that is not a library's; the innermost of all where each is."""
    own = next((frame for frame in stack if not frame.f_code.co_filename.startswith(_LIBRARIES)), stack[0])
    return f"{os.path.basename(own.f_code.co_filename)}:{own.f_lineno} in {own.f_code.co_name}"


_LOOKED_S = 0.003
_LEAST_NS = 6_000_000


class Waits:
    """How much CPU the process uses while its training waits for a batch: then nothing but the pipeline works.

    look: called by one thread, as is `cores`.
    """

    def __init__(self, writer: RunWriter, wait: Callable[[float], Any]) -> None:
        """wait: stands still for seconds."""
        self._writer = writer
        self._wait = wait
        self._cpu_ns = 0
        self._wall_ns = 0

    def look(self) -> None:
        """Where the training waits, see what CPU goes in a few milliseconds of it."""
        clock, status = self._writer.clock, self._writer.status
        if status[0] is not Phase.WAIT:
            return
        wall_ns, cpu_ns = clock.now_ns(), clock.process_ns()
        self._wait(_LOOKED_S)
        if self._writer.status[:2] == status[:2]:
            self._wall_ns += clock.now_ns() - wall_ns
            self._cpu_ns += clock.process_ns() - cpu_ns

    def cores(self) -> float:
        """Cores in use since the call before; NaN where there was hardly a wait."""
        cpu_ns, wall_ns = self._cpu_ns, self._wall_ns
        self._cpu_ns = self._wall_ns = 0
        return cpu_ns / wall_ns if wall_ns >= _LEAST_NS else math.nan

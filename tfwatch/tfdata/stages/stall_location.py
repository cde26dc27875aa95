"""Locate a stall: the line of Python that runs while the training waits for a batch, and the CPU
used meanwhile."""

from __future__ import annotations

import math
import os
import sys
import sysconfig
from typing import TYPE_CHECKING, Any, TypeAlias

from tfwatch.core.rows import Phase
from tfwatch.core.threads import thread_frames, with_callers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import FrameType

    from tfwatch.runs.writer import RunWriter

#: In a thread of tf.data's, a generator or a py_function runs below this file of TensorFlow's.
_FROM_TENSORFLOW = os.path.join("ops", "script_ops.py")
#: The files of AutoGraph's copies of functions, and its module, which holds the source map of each
#: copy.
_GENERATED = "__autograph_generated_file"
_AUTOGRAPH = "tensorflow.python.autograph.impl.api"
_HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
#: Code that is neither the user's nor a workload's.
_LIBRARIES = tuple(
    {
        os.path.join(sysconfig.get_path("stdlib"), ""),
        *(os.path.join(_HERE, room, "") for room in ("tfdata", "training", "watch")),
    }
)
#: The folders that pip and Linux distributions install in, wherever they lie.
_INSTALLED = frozenset({"site-packages", "dist-packages"})


#: The lines of copies by AutoGraph, each as (file, line), with the lines that they were made of.
SourceMap: TypeAlias = "Mapping[tuple[str, int], Any]"


def find_running_line(
    training_thread: int,
    frames: Mapping[int, FrameType] | None = None,
    source_maps: Callable[[], Iterable[SourceMap]] | None = None,
) -> tuple[str, str]:
    """Return the user's running line, e.g. `feed.py:41 in rows`, and its owner: `generator`, else
    `training`.

    frames: of each thread. source_maps: of AutoGraph's copies. Both results are empty if no line of
    the user's runs.
    """
    frames = thread_frames() if frames is None else frames
    maps = source_maps or _source_maps
    stacks = (
        (_called_by_tensorflow(frame), "generator")
        for id_, frame in frames.items()
        if id_ != training_thread
    )
    own = [(with_callers(frames[training_thread]), "training")] if training_thread in frames else []
    places = ((_describe(stack, maps), owner) for stack, owner in (*stacks, *own))
    return next(((place, owner) for place, owner in places if place), ("", ""))


def _called_by_tensorflow(frame: FrameType) -> list[FrameType]:
    """Return the frames that TensorFlow called in this thread, innermost first."""
    stack = with_callers(frame)
    called = next(
        (n for n, one in enumerate(stack) if one.f_code.co_filename.endswith(_FROM_TENSORFLOW)), 0
    )
    return stack[:called]


def _describe(stack: list[FrameType], maps: Callable[[], Iterable[SourceMap]]) -> str:
    """Return the innermost line outside libraries; empty if all are in libraries."""
    for frame in stack:
        file, line, name = frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
        if os.path.basename(file).startswith(_GENERATED):
            file, line, name = _original(file, line, maps())
        if file and not _is_library(file):
            return f"{os.path.basename(file)}:{line} in {name}"
    return ""


def _is_library(file: str) -> bool:
    """Return whether a file is a library's: also one of another environment that is on the path, or
    of the user's."""
    return file.startswith(_LIBRARIES) or not _INSTALLED.isdisjoint(file.split(os.sep))


def _original(file: str, line: int, maps: Iterable[SourceMap]) -> tuple[str, int, str]:
    """Return file, line and function that a line of AutoGraph's copy was made of; an empty file
    where unknown."""
    origin = next((place for source_map in maps if (place := source_map.get((file, line)))), None)
    return (origin.loc.filename, origin.loc.lineno, origin.function_name) if origin else ("", 0, "")


def _source_maps() -> list[SourceMap]:
    """Return the source maps of AutoGraph's copies; none where TensorFlow keeps them elsewhere."""
    try:
        copies = vars(sys.modules[_AUTOGRAPH])["_TRANSPILER"]._cache._cache
        return [
            factory.source_map
            for by_options in list(copies.values())
            for factory in list(by_options.values())
        ]
    except (AttributeError, KeyError, RuntimeError, TypeError):
        return []


_SAMPLE_S = 0.003
_MIN_WAIT_NS = 6_000_000


class WaitCpu:
    """The CPU that the process uses while its training waits for a batch: then only the pipeline
    works.

    wait: sleeps for seconds. One thread calls `sample` and `cores`.
    """

    def __init__(self, writer: RunWriter, wait: Callable[[float], Any]) -> None:
        self._writer = writer
        self._wait = wait
        self._cpu_ns = 0
        self._wall_ns = 0

    def sample(self) -> None:
        """Measure the CPU that the process uses in a few milliseconds, if the training waits."""
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

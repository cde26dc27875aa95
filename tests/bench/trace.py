"""The time that the first GPU runs kernels and copies, from TensorFlow's device trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

PLANE = "/device:GPU:0"
#: The lines of its streams: the others are derived from these.
STREAM = "Stream"
#: Nanoseconds since 1970 are above it (2001), those since a trace's start below.
_SINCE_1970_NS = 10**18


class Busy:
    """The time that the first GPU runs a kernel or a copy on any stream; `any` is False without a
    GPU in the trace."""

    def __init__(self, folder: Path) -> None:
        spans = np.array([*_spans(folder)], np.int64).reshape(-1, 2)
        self.any = bool(len(spans))
        # Nanoseconds since 1970 have more digits than a float.
        self._first_ns = int(spans.min()) if self.any else 0
        if self.any:
            self._times, self._busy = busy_until(spans - self._first_ns)

    def within_ns(self, spans: Iterable[Sequence[int]]) -> float:
        """Return the nanoseconds of work within spans of time."""
        edges = np.array(list(spans), np.int64)
        if not self.any or not edges.size:
            return 0.0
        ran = np.interp((edges - self._first_ns).ravel(), self._times, self._busy).reshape(-1, 2)
        return float((ran[:, 1] - ran[:, 0]).sum())


def trace(folder: Path, measure: Callable[[], None]) -> Busy:
    """Run `measure` under one device trace that is written below `folder`."""
    tf.profiler.experimental.start(
        str(folder), tf.profiler.experimental.ProfilerOptions(host_tracer_level=1)
    )
    try:
        measure()
    finally:
        tf.profiler.experimental.stop()
    return Busy(folder)


def busy_until(spans: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return instants in order and, for each, the total time covered by the spans until then."""
    spans = spans[np.argsort(spans[:, 0])]
    starts, ends = spans[:, 0], np.maximum.accumulate(spans[:, 1])
    apart = starts[1:] > ends[:-1]
    starts, ends = starts[np.r_[True, apart]], ends[np.r_[apart, True]]
    ran = np.cumsum(ends - starts)
    return (
        np.stack([starts, ends], axis=1).ravel(),
        np.stack([ran - (ends - starts), ran], axis=1).ravel(),
    )


def _spans(folder: Path) -> Iterator[tuple[int, int]]:
    for path in sorted(folder.rglob("*.xplane.pb")):
        space = xplane_pb2.XSpace.FromString(path.read_bytes())
        planes = [plane for plane in space.planes if plane.name == PLANE]
        for line in (line for plane in planes for line in plane.lines):
            if line.name.startswith(STREAM):
                is_absolute = line.timestamp_ns > _SINCE_1970_NS
                line_ns = line.timestamp_ns + (0 if is_absolute else _started_ns(space))
                for event in line.events:
                    from_ns = line_ns + event.offset_ps // 1000
                    yield from_ns, from_ns + event.duration_ps // 1000


def _started_ns(space: Any) -> int:
    """Return the begin of the trace, from which its instants count, in nanoseconds since 1970; 0
    where unknown."""
    for plane in space.planes:
        for stat in plane.stats:
            if plane.stat_metadata[stat.metadata_id].name == "profile_start_time":
                return int(stat.uint64_value or stat.int64_value)
    return 0

"""What a step takes when batches are made one after another, ahead of it, or by several workers: formulas alone.

Milliseconds throughout. D is what making a batch takes, C + H (`work`) what a step does with it on the device and after
it on the host.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

#: What taking a batch from a prefetch buffer costs over nothing: 0.2 ms on an H200, 0.1 to 0.4 on two cores.
HAND_OVER_MS = 0.2


def in_turn(data_ms: float, work_ms: float) -> float:
    """D + C + H: nothing works ahead, so that each batch is waited for in full."""
    return data_ms + work_ms


def overlapped(data_ms: float, work_ms: float) -> float:
    """max(D, C + H) and a little: a batch is made while the step before it runs.

    The bound of a two-stage pipeline. Held within 5 % on an H200 with loaders of 5 to 40 ms against steps of 13.4
    (CONTRIBUTING.md, Measured).
    """
    return max(data_ms, work_ms + HAND_OVER_MS)


def queued(data_ms: Sequence[float], work_ms: Sequence[float], depth: int) -> NDArray[np.float64]:
    """The steps of a training over these batches behind a buffer of `depth` of them, shape [len(data_ms)].

    Batch i is begun when i - 1 is made and i - depth is taken, as tf.data's prefetch does, and is taken when it is made
    and step i - 1 is over: Lindley's recursion with a finite buffer. The series runs twice, and the second pass is
    given: the first begins with an empty buffer.
    """
    taken = deque([0.0] * depth, maxlen=depth)
    made = ready = 0.0
    overs = []
    # Most of what a forecast costs: calls of `max` made it take 1.6 times as long.
    for data, work in (*zip(data_ms, work_ms, strict=True),) * 2:
        oldest = taken[0]
        made = (oldest if oldest > made else made) + data
        take = made if made > ready else ready
        taken.append(take)
        ready = take + work
        overs.append(ready)
    return np.diff(overs, prepend=0.0)[len(data_ms) :]


def partly_ahead(data_ms: float, work_ms: float, share: float) -> float:
    """A pipeline that makes `share` (0 to 1) of the next batch ahead while a step runs, and the rest when asked."""
    return data_ms + work_ms - min(share * data_ms, work_ms)


def shared_cores(core_ms: float, cores: float) -> float:
    """The shortest step for work of `core_ms` core milliseconds on so many cores, whatever overlaps: work is conserved.

    NaN where one of them is not known.
    """
    return core_ms / cores if cores > 0 else math.nan


def by_workers(parallel_ms: float, serial_ms: float, workers: float, cores: float) -> float:
    """A batch whose maps run on `workers` threads: work / min(workers, free cores); the serial rest stays beside it.

    The maps of one batch run while the serial rest of another does, so that the slower of the two bounds the rate
    (tf.data: each parallel map is a stage of its own).
    """
    return max(parallel_ms / max(min(workers, cores), 1.0), serial_ms)

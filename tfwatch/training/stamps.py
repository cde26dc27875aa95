"""From clock readings inside the graph to the parts of each step: numpy only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: Of readings of two clocks, one after the other, so many are tried until they lie as close as this.
_TRIES = 5
_CLOSE_NS = 20_000
#: A wall clock that moves against the run's clock by more than this, and by more than this share of the time, was set:
#: what keeps it right moves it by 0.0005 of the time at most (adjtimex's limit).
_SET_NS = 1_000_000
_SET_SHARE = 0.001


def offset_ns(now_ns: Callable[[], int], wall_ns: Callable[[], int]) -> int:
    """What has to be added to the wall clock to get the run's clock, to within 10 us on an idle machine."""
    best_ns, offset = 0, 0
    for tried in range(_TRIES):
        before, wall, after = now_ns(), wall_ns(), now_ns()
        if not tried or after - before < best_ns:
            best_ns, offset = after - before, (before + after) // 2 - wall
        if best_ns < _CLOSE_NS:
            break
    return offset


def was_set(moved_ns: int, passed_ns: int) -> bool:
    """Whether the wall clock, which moved by `moved_ns` against the run's in `passed_ns`, was set."""
    return abs(moved_ns) > max(_SET_NS, _SET_SHARE * passed_ns)


@dataclass(frozen=True, slots=True)
class Parts:
    """The steps of one call, each beginning where the last one ended.

    start_ns: of each step, on the run's clock. wait_ms, compute_ms: of each step. call_ms: from the call to the first
    fetch, which the first step's compute contains.
    """

    start_ns: NDArray[np.int64]
    wait_ms: Floats
    compute_ms: Floats
    call_ms: float


def parts_of(start_ns: int, end_ns: int, runs: Sequence[Floats]) -> Parts:
    """The parts of the steps between a call's start and its end; one step or more.

    Each run is one execution of the graph, (steps + 1, 2) nanoseconds on the run's clock: first when it began and
    when its first batch was there, then for each step when it was done and when the batch after it was there.

    A batch that is fetched while a step computes makes nobody wait: a step's wait is what is left of the fetch once
    the step before is done. wait + compute of all steps is the whole call: launching it counts as compute of the
    first step, bringing the metrics to the host as compute of the last.
    """
    got = np.concatenate([run[:-1, 1] for run in runs])
    done = np.concatenate([run[1:, 0] for run in runs])
    edges = np.empty(2 * len(done) + 1)
    edges[0], edges[1::2], edges[2::2] = runs[0][0, 0], got, done
    edges = np.maximum.accumulate(np.clip(edges, start_ns, end_ns))
    edges[-1] = end_ns
    wait_ms, compute_ms = np.diff(edges)[::2] / 1e6, np.diff(edges)[1::2] / 1e6
    call_ms = float(edges[0] - start_ns) / 1e6
    compute_ms[0] += call_ms
    starts_ns = np.concatenate([[start_ns], edges[2:-1:2]]).astype(np.int64)
    return Parts(starts_ns, wait_ms, compute_ms, call_ms)

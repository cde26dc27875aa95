"""The steps of several ranks, aligned by their numbers.

Clocks of machines differ, and so do the starts of runs: a step's number is the only thing that all
ranks share. A cycle is the time between the ends of two calls: the Python after the call before,
the fetch of a batch, and the call itself, in which the ranks wait for one another.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from tfwatch.core.rows import plausible_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tfwatch.core.rows import Rows

    Times = NDArray[np.float64]

#: Steps at the start of a run that count for nothing: they compile, and fill buffers.
WARM_UP = 5


@dataclass(frozen=True, slots=True)
class Machine:
    """Figures of a rank's machine over the aligned steps; None where they are not known."""

    #: CPU cores that its process uses.
    cores: float | None = None
    #: Of its GPU.
    clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None


NOT_KNOWN = Machine()


@dataclass(frozen=True, slots=True)
class RankSteps:
    """The record of a rank."""

    rank: int
    #: Of `core.rows.STEP`.
    rows: Rows
    machine: Machine = NOT_KNOWN
    #: Its calls fetch batches themselves, so that its data wait is a part of the call.
    fetches_in_calls: bool = False


@dataclass(frozen=True, slots=True)
class Aligned:
    """The cycles that all ranks have, milliseconds, a row a rank in the order of `ranks`."""

    ranks: tuple[RankSteps, ...]
    #: Their numbers.
    steps: NDArray[np.int64]
    #: For data.
    wait: Times
    #: The Python after the call before.
    host: Times
    #: With the wait for other ranks.
    call: Times

    @property
    def own(self) -> Times:
        """The time of each rank before its call."""
        return self.wait + self.host

    @property
    def shared(self) -> Times:
        """The shortest call of each cycle: that of the rank which comes last, and waits for
        nobody."""
        shared_ms: Times = self.call.min(axis=0)
        return shared_ms

    @property
    def cycle(self) -> Times:
        """The duration of each cycle of the group: the last rank's time before its call, and the
        shortest call."""
        cycle_ms: Times = self.own.max(axis=0) + self.shared
        return cycle_ms


def align(ranks: Sequence[RankSteps]) -> Aligned:
    """Align the steps that all ranks have; steps with a flag at some rank (compile, switch) are
    left out."""
    rows = [plausible_rows(rank.rows) for rank in ranks]
    plain = [of_rank["step"][_is_plain(of_rank)] for of_rank in rows]
    steps = reduce(_common, plain) if plain else np.empty(0, dtype=np.uint32)
    at = [np.searchsorted(of_rank["step"], steps) for of_rank in rows]
    parts = (("wait_ms", 0), ("host_ms", 1), ("compute_ms", 0))
    wait, host, call = (
        _times(
            [of_rank[name][places - before] for of_rank, places in zip(rows, at, strict=True)],
            len(steps),
        )
        for name, before in parts
    )
    return Aligned(tuple(ranks), steps.astype(np.int64), wait, host, call)


def _times(of_ranks: list[NDArray[Any]], count: int) -> Times:
    """Return a row a rank, also of no rank."""
    times: Times = np.array(of_ranks, dtype=np.float64).reshape(len(of_ranks), count)
    return times


def _common(one: NDArray[np.uint32], other: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the steps that both ranks have; in most blocks of a training they have the same
    ones."""
    return one if np.array_equal(one, other) else np.intersect1d(one, other)


def _is_plain(rows: Rows) -> NDArray[np.bool_]:
    """Return a mask of the steps without a flag, after the warm-up, whose step before was recorded
    too."""
    good = (rows["flags"] == 0) & (rows["step"] > WARM_UP)
    good[:1] = False
    good[1:] &= np.diff(rows["step"].astype(np.int64)) == 1
    mask: NDArray[np.bool_] = good
    return mask

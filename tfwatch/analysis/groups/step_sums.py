"""Sums over a group's steps, in buckets of equal numbers of steps: a million steps are drawn as fast as a thousand."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nlargest
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.analysis.groups.straggler import LongStep, find_long_steps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tfwatch.analysis.groups.aligned import Aligned, Times

#: Buckets; when the steps need more, two neighbours become one.
BUCKETS = 2048
#: Long steps that are kept, the longest ones.
MOST_LONG_STEPS = 10_000


@dataclass(frozen=True, eq=False)
class StepColumns:
    """Stretches of a group's steps. first, last: their steps; counts: of the steps that all ranks have.

    parts: means of the call, and of host and data wait of the rank that comes last, ms/step; 0 without a step.
    """

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    counts: NDArray[np.int64]
    parts: tuple[Times, Times, Times]


@dataclass(frozen=True, eq=False)
class GroupSteps:
    """A group's steps in sums. first, last: the first and the last step. long_steps: the longest ones first.

    width: steps of a bucket. sums: of the three parts of `Aligned.parts`, milliseconds, a row a part.
    """

    first: int
    last: int
    width: int
    counts: NDArray[np.int64]
    sums: Times
    long_steps: tuple[LongStep, ...]

    def columns(self, count: int) -> StepColumns:
        """Return at most so many columns of equal numbers of steps, as far as the buckets allow."""
        low, high = self.first // self.width, self.last // self.width + 1
        edges = np.linspace(low, high, min(count, high - low) + 1).astype(int)
        counts = np.add.reduceat(self.counts, edges[:-1])
        call, host, wait = np.add.reduceat(self.sums, edges[:-1], axis=1) / np.maximum(counts, 1)
        first = np.maximum(edges[:-1] * self.width, self.first)
        last = np.minimum(edges[1:] * self.width - 1, self.last)
        return StepColumns(first, last, counts, (call, host, wait))


class StepSums:
    """Adds up the steps of a group, block by block."""

    def __init__(self) -> None:
        self._width = 1
        self._counts = np.zeros(BUCKETS, dtype=np.int64)
        self._sums = np.zeros((3, BUCKETS))
        self._first: int | None = None
        self._last = 0
        self._long_steps: list[LongStep] = []

    def add(self, aligned: Aligned) -> None:
        """Add the next steps that all ranks have."""
        if not len(aligned.steps):
            return
        self._first = int(aligned.steps[0]) if self._first is None else self._first
        self._last = int(aligned.steps[-1])
        while self._last // self._width >= BUCKETS:
            self._halve()
        places = aligned.steps // self._width
        self._counts += np.bincount(places, minlength=BUCKETS)
        for sums, times in zip(self._sums, aligned.parts, strict=True):
            sums += np.bincount(places, weights=times, minlength=BUCKETS)
        long_steps = find_long_steps(aligned)
        self._long_steps = nlargest(
            MOST_LONG_STEPS, [*self._long_steps, *long_steps], key=attrgetter("lost_ms")
        )

    def copy(self) -> StepSums:
        """Return the same sums, to which other steps can be added."""
        sums = StepSums()
        sums._width, sums._first, sums._last = self._width, self._first, self._last
        sums._counts, sums._sums, sums._long_steps = (
            self._counts.copy(),
            self._sums.copy(),
            list(self._long_steps),
        )
        return sums

    def steps(self) -> GroupSteps | None:
        """Return the sums so far; None without a step."""
        if self._first is None:
            return None
        counts, sums = self._counts.copy(), self._sums.copy()
        return GroupSteps(
            self._first, self._last, self._width, counts, sums, tuple(self._long_steps)
        )

    def _halve(self) -> None:
        """Join each two neighbouring buckets."""
        self._width *= 2
        half = BUCKETS // 2
        self._counts = np.concatenate(
            [self._counts.reshape(half, 2).sum(axis=1), np.zeros(half, dtype=np.int64)]
        )
        self._sums = np.concatenate(
            [self._sums.reshape(3, half, 2).sum(axis=2), np.zeros((3, half))], axis=1
        )


def sum_up(aligned: Aligned) -> GroupSteps | None:
    """Return the sums of some steps; None without a step."""
    sums = StepSums()
    sums.add(aligned)
    return sums.steps()

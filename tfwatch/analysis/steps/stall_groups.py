"""The stalls of a run by their cost: the worst, the periodic ones as one group, and a menu that reaches each."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tfwatch.analysis.steps.patterns import LEAST_TIMES, find_period
from tfwatch.core import units

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tfwatch.analysis.steps.stalls import Stall

#: The stalls that come first in a menu.
WORST = 10


@dataclass(frozen=True, slots=True)
class StallGroup:
    """Stalls, oldest first. period: the steps from one to the next; 0 where they have none."""

    stalls: tuple[Stall, ...]
    period: int = 0

    @property
    def lost_ms(self) -> float:
        """The cost of all."""
        return sum(stall.lost_ms for stall in self.stalls)

    @property
    def start_ns(self) -> int:
        """The start of the first."""
        return self.stalls[0].start_ns


#: A row of a menu.
Row: TypeAlias = "Stall | StallGroup"


def period_text(steps: int, steps_per_epoch: int | None) -> str:
    """Return a period, in epochs where it is a whole number of them: `every 100 steps`, `every epoch`."""
    if not steps_per_epoch or steps % steps_per_epoch:
        return f"every {units.count(steps)} steps"
    epochs = steps // steps_per_epoch
    return "every epoch" if epochs == 1 else f"every {epochs} epochs"


def split_periodic(stalls: Iterable[Stall]) -> tuple[list[StallGroup], list[Stall]]:
    """Split stalls into groups that recur with one cause after a fixed number of steps, and all others.

    Both are ordered by cost, the worst first.
    """
    by_cause: dict[str, list[Stall]] = {}
    for stall in stalls:
        by_cause.setdefault(stall.cause, []).append(stall)
    groups, single = [], []
    for of_cause in by_cause.values():
        period = _period(of_cause)
        if period:
            groups.append(StallGroup(tuple(of_cause), period))
        else:
            single += of_cause
    return sorted(groups, key=attrgetter("lost_ms"), reverse=True), _worst_first(single)


def arrange(stalls: Sequence[Stall], room: int) -> list[Row]:
    """Arrange all stalls of a run in at most `room` rows: the worst, the periodic groups, and the rest by time."""
    groups, single = split_periodic(stalls)
    if len(single) + len(groups) <= room:
        return [*single, *groups]
    worst = min(WORST, room // 2)
    groups, more = groups[: room // 4], groups[room // 4 :]
    rest = [*single[worst:], *(stall for group in more for stall in group.stalls)]
    return [*single[:worst], *groups, *_by_time(rest, room - worst - len(groups), room)]


def arrange_group(group: StallGroup, room: int) -> list[Row]:
    """Arrange the stalls of a group in at most `room` rows, oldest first; too many in groups by time."""
    return list(group.stalls) if len(group.stalls) <= room else [*_by_time(group.stalls, room, room)]


def _by_time(stalls: Sequence[Stall], most_groups: int, room: int) -> list[StallGroup]:
    """Return stalls in as few groups of `room` as possible, at most `most_groups`."""
    ordered = sorted(stalls, key=attrgetter("start_ns"))
    count = min(-(-len(ordered) // room), most_groups)
    bounds = [len(ordered) * n // count for n in range(count + 1)]
    return [StallGroup(tuple(ordered[first:end])) for first, end in pairwise(bounds)]


def _worst_first(stalls: Iterable[Stall]) -> list[Stall]:
    return sorted(stalls, key=attrgetter("lost_ms"), reverse=True)


def _period(stalls: Sequence[Stall]) -> int | None:
    if len(stalls) < LEAST_TIMES:
        return None
    return find_period(np.diff(np.array([stall.step for stall in stalls], dtype=np.int64)))

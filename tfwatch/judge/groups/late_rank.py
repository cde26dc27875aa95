"""The rank that holds a group up, and the part of its time that is longer than that of the others.

Clocks of machines differ, and so do the starts of runs: ranks share the numbers of their steps
alone, and are aligned by these. A cycle is the time between the ends of two calls: the Python after
the call before, the fetch of a batch, and the call itself, in which the ranks wait for one another.

All ranks leave a collective together, so their steps are equally long, and the late rank looks like
the others. It shows where they meet: the rank that comes last waits for nobody, so its call is the
shortest. A rank whose call itself takes longer shows in no row of its own; there its process works
while those of the others wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core import units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tfwatch.core.rows import Rows

    Times = NDArray[np.float64]

#: Steps at the start of a run that count for nothing: they compile, and fill buffers.
WARM_UP = 5
#: Usual cycles for a finding.
NEEDED = 20
#: A tenth of the group's time is a warning, a fifth is critical.
WARNING_FROM, CRITICAL_FROM = 0.10, 0.20
#: A cycle that takes so many times the median one is an event, and no part of the usual step.
_EVENT = 3.0
#: CPU of a rank over that of the others, from which it computes more than they; a process has a
#: tenth for itself.
_MORE_CPU = 1.5
#: Below so many cores a process computes next to nothing: 1.3 ms of a step beside 0.3 ms is no
#: sign.
_LEAST_CORES = 0.4
#: A GPU clock below so much of the others' is slow.
_SLOW_CLOCK = 0.9


@dataclass(frozen=True, slots=True)
class RankSteps:
    """The record of a rank."""

    rank: int
    #: Of `core.rows.STEP`.
    rows: Rows
    #: CPU cores that its process uses, and the clock of its GPU; None where unknown.
    cores: float | None = None
    clock_mhz: float | None = None


@dataclass(frozen=True, slots=True)
class Cycles:
    """The usual cycles that all ranks have, milliseconds, a row a rank in the order of `ranks`."""

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
    def group_ms(self) -> float:
        """The mean cycle of the group: the last rank's time before its call, and the shortest
        call."""
        return float((self.own.max(axis=0) + self.shared).mean())

    @property
    def is_compute_known(self) -> bool:
        """True where a rank that computes longer would show: clocks or processor time of all ranks
        are known."""
        return bool(_known([one.clock_mhz for one in self.ranks]) or self.cores)

    @property
    def cores(self) -> list[float]:
        """The cores that each rank uses; nothing where one is not known."""
        return _known([one.cores for one in self.ranks])


def align(ranks: Sequence[RankSteps]) -> Cycles:
    """Align the steps that all ranks have, one rank at least; steps with a flag at some rank
    (compile, switch), and those that take long, are left out."""
    rows = [rank.rows for rank in ranks]
    plain = [of_rank["step"][_is_plain(of_rank)] for of_rank in rows]
    steps = reduce(_common, plain)
    at = [np.searchsorted(of_rank["step"], steps) for of_rank in rows]
    wait, host, call = (
        np.array([of[name][places - before] for of, places in zip(rows, at, strict=True)], float)
        for name, before in (("wait_ms", 0), ("host_ms", 1), ("compute_ms", 0))
    )
    cycles = wait + host + call
    usual = np.ones(len(steps), dtype=np.bool_)
    if cycles.size:
        longest_ms = _EVENT * float(np.median((wait + host).max(axis=0) + call.min(axis=0)))
        usual = np.logical_and.reduce(cycles <= longest_ms)
    numbers = steps.astype(np.int64)[usual]
    return Cycles(tuple(ranks), numbers, wait[:, usual], host[:, usual], call[:, usual])


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


# -- the late rank ---------------------------------------------------------------------------------


class Cause(Enum):
    """The part of a late rank's time that is longer than that of the others; in words, with what
    shows it, and the next thing to look at."""

    DATA_WAIT = (
        "data wait",
        "it waits {own} ms for data, the others {others}",
        "give it what the others have: as much data, as fast a disk, as many free cores",
    )
    HOST = (
        "host time",
        "its Python between two steps takes {own} ms, that of the others {others}",
        "take work out of its callbacks: only one rank may write and log, or all take turns",
    )
    COMPUTE = (
        "compute",
        "it computes longer, with {own} ms of CPU time a step; the others use {others}",
        "look for work that only this rank has: metrics, summaries, another program on its cores",
    )
    SLOW_GPU = (
        "a slower GPU",
        "its GPU runs at {own_mhz:.0f} MHz, those of the others at {others_mhz:.0f} MHz",
        "look at the temperature and the power limit of its GPU: nvidia-smi -q -d PERFORMANCE",
    )

    @property
    def label(self) -> str:
        """The part in words."""
        return self.value[0]


@dataclass(frozen=True, slots=True)
class Straggler:
    """The rank that the others wait for."""

    rank: int
    cause: Cause
    #: What shows the cause, its own and the median of the others': milliseconds a step; for a
    #: slower GPU the clock, MHz.
    own: float
    others: float
    #: Mean step of the group.
    group_ms: float
    #: By how much it would be shorter without this rank, from the recorded steps; at least so much
    #: where `is_least`.
    gain_ms: float

    @property
    def share(self) -> float:
        """The gain over the group's step, 0 to 1."""
        return self.gain_ms / self.group_ms if self.group_ms > 0 else 0.0

    @property
    def is_least(self) -> bool:
        """True where the gain is a lower bound: ranks that wait in the call use processor time
        too."""
        return self.cause is Cause.COMPUTE

    @property
    def is_critical(self) -> bool:
        """True from a fifth of the group's time on; below it is a warning."""
        return self.share >= CRITICAL_FROM


def find_straggler(cycles: Cycles) -> Straggler | None:
    """Return the rank that costs the group at least a tenth of its time; None without one, or with
    too few steps."""
    if len(cycles.ranks) < 2 or len(cycles.steps) < NEEDED:
        return None
    slow = [one for place in range(len(cycles.ranks)) if (one := _slow(cycles, place))]
    worst = max([_late(cycles), *slow], key=lambda one: one.gain_ms)
    return worst if worst.share >= WARNING_FROM else None


def waiting_share(cycles: Cycles) -> float:
    """Return the time that the ranks spend waiting for one another over their time, 0 to 1."""
    whole = float((cycles.own + cycles.call).sum())
    return float((cycles.call - cycles.shared).sum()) / whole if whole > 0 else 0.0


def lateness_ms(cycles: Cycles) -> dict[int, float]:
    """Return the mean time by which each rank comes later to the call than the rank that is first
    on average."""
    own = cycles.own.mean(axis=1)
    return {
        rank.rank: float(mean - own.min()) for rank, mean in zip(cycles.ranks, own, strict=True)
    }


def _late(cycles: Cycles) -> Straggler:
    """Return the rank that the group waits for longest before the call.

    Without the last rank of a cycle, the cycle begins its call when the second last one is there.
    """
    own = cycles.own
    second, first = np.partition(own, -2, axis=0)[-2:]
    last = own.argmax(axis=0)
    gains_ms = np.bincount(last, weights=first - second, minlength=len(own)) / len(last)
    place = int(gains_ms.argmax())
    means = {
        Cause.DATA_WAIT: _beside(cycles.wait.mean(axis=1), place),
        Cause.HOST: _beside(cycles.host.mean(axis=1), place),
    }
    cause = max(means, key=lambda part: means[part][0] - means[part][1])
    rank, gain_ms = cycles.ranks[place].rank, float(gains_ms[place])
    return Straggler(rank, cause, *means[cause], cycles.group_ms, gain_ms)


def _slow(cycles: Cycles, place: int) -> Straggler | None:
    """Return what the group waits for a rank whose call itself takes longer; None where nothing
    shows it."""
    rank, group_ms = cycles.ranks[place].rank, cycles.group_ms
    shared_ms = float(cycles.shared.mean())
    if clocks := _known([one.clock_mhz for one in cycles.ranks]):
        own, others = _beside(np.array(clocks), place)
        gain_ms = shared_ms * (1 - own / others)
        is_slow = own < _SLOW_CLOCK * others
        return Straggler(rank, Cause.SLOW_GPU, own, others, group_ms, gain_ms) if is_slow else None
    cores = cycles.cores
    own, others = _beside(np.array(cores) * group_ms, place) if cores else (0.0, 0.0)
    if own <= max(_MORE_CPU * others, _LEAST_CORES * group_ms):
        return None
    # The processor time that it has more than the others, on the cores that it uses.
    gain_ms = min((own - others) / max(own / group_ms, 1.0), shared_ms)
    return Straggler(rank, Cause.COMPUTE, own, others, group_ms, gain_ms)


def _known(values: list[float | None]) -> list[float]:
    known = [value for value in values if value]
    return known if len(known) == len(values) else []


def _beside(values: Times, place: int) -> tuple[float, float]:
    return float(values[place]), float(np.median(np.delete(values, place)))


# -- in words --------------------------------------------------------------------------------------


def straggler_word(late: Straggler) -> str:
    """Return the banner's word: `STRAGGLER rank 2, 32 %`."""
    weight = "" if late.is_critical else " (warning)"
    least = "at least " if late.is_least else ""
    return f"STRAGGLER rank {late.rank}, {least}{units.percent(late.share)}{weight}"


def straggler_sentences(late: Straggler) -> list[str]:
    """Return who is late, by how much and why; what the group would take without it; the advice."""
    waited, step = units.in_one_unit(late.gain_ms, late.group_ms)
    own, others = units.in_one_unit(late.own, late.others)
    least, most = ("at least ", "at most ") if late.is_least else ("", "")
    without, _ = units.in_one_unit(late.group_ms - late.gain_ms, late.group_ms)
    waits = f"the other ranks wait {least}{waited} of {step}/step for rank {late.rank}"
    shorter = f"without it a step takes {most}about {without} of {step}"
    _, shown_by, advice = late.cause.value
    cause = shown_by.format(own=own, others=others, own_mhz=late.own, others_mhz=late.others)
    return [f"{waits}: {cause}", f"{shorter}: {least}{units.percent(late.share)} less", advice]

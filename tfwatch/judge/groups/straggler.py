"""The rank that holds a group up, what its own time is made of, and both as sentences.

All ranks leave a collective together, so their steps are equally long, and the late rank looks like
the others. It shows where they meet: the rank that comes last waits for nobody, so its call is the
shortest. A rank whose call itself takes longer shows in no row of its own; there its process works
while those of the others wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core import units

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tfwatch.judge.groups.aligned import Aligned, Times

    Mask = NDArray[np.bool_]

#: A tenth of the group's time is a warning, a fifth is critical.
WARNING_FROM, CRITICAL_FROM = 0.10, 0.20
#: Aligned steps for a finding.
NEEDED = 20
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


class Cause(Enum):
    """The part of a late rank's time that is longer than that of the others."""

    DATA_WAIT = "data wait"
    HOST = "host time"
    COMPUTE = "compute"
    SLOW_GPU = "a slower GPU"


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


def usual(aligned: Aligned) -> Mask:
    """Return a mask of the usual cycles; the others are events."""
    longest_ms = _EVENT * float(np.median(aligned.cycle))
    is_usual: Mask = np.logical_and.reduce(aligned.own + aligned.call <= longest_ms)
    return is_usual


def find_straggler(aligned: Aligned) -> Straggler | None:
    """Return the rank that costs the group at least a tenth of its time; None without one, or with
    too few steps."""
    if len(aligned.ranks) < 2 or len(aligned.steps) < NEEDED:
        return None
    group = _Usual.of(aligned)
    slow = [one for place in range(len(aligned.ranks)) if (one := _slow(group, place))]
    worst = max([_late(group), *slow], key=lambda one: one.gain_ms)
    return worst if worst.share >= WARNING_FROM else None


def is_compute_known(aligned: Aligned) -> bool:
    """Return whether a rank that computes longer would show: clocks or processor time of all ranks
    are known."""
    machines = [rank.machine for rank in aligned.ranks]
    return any(
        _known(values)
        for values in ([one.clock_mhz for one in machines], [one.cores for one in machines])
    )


def waiting_share(aligned: Aligned) -> float:
    """Return the time that the ranks spend waiting for one another over their time in usual steps,
    0 to 1."""
    mask = usual(aligned)
    whole = float((aligned.own + aligned.call)[:, mask].sum())
    return float((aligned.call - aligned.shared)[:, mask].sum()) / whole if whole > 0 else 0.0


@dataclass(frozen=True, slots=True)
class _Usual:
    """A group in its usual cycles."""

    aligned: Aligned
    mask: Mask
    #: Of each rank, before its call.
    own: Times
    #: The shortest call; milliseconds.
    shared: Times

    @classmethod
    def of(cls, aligned: Aligned) -> _Usual:
        mask = usual(aligned)
        return cls(aligned, mask, aligned.own[:, mask], aligned.shared[mask])

    @property
    def group_ms(self) -> float:
        """The mean cycle."""
        return float((self.own.max(axis=0) + self.shared).mean())

    def means(self, times: Times, place: int) -> tuple[float, float]:
        """Return the mean of one rank, and the median of those of the others."""
        return _beside(times[:, self.mask].mean(axis=1), place)


def lateness_ms(aligned: Aligned) -> dict[int, float]:
    """Return the mean time by which each rank comes later to the call than the rank that is first
    on average."""
    own = aligned.own[:, usual(aligned)].mean(axis=1)
    return {
        rank.rank: float(mean - own.min()) for rank, mean in zip(aligned.ranks, own, strict=True)
    }


def _late(group: _Usual) -> Straggler:
    """Return the rank that the group waits for longest before the call.

    Without the last rank of a cycle, the cycle begins its call when the second last one is there.
    """
    last = group.own.argmax(axis=0)
    second, first = np.partition(group.own, -2, axis=0)[-2:]
    gains_ms = np.bincount(last, weights=first - second, minlength=len(group.own)) / len(last)
    place = int(gains_ms.argmax())
    cause, own, others = _cause(group, place)
    return Straggler(
        _rank(group.aligned, place), cause, own, others, group.group_ms, float(gains_ms[place])
    )


def _cause(group: _Usual, place: int) -> tuple[Cause, float, float]:
    """Return the part in which a rank differs most from the others, its own mean and theirs,
    milliseconds."""
    aligned = group.aligned
    means = {
        Cause.DATA_WAIT: group.means(aligned.wait, place),
        Cause.HOST: group.means(aligned.host, place),
    }
    cause = max(means, key=lambda part: means[part][0] - means[part][1])
    return cause, *means[cause]


def _slow(group: _Usual, place: int) -> Straggler | None:
    """Return what the group waits for a rank whose call itself takes longer; None where nothing
    shows it."""
    machines = [rank.machine for rank in group.aligned.ranks]
    rank, group_ms, shared_ms = (
        _rank(group.aligned, place),
        group.group_ms,
        float(group.shared.mean()),
    )
    if clocks := _known([machine.clock_mhz for machine in machines]):
        own, others = _beside(np.array(clocks), place)
        if own >= _SLOW_CLOCK * others:
            return None
        return Straggler(
            rank, Cause.SLOW_GPU, own, others, group_ms, shared_ms * (1 - own / others)
        )
    cores = _known([machine.cores for machine in machines])
    own, others = _beside(np.array(cores) * group_ms, place) if cores else (0.0, 0.0)
    if own <= max(_MORE_CPU * others, _LEAST_CORES * group_ms):
        return None
    # The processor time that it has more than the others, on the cores that it uses.
    gain_ms = min((own - others) / max(own / group_ms, 1.0), shared_ms)
    return Straggler(rank, Cause.COMPUTE, own, others, group_ms, gain_ms)


def _known(values: list[float | None]) -> list[float]:
    """Return the values if all are known and none is 0; else nothing."""
    known = [value for value in values if value]
    return known if len(known) == len(values) else []


def _rank(aligned: Aligned, place: int) -> int:
    return aligned.ranks[place].rank


def _beside(values: Times, place: int) -> tuple[float, float]:
    """Return one rank's value, and the median of the others'."""
    return float(values[place]), float(np.median(np.delete(values, place)))


#: The next thing to look at, by cause.
ADVICE = {
    Cause.DATA_WAIT: (
        "give it what the others have: the same share of the data, as fast a disk, as many free"
        " cores"
    ),
    Cause.HOST: (
        "take work out of its callbacks, or share it between the ranks: only one of them may write"
        " and log"
    ),
    Cause.COMPUTE: (
        "look for work that only this rank has: metrics, summaries, another program on its cores"
    ),
    Cause.SLOW_GPU: (
        "look at the temperature and the power limit of its GPU: nvidia-smi -q -d PERFORMANCE"
    ),
}


def straggler_sentence(straggler: Straggler) -> str:
    """Return who is late, by how much, and why."""
    waited, step = units.in_one_unit(straggler.gain_ms, straggler.group_ms)
    least = "at least " if straggler.is_least else ""
    return (
        f"the other ranks wait {least}{waited} of {step}/step for rank {straggler.rank}:"
        f" {cause_text(straggler)}"
    )


def cause_text(straggler: Straggler) -> str:
    """Return the part of the late rank's time that is longer, beside that of the others."""
    own, others = units.in_one_unit(straggler.own, straggler.others)
    return {
        Cause.DATA_WAIT: f"it waits {own} ms for data, the others {others}",
        Cause.HOST: f"its Python between two steps takes {own} ms, that of the others {others}",
        Cause.COMPUTE: (
            f"it computes longer, with {own} ms of CPU time a step; the others use {others}"
        ),
        Cause.SLOW_GPU: (
            f"its GPU runs at {straggler.own:.0f} MHz, those of the others at"
            f" {straggler.others:.0f} MHz"
        ),
    }[straggler.cause]


def without_sentence(straggler: Straggler) -> str:
    """Return what the group would take without the late rank."""
    without, step = units.in_one_unit(straggler.group_ms - straggler.gain_ms, straggler.group_ms)
    if straggler.is_least:
        return (
            f"without it a step takes at most about {without} of {step}: at least"
            f" {units.percent(straggler.share)} less"
        )
    return (
        f"without it a step takes about {without} of {step}: {units.percent(straggler.share)} less"
    )


def banner_word(straggler: Straggler | None) -> str:
    """Return the banner's word: `STRAGGLER rank 2, 32 %`."""
    if straggler is None:
        return "NO STRAGGLER"
    weight = "" if straggler.is_critical else " (warning)"
    least = "at least " if straggler.is_least else ""
    return f"STRAGGLER rank {straggler.rank}, {least}{units.percent(straggler.share)}{weight}"


def no_straggler_sentence(waiting_share: float | None, aligned: Aligned) -> str:
    """Return that no rank holds the group up, and what would not show."""
    unseen = [rank.rank for rank in aligned.ranks if rank.fetches_in_calls]
    is_known = is_compute_known(aligned)
    head = (
        "no rank holds the others up" if is_known and not unseen else "no rank is seen to be late"
    )
    parts = [f"{head}: they wait {units.percent(waiting_share)} of their time for one another"]
    if unseen:
        parts.append(
            f"the data wait of {units.counted(len(unseen), 'rank')} is a part of its calls"
        )
    if not is_known:
        parts.append(
            "whether one computes longer is n/a, as processor time and clocks are not known"
        )
    return "; ".join(parts)


def all_starve_sentences(wait_ms: float, step_ms: float) -> list[str]:
    """Return that all ranks wait for data alike, and what that may hide."""
    wait, step = units.in_one_unit(wait_ms, step_ms)
    return [
        f"each rank waits {wait} of {step}/step for data",
        (
            "a distributed data set of unknown length lets each fetch wait for the slowest rank:"
            " which one that is does not show here"
        ),
    ]

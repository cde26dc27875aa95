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
    from collections.abc import Sequence

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
    """The part of a late rank's time that is longer than that of the others.

    CALL: the rank fetches batches inside its call, so nothing separates its data wait from its
    compute.
    """

    DATA_WAIT = "data wait"
    HOST = "host time"
    COMPUTE = "compute"
    CALL = "compute or data wait"
    SLOW_GPU = "a slower GPU"
    NOT_RUNNING = "its process did not run"


class Level(Enum):
    """The weight of a straggler."""

    NONE = "none"
    WARNING = "warning"
    CRITICAL = "critical"


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
        return self.cause in (Cause.COMPUTE, Cause.CALL)

    @property
    def level(self) -> Level:
        """The level by the share."""
        if self.share >= CRITICAL_FROM:
            return Level.CRITICAL
        return Level.WARNING if self.share >= WARNING_FROM else Level.NONE


@dataclass(frozen=True, slots=True)
class LongStep:
    """A single long step."""

    step: int
    #: None where nothing shows which one made it long.
    rank: int | None
    cause: Cause
    #: Beyond the usual step.
    lost_ms: float


def usual(aligned: Aligned) -> Mask:
    """Return a mask of the usual cycles; the others are events."""
    is_usual: Mask = ~np.logical_or.reduce(_long(aligned))
    return is_usual


def _long(aligned: Aligned) -> Mask:
    """Return a mask of the cycles that are events for a rank, a row a rank."""
    longest_ms = _EVENT * float(np.median(aligned.cycle))
    is_long: Mask = aligned.own + aligned.call > longest_ms
    return is_long


def find_straggler(aligned: Aligned) -> Straggler | None:
    """Return the rank that costs the group at least a tenth of its time; None without one, or with
    too few steps."""
    if len(aligned.ranks) < 2 or len(aligned.steps) < NEEDED:
        return None
    group = _Usual.of(aligned)
    slow = [one for place in range(len(aligned.ranks)) if (one := _slow(group, place))]
    worst = max([_late(group), *slow], key=lambda one: one.gain_ms)
    return None if worst.level is Level.NONE else worst


def is_compute_known(aligned: Aligned) -> bool:
    """Return whether a rank that computes longer would show: clocks or processor time of all ranks
    are known."""
    machines = [rank.machine for rank in aligned.ranks]
    return any(
        _known(values)
        for values in ([one.clock_mhz for one in machines], [one.cores for one in machines])
    )


def find_long_steps(aligned: Aligned) -> list[LongStep]:
    """Return the steps that took more than three usual ones, each with the rank that the others
    waited for.

    Where a rank stands still around the end of a collective, one is long in this step and the
    others in the next one.
    """
    if len(aligned.ranks) < 2 or len(aligned.steps) < NEEDED:
        return []
    long, median_ms = _long(aligned), float(np.median(aligned.cycle))
    some: Mask = np.logical_or.reduce(long)
    alone: Mask = some & ~np.logical_and.reduce(long)
    places = [int(at) for at in np.flatnonzero(some)]
    return [
        _long_step(aligned, at, median_ms)
        for at in places
        if not (at and alone[at - 1] and _waits(long, at))
    ]


def _waits(long: Mask, at: int) -> bool:
    """Return whether the ranks that are long are others than those of the step before: it is one
    event."""
    return not bool((long[:, at] & long[:, at - 1]).any())


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
    times = {
        Cause.DATA_WAIT: aligned.wait,
        Cause.HOST: aligned.host,
        Cause.NOT_RUNNING: aligned.silent,
    }
    means = {cause: group.means(values, place) for cause, values in times.items()}
    longer = {cause: own_ms - others_ms for cause, (own_ms, others_ms) in means.items()}
    part = max((Cause.DATA_WAIT, Cause.HOST), key=longer.__getitem__)
    cause = Cause.NOT_RUNNING if longer[Cause.NOT_RUNNING] > longer[part] / 2 else part
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
    cause = Cause.CALL if group.aligned.ranks[place].fetches_in_calls else Cause.COMPUTE
    return Straggler(rank, cause, own, others, group_ms, gain_ms)


def _known(values: list[float | None]) -> list[float]:
    """Return the values if all are known and none is 0; else nothing."""
    known = [value for value in values if value]
    return known if len(known) == len(values) else []


def _long_step(aligned: Aligned, at: int, median_ms: float) -> LongStep:
    own, silent = aligned.own[:, at], aligned.silent[:, at]
    lost_ms = float(aligned.cycle[at]) - median_ms
    step, late, stopped = int(aligned.steps[at]), int(own.argmax()), int(silent.argmax())
    own_ms, others_ms = _beside(own, late)
    whole_ms = aligned.own[:, at] + aligned.call[:, at]
    if whole_ms.max() - median_ms > 2 * lost_ms:
        return _around_its_end(aligned, at, float(whole_ms.max()) - median_ms)
    if (
        own_ms - others_ms < lost_ms / 2
    ):  # all ranks wait in the call: one of them may have stood still there
        if silent[stopped] < lost_ms / 2:
            return LongStep(step, None, Cause.COMPUTE, lost_ms)
        return LongStep(step, _rank(aligned, stopped), Cause.NOT_RUNNING, lost_ms)
    part = Cause.DATA_WAIT if aligned.wait[late, at] >= aligned.host[late, at] else Cause.HOST
    cause = Cause.NOT_RUNNING if silent[late] >= lost_ms / 2 else part
    return LongStep(step, _rank(aligned, late), cause, lost_ms)


def _around_its_end(aligned: Aligned, at: int, lost_ms: float) -> LongStep:
    """Return the event of one rank alone: either it stood still, or it waited for one that is long
    in the next step."""
    silent = aligned.silent[:, at : at + 2].max(axis=1)
    place, step = int(silent.argmax()), int(aligned.steps[at])
    if silent[place] < lost_ms / 2:
        return LongStep(step, None, Cause.COMPUTE, lost_ms)
    return LongStep(step, _rank(aligned, place), Cause.NOT_RUNNING, lost_ms)


def _rank(aligned: Aligned, place: int) -> int:
    return aligned.ranks[place].rank


def _beside(values: Times, place: int) -> tuple[float, float]:
    """Return one rank's value, and the median of the others'."""
    return float(values[place]), float(np.median(np.delete(values, place)))


#: The long steps that are named one by one, and the time that is worth a name: three steps of 5 ms
#: are soon reached.
_NAMED, LEAST_NAMED_MS = 3, 100.0
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
    Cause.CALL: (
        "fetch its batches outside the tf.function, for batch in tfwatch.track(data), to separate"
        " the two"
    ),
    Cause.SLOW_GPU: (
        "look at the temperature and the power limit of its GPU: nvidia-smi -q -d PERFORMANCE"
    ),
    Cause.NOT_RUNNING: (
        "look for what stops it: swapping, a CPU limit of its container, a debugger, SIGSTOP"
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
    cpu_time = f"{own} ms of CPU time a step; the others use {others}"
    return {
        Cause.DATA_WAIT: f"it waits {own} ms for data, the others {others}",
        Cause.HOST: f"its Python between two steps takes {own} ms, that of the others {others}",
        Cause.COMPUTE: f"it computes longer, with {cpu_time}",
        Cause.CALL: f"its data wait is not seen, so its compute may be data: {cpu_time}",
        Cause.SLOW_GPU: (
            f"its GPU runs at {straggler.own:.0f} MHz, those of the others at"
            f" {straggler.others:.0f} MHz"
        ),
        Cause.NOT_RUNNING: (
            f"its process does not run for {own} ms/step, those of the others for {others}"
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
    weight = "" if straggler.level is Level.CRITICAL else " (warning)"
    least = "at least " if straggler.is_least else ""
    return f"STRAGGLER rank {straggler.rank}, {least}{units.percent(straggler.share)}{weight}"


def no_straggler_sentence(waiting_share: float | None, aligned: Aligned) -> str:
    """Return that no rank holds the group up, and what would not show."""
    waited = f"they wait {units.percent(waiting_share)} of their time for one another"
    unseen = [rank.rank for rank in aligned.ranks if rank.fetches_in_calls]
    is_known = is_compute_known(aligned)
    of_compute = "whether one computes longer is n/a, as processor time and clocks are not known"
    if unseen:
        parts = [
            f"no rank is seen to be late: {waited}",
            _unseen_text(unseen),
            *([] if is_known else [of_compute]),
        ]
        return "; ".join(parts)
    return (
        f"no rank holds the others up: {waited}"
        if is_known
        else f"no rank comes late: {waited}; {of_compute}"
    )


def _unseen_text(ranks: Sequence[int]) -> str:
    which, function = (
        (f"rank {ranks[0]}", "its") if len(ranks) == 1 else (f"{len(ranks)} ranks", "their")
    )
    return (
        f"the data wait of {which} is not seen, because {function} tf.function fetches the batches"
    )


def long_step_lines(long_steps: Sequence[LongStep]) -> list[str]:
    """Return the longest single steps, the longest first, and the number of the others."""
    worst = sorted(long_steps, key=lambda one: -one.lost_ms)
    named = [one for one in worst[:_NAMED] if one.lost_ms >= LEAST_NAMED_MS]
    lines, rest = [long_step_line(one) for one in named], worst[len(named) :]
    lost_ms = sum(one.lost_ms for one in rest)
    if lost_ms < LEAST_NAMED_MS:
        return lines
    steps = units.counted(len(rest), "more long step" if lines else "long step")
    return [*lines, f"{steps}: {units.duration(lost_ms / 1e3)}"]


def long_step_line(long_step: LongStep) -> str:
    """Return a single long step: its rank and the cause."""
    lost = units.duration(long_step.lost_ms / 1e3)
    if long_step.rank is None:
        return (
            f"step {units.count(long_step.step)} takes {lost} more: all ranks are in the call, and"
            " none shows why"
        )
    return (
        f"step {units.count(long_step.step)} takes {lost} more, for rank {long_step.rank}:"
        f" {long_step.cause.value}"
    )

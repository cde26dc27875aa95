"""The wall clock time of a training over all its restarts: what brought it forward, and what was lost.

The runs of a training follow each other: one ends early, and the next goes on from a checkpoint. The number of the
epoch that a run begins with shows where it goes on; steps of earlier runs from that epoch on are trained twice. A run
that begins with epoch 0 again may have loaded a checkpoint, or not: then the lost progress is not known, and its bounds
are given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.analysis.steps.time_breakdown import sum_time_spent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.analysis.steps.time_breakdown import TimeBreakdown, TimeSpent

#: The lost progress of a run that begins with epoch 0 again.
NOT_KNOWN = "begins with epoch 0 again: whether it loaded a checkpoint is not recorded"


@dataclass(frozen=True, slots=True)
class TrainedRun:
    """One run of the training.

    began_s: since 1970. first_epoch: the number of its first epoch, counted from 0; None where it began none.
    is_continuation: it continues the run before without a loss, also where it counts its epochs from 0 again.
    has_new_weights: it is known to have begun with new weights.
    """

    name: str
    state: str
    began_s: float
    length_s: float
    steps: int
    spent: TimeBreakdown
    first_epoch: int | None
    is_continuation: bool = False
    has_new_weights: bool = False

    @property
    def may_have_lost_progress(self) -> bool:
        """True where the record does not show whether it lost what was trained before it."""
        return self.first_epoch == 0 and not (self.is_continuation or self.has_new_weights)

    @property
    def ended_s(self) -> float:
        """The moment of its end, since 1970."""
        return self.began_s + self.length_s


@dataclass(frozen=True, slots=True)
class LostProgress:
    """The progress that one run lost: steps that a later run trained again, and their wall clock time."""

    steps: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RunLoss:
    """The lost progress of one run. known: None for the reason in `why_not`; most: the largest that it may be.

    down_s: the time between its end and the next run; None for the last one.
    """

    run: TrainedRun
    known: LostProgress | None
    most: LostProgress
    why_not: str
    down_s: float | None


@dataclass(frozen=True, slots=True)
class Bounds:
    """A figure between the case that all unknown progress is lost and the case that none is."""

    least: float
    most: float

    @property
    def known(self) -> float | None:
        """The figure; None where its bounds differ."""
        return self.most if self.least == self.most else None


@dataclass(frozen=True, slots=True)
class Goodput:
    """A training over its restarts. wall_s: from the begin of the first run to the end of the last one.

    kept: the parts of the time that brought it forward, of the case that no unknown progress is lost.
    """

    runs: tuple[RunLoss, ...]
    wall_s: float
    down_s: float
    kept: TimeSpent
    kept_least: TimeSpent

    @property
    def useful_steps(self) -> Bounds:
        """Steps that were not trained again later."""
        return Bounds(self.kept_least.steps, self.kept.steps)

    @property
    def lost_s(self) -> Bounds:
        """The wall clock time of epochs, as far as they were trained twice."""
        known = sum(one.known.seconds for one in self.runs if one.known)
        return Bounds(known, sum(one.most.seconds for one in self.runs))

    @property
    def lost_steps(self) -> Bounds:
        """Steps that were trained twice."""
        known = sum(one.known.steps for one in self.runs if one.known)
        return Bounds(known, sum(one.most.steps for one in self.runs))

    @property
    def share(self) -> Bounds:
        """The time of useful steps without their data wait, over the wall clock time, 0 to 1."""
        least, most = (
            stepping_s(one) / self.wall_s if self.wall_s > 0 else 0.0
            for one in (self.kept_least, self.kept)
        )
        return Bounds(least, most)

    @property
    def why_not(self) -> str:
        """The reason why lost progress is not known; empty where it is."""
        return next((one.why_not for one in self.runs if one.why_not), "")


def stepping_s(spent: TimeSpent) -> float:
    """Return the time in which steps train: compute, copy and host."""
    return spent.compute_s + spent.copy_s + spent.host_s


def make_goodput(runs: Sequence[TrainedRun]) -> Goodput:
    """Return the time of a training over its runs, which are in the order of their begin."""
    none, every = _kept_until(runs, may_be_lost=False), _kept_until(runs, may_be_lost=True)
    rows = tuple(_run_loss(runs, at, none[at], every[at]) for at in range(len(runs)))
    return Goodput(
        runs=rows,
        wall_s=runs[-1].ended_s - runs[0].began_s,
        down_s=sum(one.down_s or 0.0 for one in rows),
        kept=sum_time_spent([_kept(run, until) for run, until in zip(runs, none, strict=True)]),
        kept_least=sum_time_spent(
            [_kept(run, until) for run, until in zip(runs, every, strict=True)]
        ),
    )


def _kept_until(runs: Sequence[TrainedRun], may_be_lost: bool) -> list[float]:
    """Return the epoch of each run from which on its steps were trained again; infinite where none was.

    may_be_lost: a run that begins with epoch 0 again lost everything before it; else nothing.
    """
    kept_until, until = [math.inf] * len(runs), math.inf
    for at in range(len(runs) - 1, -1, -1):
        kept_until[at] = until
        run = runs[at]
        if run.first_epoch is None:
            continue  # it trained nothing, and an earlier run may go on after it
        if run.is_continuation or (run.may_have_lost_progress and not may_be_lost):
            until = (
                0 if until == 0 else math.inf
            )  # of a later start with new weights, or of other epochs' numbers
        else:
            until = min(until, run.first_epoch)
    return kept_until


def _run_loss(runs: Sequence[TrainedRun], at: int, none: float, every: float) -> RunLoss:
    run = runs[at]
    most, least = _lost(run, every), _lost(run, none)
    why_not = ""
    if most != least:
        next_run = next(one for one in runs[at + 1 :] if one.may_have_lost_progress)
        why_not = f"{next_run.name} {NOT_KNOWN}"
    down_s = max(runs[at + 1].began_s - run.ended_s, 0.0) if at + 1 < len(runs) else None
    return RunLoss(run, None if why_not else least, most, why_not, down_s)


def _lost(run: TrainedRun, until: float) -> LostProgress:
    lost = [one for one in run.spent.epochs if one.epoch is not None and one.epoch >= until]
    return LostProgress(sum(one.steps for one in lost), sum(one.wall_s for one in lost))


def _kept(run: TrainedRun, until: float) -> TimeSpent:
    epochs = [one for one in run.spent.epochs if one.epoch is None or one.epoch < until]
    return sum_time_spent([run.spent.start, *epochs])

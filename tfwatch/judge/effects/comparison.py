"""Comparison of the steps before and after each switch."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tfwatch.core.events import (
    EXPERIMENT,
    PipelineSwitched,
    SwitchAsked,
    SwitchFailed,
    without_experiments,
)
from tfwatch.core.knobs import ChangesKnob, epochs_until
from tfwatch.core.rows import STEP
from tfwatch.judge.effects.before_after import measure_effect
from tfwatch.judge.effects.experiment import Answer, Estimate
from tfwatch.judge.steps.verdict import Breakdown, Stat, breakdown, steady

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from tfwatch.core.events import Event, ExperimentEnded
    from tfwatch.core.rows import Rows
    from tfwatch.judge.effects.before_after import SwitchEffect, WaitChange

#: Steps after a switch that are enough for a comparison.
ENOUGH_STEPS = 60
#: The most steps on each side.
LONGEST = 600
#: The fewest steady steps on each side of a ratio.
LEAST = 20
#: A change of the data wait below this share of a step is not reported beside an open ratio: the
#: verdict's hysteresis.
_WAIT_SHARE = 0.02

#: The first and the last step of one side.
Stretch: TypeAlias = tuple[int, int]


@dataclass(slots=True)
class KnownSides:
    """The results of `compare` that cannot change any more."""

    #: Of complete stretches.
    splits: dict[Stretch, Breakdown | None] = field(default_factory=dict)
    #: Of switches whose sides are both complete, by these and the knob.
    effects: dict[tuple[Stretch, Stretch, str], SwitchEffect | None] = field(default_factory=dict)
    #: The steady ones of a complete stretch, while the other side still grows.
    rows: dict[Stretch, Rows] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Comparison(ChangesKnob):
    """One switch, with the steps before and after it."""

    knob: str
    old: str
    new: str
    by: str
    asked_at_ns: int
    asked_step: int
    #: The first step of the new setting; None while the switch is requested and not yet in effect.
    step: int | None
    #: The steady steps on both sides, up to the neighboring switch and at most 600 each.
    before: Breakdown | None
    after: Breakdown | None
    #: `typical` step time before over after; above 1 is faster. None until there are 20 steps on
    #: both sides.
    ratio: float | None
    #: `after` holds at least `ENOUGH_STEPS` steps.
    settled: bool
    #: Another knob switched at the same step; their effects cannot be separated, so there is no
    #: ratio.
    beside: str = field(default="", kw_only=True)
    #: Those that must begin before a requested switch is in effect.
    epochs: int = field(default=0, kw_only=True)
    #: The 95 % interval of the ratio; None without a ratio.
    low: float | None = field(default=None, kw_only=True)
    high: float | None = field(default=None, kw_only=True)
    #: As in `before_after.SwitchEffect`.
    wait: WaitChange | None = field(default=None, kw_only=True)
    compute_drift: float | None = field(default=None, kw_only=True)

    @property
    def estimate(self) -> Estimate | None:
        """The ratio with its interval; None where either is missing."""
        if self.ratio is None or self.low is None or self.high is None:
            return None
        return Estimate(self.ratio, self.low, self.high)

    @property
    def answer(self) -> Answer:
        """The answer that the interval proves; `unclear` also where only compute drifted, and
        without an interval."""
        if self.estimate is None or self.compute_drift is not None:
            return "unclear"
        return self.estimate.answer

    @property
    def has_other_wait(self) -> bool:
        """True where the data wait is proved to have changed, by 2 % of a step or more."""
        if self.wait is None or self.before is None or not self.wait.is_proved:
            return False
        return abs(self.wait.ms) >= _WAIT_SHARE * self.typical(self.before.step)

    @property
    def in_bursts(self) -> bool:
        """True where batches come in bursts on either side."""
        return any(side.in_bursts for side in (self.before, self.after) if side)

    def typical(self, part: Stat) -> float:
        """Return the typical time of a part: its median, which a busy second of the machine does
        not move.

        The mean where batches come in bursts: only the mean contains their data wait.
        """
        return part.mean if self.in_bursts else part.median


def compare(
    events: Sequence[Event],
    steps_total: int,
    rows_between: Callable[[int, int], Rows],
    known: KnownSides | None = None,
    accelerated: bool = False,
) -> list[Comparison]:
    """Compare every switch of a run, in order; `rows_between(first, last)` returns the rows of
    steps first to last.

    Switches that a later request replaced, that failed, or that belong to an A/B test are left out.
    Knobs that change at one step share its two sides, and have no ratio.

    Args:
        known: the results so far, filled here; a caller that compares often keeps it.
        accelerated: the steps run on a device beside the CPU.
    """
    sides = _Sides(steps_total, rows_between, KnownSides() if known is None else known, accelerated)
    made, waiting = _made_and_waiting(events)
    knobs_at: dict[int, list[str]] = {}
    for _, switch in made:
        knobs_at.setdefault(switch.step, []).append(switch.knob)
    bounds = sorted(knobs_at)
    comparisons = []
    for asked_at_ns, switch in made:
        if switch.by == EXPERIMENT:
            continue
        before, after = _stretches(switch.step, bounds)
        if epochs_until(switch.knob, switch.new) > 1:
            before = before[0], switch.asked_step  # from there on a cache was filled
        others = (knob for knob in knobs_at[switch.step] if knob != switch.knob)
        comparisons.append(_comparison(asked_at_ns, switch, next(others, ""), sides, before, after))
    sides.drop_rows()
    # A request that waits for an epoch to begin may wait for minutes: its knob's row shows it.
    return comparisons + [
        _not_yet(request)
        for request in without_experiments(waiting)
        if not epochs_until(request.knob, request.new)
    ]


def effect_between(
    before: Rows, after: Rows, knobs: Collection[str], accelerated: bool
) -> SwitchEffect | None:
    """Measure switches of knobs from the rows on both sides of them; None below 20 steady steps on
    either."""
    sides = [steady(side) for side in (before, after)]
    splits = [breakdown(side) for side in sides]
    if any(split is None or split.steps < LEAST for split in splits):
        return None
    in_bursts = any(split.in_bursts for split in splits if split)
    return measure_effect(sides[0], sides[1], knobs, accelerated, in_bursts)


def find_better_settings(
    switches: Iterable[Comparison], experiments: Iterable[ExperimentEnded]
) -> dict[tuple[str, str], str]:
    """Return the settings that measured slower, by knob and value, each with the faster value of
    its newest proof."""
    proofs: list[tuple[int, str, str, str, str]]
    proofs = [(one.step or 0, one.knob, one.old, one.new, one.answer) for one in switches]
    proofs += [(one.step, one.knob, one.against, one.value, one.answer) for one in experiments]
    better: dict[tuple[str, str], str] = {}
    for _, knob, old, new, answer in sorted(proofs, key=lambda proof: proof[0]):
        if answer in ("faster", "slower"):
            faster, slower = (new, old) if answer == "faster" else (old, new)
            better.pop((knob, faster), None)
            better[knob, slower] = faster
    return better


def _made_and_waiting(
    events: Sequence[Event],
) -> tuple[list[tuple[int, PipelineSwitched]], list[SwitchAsked]]:
    """Return the switches that took effect, each with the time of its request, and the requests
    that still wait."""
    waiting: list[SwitchAsked] = []
    made = []
    for event in events:
        if isinstance(event, SwitchAsked):
            waiting = (
                waiting if event.new != event.old else [w for w in waiting if w.knob != event.knob]
            )
            waiting += [event] if event.new != event.old else []
        elif isinstance(event, SwitchFailed):
            waiting = [request for request in waiting if request.knob != event.knob]
        elif isinstance(event, PipelineSwitched):
            answered = _answered(event, waiting)
            made.append((answered[-1].at_ns if answered else event.at_ns, event))
            waiting = [request for request in waiting if request not in answered]
    return made, list({request.knob: request for request in waiting}.values())


def _answered(switch: PipelineSwitched, waiting: list[SwitchAsked]) -> list[SwitchAsked]:
    """Return the requests that a switch answers: those it replaced, then its own."""
    same = [request for request in waiting if request.knob == switch.knob]
    while same and same[-1].new != switch.new:
        same.pop()
    return same


def _stretches(step: int, bounds: list[int]) -> tuple[Stretch, Stretch]:
    """Return the first and last step on both sides of `step`; the run may not have reached them
    yet."""
    at = bisect_left(bounds, step)
    earliest = bounds[at - 1] if at else 1
    latest = bounds[at + 1] - 1 if at + 1 < len(bounds) else step + LONGEST
    return (max(earliest, step - LONGEST), step - 1), (step, min(latest, step + LONGEST - 1))


class _Sides:
    """Reads the sides of switches, each once."""

    def __init__(
        self,
        steps_total: int,
        rows_between: Callable[[int, int], Rows],
        known: KnownSides,
        accelerated: bool,
    ) -> None:
        self._steps_total = steps_total
        self._rows_between = rows_between
        self._known = known
        self._accelerated = accelerated
        self._splits: dict[Stretch, Breakdown | None] = {}
        self._growing: set[Stretch] = set()

    def split(self, stretch: Stretch) -> Breakdown | None:
        """Return the split of a stretch as far as the run has reached it."""
        splits = self._known.splits if self._is_complete(stretch) else self._splits
        if stretch not in splits:
            splits[stretch] = breakdown(self._rows(stretch))
        return splits[stretch]

    def effect(self, before: Stretch, after: Stretch, knob: str) -> SwitchEffect | None:
        """Return the effect of a switch; None below 20 steps on either side."""
        key, effects = (before, after, knob), self._known.effects
        if key in effects:
            return effects[key]
        splits = self.split(before), self.split(after)
        estimated = None
        if all(split is not None and split.steps >= LEAST for split in splits):
            in_bursts = any(split.in_bursts for split in splits if split)
            estimated = measure_effect(
                self._rows(before), self._rows(after), [knob], self._accelerated, in_bursts
            )
        if self._is_complete(before) and self._is_complete(after):
            effects[key] = estimated
        elif self._is_complete(before):
            self._growing.add(before)
        return estimated

    def drop_rows(self) -> None:
        """Forget the rows of all stretches but those before a switch whose other side still
        grows."""
        self._known.rows = {
            stretch: rows for stretch, rows in self._known.rows.items() if stretch in self._growing
        }

    def _rows(self, stretch: Stretch) -> Rows:
        rows = self._known.rows
        if stretch not in rows:
            first, last = stretch[0], min(stretch[1], self._steps_total)
            rows[stretch] = (
                steady(self._rows_between(first, last))
                if first <= last
                else np.empty(0, dtype=STEP)
            )
        return rows[stretch]

    def _is_complete(self, stretch: Stretch) -> bool:
        return stretch[1] <= self._steps_total


def _comparison(
    asked_at_ns: int,
    switch: PipelineSwitched,
    beside: str,
    sides: _Sides,
    before: Stretch,
    after: Stretch,
) -> Comparison:
    splits = sides.split(before), sides.split(after)
    effect = None if beside else sides.effect(before, after, switch.knob)
    return Comparison(
        knob=switch.knob,
        old=switch.old,
        new=switch.new,
        by=switch.by,
        asked_at_ns=asked_at_ns,
        asked_step=switch.asked_step,
        step=switch.step,
        before=splits[0],
        after=splits[1],
        ratio=effect.estimate.ratio if effect else None,
        settled=splits[1] is not None and splits[1].steps >= ENOUGH_STEPS,
        beside=beside,
        low=effect.estimate.low if effect else None,
        high=effect.estimate.high if effect else None,
        wait=effect.wait if effect else None,
        compute_drift=effect.compute_drift if effect else None,
    )


def _not_yet(request: SwitchAsked) -> Comparison:
    return Comparison(
        knob=request.knob,
        old=request.old,
        new=request.new,
        by=request.by,
        asked_at_ns=request.at_ns,
        asked_step=request.step,
        step=None,
        before=None,
        after=None,
        ratio=None,
        settled=False,
        epochs=request.epochs or epochs_until(request.knob, request.new),
    )

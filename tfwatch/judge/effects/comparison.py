"""Comparison of the steps before and after each switch."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tfwatch.core.events import EXPERIMENT, PipelineSwitched
from tfwatch.core.knobs import ChangesKnob, epochs_until
from tfwatch.core.rows import STEP
from tfwatch.judge.effects.before_after import measure_effect
from tfwatch.judge.steps.steady_steps import Breakdown, Stat, breakdown, steady

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from tfwatch.core.events import Event, ExperimentEnded
    from tfwatch.core.rows import Rows
    from tfwatch.judge.effects.before_after import SwitchEffect
    from tfwatch.judge.effects.experiment import Answer, Estimate
    from tfwatch.judge.effects.tuner_events import AutopilotRun

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


@dataclass(frozen=True, slots=True)
class Comparison(ChangesKnob):
    """One switch that took effect, with the steps before and after it."""

    knob: str
    old: str
    new: str
    by: str
    asked_step: int
    #: The first step of the new setting.
    step: int
    #: The steady steps on both sides, up to the neighboring switch and at most 600 each.
    before: Breakdown | None
    after: Breakdown | None
    #: None until there are 20 steps on both sides.
    effect: SwitchEffect | None = None
    #: `after` holds at least `ENOUGH_STEPS` steps.
    settled: bool = False
    #: Another knob switched at the same step; their effects cannot be separated, so there is none.
    beside: str = ""

    @property
    def estimate(self) -> Estimate | None:
        """The step time before over after, above 1 is faster, with its interval; None without
        enough steps."""
        return self.effect.estimate if self.effect else None

    @property
    def answer(self) -> Answer:
        """The answer that the interval proves; `unclear` also without an interval."""
        return self.effect.estimate.answer if self.effect else "unclear"

    @property
    def is_proved(self) -> bool:
        """True where the step is proved faster or slower."""
        return self.answer in ("faster", "slower")

    @property
    def has_other_wait(self) -> bool:
        """True where the data wait is proved to have changed, by 2 % of a step or more."""
        if self.effect is None or self.before is None or not self.effect.wait.is_proved:
            return False
        return abs(self.effect.wait.ms) >= _WAIT_SHARE * self.typical(self.before.step)

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


#: Comparisons whose sides grow no more, by step and knob.
KnownComparisons: TypeAlias = dict[tuple[int, str], Comparison]


def compare(
    events: Sequence[Event],
    steps_total: int,
    rows_between: Callable[[int, int], Rows],
    known: KnownComparisons | None = None,
    accelerated: bool = False,
) -> list[Comparison]:
    """Compare every switch of a run that took effect, in order; `rows_between(first, last)` returns
    the rows of steps first to last.

    Switches of an A/B test are left out. Knobs that change at one step share its two sides, and
    have no ratio.

    Args:
        known: the results so far, filled here; a caller that compares often keeps it.
        accelerated: the steps run on a device beside the CPU.
    """
    made = [event for event in events if isinstance(event, PipelineSwitched)]
    bounds, known = sorted({switch.step for switch in made}), {} if known is None else known
    comparisons = []
    for switch in made:
        if switch.by == EXPERIMENT:
            continue
        key = switch.step, switch.knob
        before, after = _stretches(switch, bounds)
        compared = known.get(key)
        if compared is None:
            others = (one.knob for one in made if one.step == switch.step)
            beside = next((knob for knob in others if knob != switch.knob), "")
            first, second = (_rows(rows_between, side, steps_total) for side in (before, after))
            compared = _comparison(switch, beside, first, second, accelerated)
        if after[1] <= steps_total:
            known[key] = compared
        comparisons.append(compared)
    return comparisons


def effect_between(
    before: Rows, after: Rows, knobs: Collection[str], accelerated: bool
) -> SwitchEffect | None:
    """Measure switches of knobs from the rows on both sides of them; None below 20 steady steps on
    either."""
    return _effect(steady(before), steady(after), knobs, accelerated)


def _effect(
    before: Rows, after: Rows, knobs: Collection[str], accelerated: bool
) -> SwitchEffect | None:
    """Measure switches from the steady rows on both sides."""
    splits = [breakdown(side) for side in (before, after)]
    if any(split is None or split.steps < LEAST for split in splits):
        return None
    in_bursts = any(split.in_bursts for split in splits if split)
    return measure_effect(before, after, knobs, accelerated, in_bursts)


def find_better_settings(
    switches: Iterable[Comparison],
    experiments: Iterable[ExperimentEnded],
    autopilot: Iterable[AutopilotRun] = (),
) -> dict[tuple[str, str], str]:
    """Return the settings that measured slower, by knob and value, each with the faster value of
    its newest proof: a switch, an A/B test, or what a run of the autopilot kept."""
    proofs: list[tuple[int, str, str, str, str]]
    proofs = [(one.step, one.knob, one.old, one.new, one.answer) for one in switches]
    proofs += [(one.step, one.knob, *one.values, one.answer) for one in experiments]
    proofs += [
        (run.ended.step, change.knob, change.old, change.new, "faster")
        for run in autopilot
        if run.ended and run.estimate
        for change in run.kept
    ]
    better: dict[tuple[str, str], str] = {}
    for _, knob, old, new, answer in sorted(proofs, key=lambda proof: proof[0]):
        if answer in ("faster", "slower"):
            faster, slower = (new, old) if answer == "faster" else (old, new)
            better.pop((knob, faster), None)
            better[knob, slower] = faster
    return better


def _stretches(switch: PipelineSwitched, bounds: list[int]) -> tuple[Stretch, Stretch]:
    """Return the first and last step on both sides of a switch; the run may not have reached them
    yet."""
    step, at = switch.step, bisect_left(bounds, switch.step)
    earliest = bounds[at - 1] if at else 1
    latest = bounds[at + 1] - 1 if at + 1 < len(bounds) else step + LONGEST
    # From the request for a cache on, the steps fill it.
    last = switch.asked_step if epochs_until(switch.knob, switch.new) > 1 else step - 1
    return (max(earliest, step - LONGEST), last), (step, min(latest, step + LONGEST - 1))


def _rows(rows_between: Callable[[int, int], Rows], stretch: Stretch, steps_total: int) -> Rows:
    """Return the steady rows of a stretch as far as the run has reached it."""
    first, last = stretch[0], min(stretch[1], steps_total)
    return steady(rows_between(first, last)) if first <= last else np.empty(0, dtype=STEP)


def _comparison(
    switch: PipelineSwitched, beside: str, before: Rows, after: Rows, accelerated: bool
) -> Comparison:
    splits = breakdown(before), breakdown(after)
    return Comparison(
        knob=switch.knob,
        old=switch.old,
        new=switch.new,
        by=switch.by,
        asked_step=switch.asked_step,
        step=switch.step,
        before=splits[0],
        after=splits[1],
        effect=None if beside else _effect(before, after, [switch.knob], accelerated),
        settled=splits[1] is not None and splits[1].steps >= ENOUGH_STEPS,
        beside=beside,
    )

"""Comparison of the steps before and after each switch, by the parts of a step.

The parts that the knob can move decide; the others stay at their typical time, and are shown as
drift where they changed. Switches back and forth of one knob are compared together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tfwatch.core.events import AUTOPILOT, EXPERIMENT, PipelineSwitched
from tfwatch.core.knobs import COMPUTE, COPY, HOST, KNOBS, PARTS, WAIT, ChangesKnob, epochs_until
from tfwatch.core.rows import STEP
from tfwatch.judge.effects.interval import estimate_change, estimate_ratio
from tfwatch.judge.steps.steady_steps import Breakdown, Stat, breakdown, steady

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from tfwatch.core.events import Event, ExperimentEnded
    from tfwatch.core.rows import Rows
    from tfwatch.judge.effects.interval import Answer, Change, Estimate
    from tfwatch.judge.effects.switching_state import AutopilotRun

    Times: TypeAlias = NDArray[np.float64]

#: Steps after a switch that are enough for a comparison.
ENOUGH_STEPS = 60
#: The most steps on each side of a switch.
LONGEST = 600
#: The fewest steady steps on each side of a ratio.
LEAST = 20
#: A change of a part below this share of a step is not reported: the verdict's hysteresis.
_PART_SHARE = 0.02
#: The most switches back and forth that are compared together.
_MOST_TOGETHER = 8
#: Launching that grows by this share of what compute grows by, and more, is the work of a knob:
#: loaders take the cores that launch.
_LAUNCH_SHARE = 0.5

#: The first and the last step of a setting between two switches.
Stretch: TypeAlias = tuple[int, int]


# -- by the parts of a step ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SwitchEffect:
    """The steps before a switch against those after it."""

    #: Of the step, in which the parts that the knob cannot move stay as they are.
    estimate: Estimate
    #: The change of each part that is timed.
    parts: Mapping[str, Change]
    #: The parts that the knob can move.
    moved: frozenset[str]


def parts_of_stretches(stretches: Sequence[Rows]) -> list[dict[str, Times]]:
    """Return the times of each part of a step of each stretch of `core.rows.STEP`, milliseconds; a
    copy that is not timed in all of them is a part of compute, and missing."""
    columns = {WAIT: "wait_ms", COPY: "copy_ms", COMPUTE: "compute_ms", HOST: "host_ms"}
    is_timed = not any(np.isnan(rows["copy_ms"]).any() for rows in stretches)
    found = []
    for rows in stretches:
        parts = {name: rows[column].astype(np.float64) for name, column in columns.items()}
        if is_timed:
            parts[COMPUTE] -= parts[COPY]
        else:
            del parts[COPY]
        found.append(parts)
    return found


def measure_effect(
    stretches: Sequence[Rows], knobs: Collection[str], accelerated: bool
) -> SwitchEffect | None:
    """Measure switches of knobs from the steady rows of `core.rows.STEP` of each stretch; None
    below 20 in one.

    stretches: their settings alternate, and the last one is that after. accelerated: the steps run
    on a device beside the CPU.
    """
    splits = [breakdown(rows) for rows in stretches]
    if any(split is None or split.steps < LEAST for split in splits):
        return None
    in_bursts = any(split.in_bursts for split in splits if split)
    times = parts_of_stretches(stretches)
    timed = [*times[0]]
    changes = {part: estimate_change([one[part] for one in times], in_bursts) for part in timed}
    moved = frozenset(PARTS)
    if accelerated:
        moved = frozenset(part for knob in knobs for part in KNOBS[knob].moves)
        # The loaders work during compute, and longer compute leaves less data wait.
        others_ms = sum(changes[part].ms for part in changes if part in moved)
        hides_loading = changes[COMPUTE].is_proved and changes[COMPUTE].ms * others_ms < 0
        if hides_loading or _grew_by_launching(stretches, changes, in_bursts):
            moved |= {COMPUTE}
    typical = np.mean if in_bursts else np.median
    fixed = [part for part in timed if part not in moved]
    fixed_ms = sum(float(typical(np.concatenate([one[part] for one in times]))) for part in fixed)
    steps = [
        fixed_ms + np.sum([one[part] for part in timed if part in moved], axis=0) for one in times
    ]
    return SwitchEffect(estimate_ratio(steps, in_bursts), changes, moved)


def _grew_by_launching(
    stretches: Sequence[Rows], changes: Mapping[str, Change], in_bursts: bool
) -> bool:
    """Return whether compute grew, and at least half of that in the time until the step's call
    returned."""
    if changes[COMPUTE].low_ms <= 0:
        return False
    launch = estimate_change([rows["dispatch_ms"] for rows in stretches], in_bursts)
    return launch.low_ms > 0 and launch.ms >= _LAUNCH_SHARE * changes[COMPUTE].ms


def effect_between(
    before: Rows, after: Rows, knobs: Collection[str], accelerated: bool
) -> SwitchEffect | None:
    """Measure switches of knobs from the rows on both sides of them; None below 20 steady steps on
    either."""
    return measure_effect([steady(before), steady(after)], knobs, accelerated)


# -- the switches of a run -------------------------------------------------------------------------


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
    #: The steady steps of both settings, next to the switches and at most 600 a side of each.
    before: Breakdown | None
    after: Breakdown | None
    #: None until there are 20 steps on both sides.
    effect: SwitchEffect | None = None
    #: `after` holds at least `ENOUGH_STEPS` steps.
    settled: bool = False
    #: Another knob switched at the same step; their effects cannot be separated, so there is none.
    beside: str = ""
    #: The number of switches back and forth that are compared together.
    switches: int = 1

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
    def faster(self) -> str:
        """The value that is proved faster; empty without a proof."""
        return {"faster": self.new, "slower": self.old}.get(self.answer, "")

    @property
    def changed_parts(self) -> list[str]:
        """The parts that are proved to have changed, by 2 % of a step or more."""
        if self.effect is None or self.before is None:
            return []
        least_ms = _PART_SHARE * self.typical(self.before.step)
        changes = self.effect.parts.items()
        return [part for part, one in changes if one.is_proved and abs(one.ms) >= least_ms]

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
    # A damaged file may repeat its lines.
    found = {(one.step, one.knob): one for one in events if isinstance(one, PipelineSwitched)}
    made = list(found.values())
    known = {} if known is None else known
    comparisons = []
    for at, switch in enumerate(made):
        if switch.by == EXPERIMENT:
            continue
        key = switch.step, switch.knob
        compared = known.get(key)
        if compared is None:
            stretches = _stretches(made, at)
            rows = [_rows(rows_between, one, steps_total) for one in stretches]
            others = (one.knob for one in made if one.step == switch.step)
            beside = next((knob for knob in others if knob != switch.knob), "")
            compared = _comparison(switch, beside, rows, accelerated)
            if stretches[-1][1] <= steps_total:
                known[key] = compared
        comparisons.append(compared)
    return comparisons


def find_better_settings(
    switches: Iterable[Comparison],
    experiments: Iterable[ExperimentEnded],
    autopilot: Sequence[AutopilotRun] = (),
) -> dict[tuple[str, str], str]:
    """Return the settings that measured slower, by knob and value, each with the faster value of
    its newest proof: a switch, an A/B test, or what a run of the autopilot kept; its way back from
    a setting that it undid as not proved is none."""
    undone = set().union(*(run.undone for run in autopilot))
    proofs: list[tuple[int, str, str, str, str]]
    proofs = [
        (one.step, one.knob, one.old, one.new, one.answer)
        for one in switches
        if one.by != AUTOPILOT or (one.knob, one.faster) not in undone
    ]
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


def _stretches(made: Sequence[PipelineSwitched], at: int) -> list[Stretch]:
    """Return the stretches that a switch is compared by: on both sides of it, and of the switches
    back and forth just before it; the run may not have reached the last one yet."""
    first = at
    while first > 0 and at - first + 1 < _MOST_TOGETHER and _is_back(made, first):
        first -= 1
    return [_before(made, first), *(_after(made, n) for n in range(first, at + 1))]


def _is_back(made: Sequence[PipelineSwitched], at: int) -> bool:
    """Return whether a switch takes the one before it back, soon and alone."""
    last, switch = made[at - 1], made[at]
    steps = [one.step for one in made]
    is_alone = steps.count(last.step) == steps.count(switch.step) == 1
    is_soon = LEAST <= switch.step - last.step <= LONGEST
    waits = epochs_until(switch.knob, switch.new) or epochs_until(last.knob, last.new)
    is_same = last.change.back == switch.change and EXPERIMENT not in (last.by, switch.by)
    return is_alone and is_soon and is_same and not waits


def _before(made: Sequence[PipelineSwitched], at: int) -> Stretch:
    switch = made[at]
    earliest = max((one.step for one in made if one.step < switch.step), default=1)
    # From the request for a cache on, the steps fill it.
    is_filling = epochs_until(switch.knob, switch.new) > 1
    last = switch.asked_step if is_filling else switch.step - 1
    return max(earliest, switch.step - LONGEST), last


def _after(made: Sequence[PipelineSwitched], at: int) -> Stretch:
    step = made[at].step
    following = min((one.step for one in made if one.step > step), default=step + LONGEST)
    return step, min(following, step + LONGEST) - 1


def _rows(rows_between: Callable[[int, int], Rows], stretch: Stretch, steps_total: int) -> Rows:
    """Return the steady rows of a stretch as far as the run has reached it."""
    first, last = stretch[0], min(stretch[1], steps_total)
    return steady(rows_between(first, last)) if first <= last else np.empty(0, dtype=STEP)


def _comparison(
    switch: PipelineSwitched, beside: str, stretches: list[Rows], accelerated: bool
) -> Comparison:
    few = max((n for n, rows in enumerate(stretches) if len(rows) < LEAST), default=-1)
    # Stretches with few steps end what is compared together.
    stretches = stretches[min(few + 1, len(stretches) - 2) :]
    before, after = (
        breakdown(np.concatenate(side)) for side in (stretches[-2::-2], stretches[::-2])
    )
    return Comparison(
        knob=switch.knob,
        old=switch.old,
        new=switch.new,
        by=switch.by,
        asked_step=switch.asked_step,
        step=switch.step,
        before=before,
        after=after,
        effect=None if beside else measure_effect(stretches, [switch.knob], accelerated),
        settled=after is not None and after.steps >= ENOUGH_STEPS,
        beside=beside,
        switches=len(stretches) - 1,
    )

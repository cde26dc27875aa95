"""Did it help: steps before a switch against the steps after it."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from tfwatch.analysis.breakdown import Breakdown, breakdown, steady
from tfwatch.core.events import PipelineSwitched, SwitchAsked, SwitchFailed, by_hand
from tfwatch.core.knobs import ChangesKnob, epochs_until
from tfwatch.core.trials import EXPERIMENT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tfwatch.analysis.breakdown import Stat
    from tfwatch.core.events import Event
    from tfwatch.core.rows import Rows

#: Steps after which a comparison is called settled.
SETTLED = 60
#: Steps looked at on each side, at most.
LONGEST = 600
#: Steady steps on both sides before a ratio is told.
LEAST = 20

#: The splits of stretches (first step, last step) that grow no more.
Known: TypeAlias = dict[tuple[int, int], Breakdown | None]


@dataclass(frozen=True, slots=True)
class Comparison(ChangesKnob):
    """One switch and what it gave.

    step: the first step of the new setting; None while the switch is asked and not yet in effect.
    before, after: the steady steps on both sides, up to the neighbouring switch and at most 600 each.
    ratio: `typical` step time before over after; above 1 is faster. None until there are 20 steps on both sides.
    settled: `after` holds at least `SETTLED` steps.
    beside: another knob that was turned at the same step: what each of them gave nobody can tell, so there is no ratio.
    """

    knob: str
    old: str
    new: str
    by: str
    asked_at_ns: int
    asked_step: int
    step: int | None
    before: Breakdown | None
    after: Breakdown | None
    ratio: float | None
    settled: bool
    beside: str = field(default="", kw_only=True)

    @property
    def in_bursts(self) -> bool:
        """Whether batches come in bursts on either side."""
        return any(side.in_bursts for side in (self.before, self.after) if side)

    def typical(self, part: Stat) -> float:
        """What a part takes: its median, which a second in which the machine was busy does not move.

        Where batches come in bursts the mean, for then only that holds the wait whose share is told beside it.
        """
        return part.mean if self.in_bursts else part.median


def compare(
    events: Sequence[Event],
    steps_total: int,
    rows_between: Callable[[int, int], Rows],
    known: Known | None = None,
) -> list[Comparison]:
    """Every switch of a run in order; `rows_between(first, last)` gives the rows of steps first to last.

    A switch that a later request replaced before it took effect, and one that failed, is left out, and so are those of
    experiments, which compare for themselves. Settings that change at one step share that step's two sides, no ratio.

    Args:
        known: kept by a caller that asks often, and filled here: a stretch that grows no more is read once.
    """
    known = {} if known is None else known
    made, waiting = _made_and_waiting(events)
    knobs_at: dict[int, list[str]] = {}
    for _, switch in made:
        knobs_at.setdefault(switch.step, []).append(switch.knob)
    bounds = sorted(knobs_at)
    found = []
    for asked_at_ns, switch in made:
        if switch.by == EXPERIMENT:
            continue
        before, after = _sides(switch.step, bounds)
        if epochs_until(switch.knob, switch.new) > 1:
            before = before[0], switch.asked_step  # from there on a cache was filled
        sides = (_split(*side, steps_total, rows_between, known) for side in (before, after))
        others = (knob for knob in knobs_at[switch.step] if knob != switch.knob)
        found.append(_comparison(asked_at_ns, switch, next(others, ""), *sides))
    # What waits for an epoch to begin may do so for minutes: its knob's row says so, and the newest comparison stands.
    return found + [_not_yet(request) for request in by_hand(waiting) if not epochs_until(request.knob, request.new)]


def _made_and_waiting(events: Sequence[Event]) -> tuple[list[tuple[int, PipelineSwitched]], list[SwitchAsked]]:
    """The switches that took effect, each with when it was asked, and the requests that still wait."""
    waiting: list[SwitchAsked] = []
    made = []
    for event in events:
        if isinstance(event, SwitchAsked):
            waiting = waiting if event.new != event.old else [w for w in waiting if w.knob != event.knob]
            waiting += [event] if event.new != event.old else []
        elif isinstance(event, SwitchFailed):
            waiting = [request for request in waiting if request.knob != event.knob]
        elif isinstance(event, PipelineSwitched):
            answered = _answered(event, waiting)
            made.append((answered[-1].at_ns if answered else event.at_ns, event))
            waiting = [request for request in waiting if request not in answered]
    return made, list({request.knob: request for request in waiting}.values())


def _answered(switch: PipelineSwitched, waiting: list[SwitchAsked]) -> list[SwitchAsked]:
    """The request that a switch obeys, after the ones that it replaced."""
    same = [request for request in waiting if request.knob == switch.knob]
    while same and same[-1].new != switch.new:
        same.pop()
    return same


def _sides(step: int, bounds: list[int]) -> tuple[tuple[int, int], tuple[int, int]]:
    """First and last step on both sides of `step`, whether they have come or not."""
    at = bisect_left(bounds, step)
    earliest = bounds[at - 1] if at else 1
    latest = bounds[at + 1] - 1 if at + 1 < len(bounds) else step + LONGEST
    return (max(earliest, step - LONGEST), step - 1), (step, min(latest, step + LONGEST - 1))


def _split(
    first: int, last: int, steps_total: int, rows_between: Callable[[int, int], Rows], known: Known
) -> Breakdown | None:
    if (first, last) in known:
        return known[first, last]
    end = min(last, steps_total)
    split = breakdown(steady(rows_between(first, end))) if first <= end else None
    if last <= steps_total:
        known[first, last] = split
    return split


def _comparison(
    asked_at_ns: int, switch: PipelineSwitched, beside: str, before: Breakdown | None, after: Breakdown | None
) -> Comparison:
    return Comparison(
        knob=switch.knob,
        old=switch.old,
        new=switch.new,
        by=switch.by,
        asked_at_ns=asked_at_ns,
        asked_step=switch.asked_step,
        step=switch.step,
        before=before,
        after=after,
        ratio=None if beside else ratio(before, after),
        settled=after is not None and after.steps >= SETTLED,
        beside=beside,
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
    )


def ratio(before: Breakdown | None, after: Breakdown | None) -> float | None:
    """The median step before over the one after, in bursts the mean; None below 20 steps on either side."""
    if before is None or after is None or min(before.steps, after.steps) < LEAST or after.step.median <= 0:
        return None
    if before.in_bursts or after.in_bursts:
        return before.step.mean / after.step.mean
    return before.step.median / after.step.median

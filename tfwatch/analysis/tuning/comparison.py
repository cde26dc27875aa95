"""Comparison of the steps before and after a switch, and of the runs before and after a restart."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from tfwatch.analysis.steps.breakdown import Breakdown, Stat, breakdown, steady
from tfwatch.analysis.tuning.knob_state import knobs_in_effect
from tfwatch.core.events import EXPERIMENT, PipelineSwitched, SwitchAsked, SwitchFailed, without_experiments
from tfwatch.core.knobs import ChangesKnob, KnobChange, epochs_until
from tfwatch.core.rows import Flag, plausible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tfwatch.core.events import Event
    from tfwatch.core.rows import Rows

#: Steps after a switch that are enough for a comparison.
ENOUGH_STEPS = 60
#: The most steps on each side.
LONGEST = 600
#: The fewest steady steps on each side of a ratio.
LEAST = 20

#: The splits of complete stretches (first step, last step).
KnownSplits: TypeAlias = dict[tuple[int, int], Breakdown | None]


@dataclass(frozen=True, slots=True)
class Comparison(ChangesKnob):
    """One switch, with the steps before and after it.

    step: the first step of the new setting; None while the switch is requested and not yet in effect.
    before, after: the steady steps on both sides, up to the neighboring switch and at most 600 each.
    ratio: `typical` step time before over after; above 1 is faster. None until there are 20 steps on both sides.
    settled: `after` holds at least `ENOUGH_STEPS` steps.
    beside: another knob switched at the same step; their effects cannot be separated, so there is no ratio.
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
        """True where batches come in bursts on either side."""
        return any(side.in_bursts for side in (self.before, self.after) if side)

    def typical(self, part: Stat) -> float:
        """Return the typical time of a part: its median, which a busy second of the machine does not move.

        The mean where batches come in bursts: only the mean contains their data wait.
        """
        return part.mean if self.in_bursts else part.median


def compare(
    events: Sequence[Event],
    steps_total: int,
    rows_between: Callable[[int, int], Rows],
    known: KnownSplits | None = None,
) -> list[Comparison]:
    """Compare every switch of a run, in order; `rows_between(first, last)` returns the rows of steps first to last.

    Switches that a later request replaced, that failed, or that belong to an A/B test are left out. Knobs that change
    at one step share its two sides, and have no ratio.

    Args:
        known: the complete splits so far, filled here; a caller that compares often keeps it.
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
    # A request that waits for an epoch to begin may wait for minutes: its knob's row shows it.
    return found + [
        _not_yet(request) for request in without_experiments(waiting) if not epochs_until(request.knob, request.new)
    ]


def _made_and_waiting(events: Sequence[Event]) -> tuple[list[tuple[int, PipelineSwitched]], list[SwitchAsked]]:
    """Return the switches that took effect, each with the time of its request, and the requests that still wait."""
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
    """Return the requests that a switch answers: those it replaced, then its own."""
    same = [request for request in waiting if request.knob == switch.knob]
    while same and same[-1].new != switch.new:
        same.pop()
    return same


def _sides(step: int, bounds: list[int]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the first and last step on both sides of `step`; the run may not have reached them yet."""
    at = bisect_left(bounds, step)
    earliest = bounds[at - 1] if at else 1
    latest = bounds[at + 1] - 1 if at + 1 < len(bounds) else step + LONGEST
    return (max(earliest, step - LONGEST), step - 1), (step, min(latest, step + LONGEST - 1))


def _split(
    first: int, last: int, steps_total: int, rows_between: Callable[[int, int], Rows], known: KnownSplits
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
        settled=after is not None and after.steps >= ENOUGH_STEPS,
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
    """Return the median step before over the one after, in bursts the mean; None below 20 steps on either side."""
    if before is None or after is None or min(before.steps, after.steps) < LEAST or after.step.median <= 0:
        return None
    if before.in_bursts or after.in_bursts:
        return before.step.mean / after.step.mean
    return before.step.median / after.step.median


#: Start knobs in the order of their changes, with the word for a value that was not given.
_SETTINGS: dict[str, str] = {
    "device": "auto",
    "mode": "graph",
    "mixed_precision": "off",
    "batch_size": "own",
    "steps_per_execution": "1",
    "optimizer": "adam",
    "learning_rate": "own",
    "image_size": "own",
    "size": "own",
    "weights": "own",
    "data": "made",
    "seed": "none",
}


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a run: its settings and batch size as in run.json, and its knobs, values in words."""

    settings: Mapping[str, object]
    knobs: Mapping[str, str]
    batch_size: int | None


@dataclass(frozen=True, slots=True)
class Earlier:
    """The run before a restart.

    run: its name. start: with its last knobs. split: of the last steady steps of one setting, at most 600; None where
    there are none.
    """

    run: str
    start: Start
    split: Breakdown | None


@dataclass(frozen=True, slots=True)
class Restart(Comparison):
    """A restart, with the steps before and after it; its first step is 1.

    run: the run before it. changes: of start knobs and live ones; `knob`, `old` and `new` are those of a single change.
    per_image: the batch size differs, so that `before`, `after` and `ratio` are per image, not per step.
    """

    run: str
    changes: tuple[KnobChange, ...]
    per_image: bool


def earlier_run(run: str, start: Start, steps: Rows, events: Sequence[Event]) -> Earlier:
    """Summarise a finished run for the comparison with the next one; `steps` are all its rows, step 1 first.

    The last setting with `LEAST` steady steps counts.
    """
    switches = [event for event in events if isinstance(event, PipelineSwitched)]
    rows = steps[plausible(steps)]
    bounds = [0, *(rows["flags"] & Flag.SWITCH).nonzero()[0], len(rows)]
    for first, end in zip(bounds[-2::-1], bounds[:0:-1], strict=True):
        stretch = rows[max(first, end - LONGEST) : end]
        split = breakdown(steady(stretch)) if len(stretch) else None
        if split and split.steps >= LEAST:
            made = (event for event in switches if event.step <= stretch["step"][-1])
            return Earlier(run, _at(start, made), split)
    return Earlier(run, _at(start, switches), None)


def _at(start: Start, switches: Iterable[PipelineSwitched]) -> Start:
    return replace(start, knobs=knobs_in_effect(start.knobs, switches))


def changes(before: Start, now: Start) -> tuple[KnobChange, ...]:
    """Return the differences of settings and knobs, in the order of `_SETTINGS`."""
    return tuple(_changes(before, now))


def _changes(before: Start, now: Start) -> Iterator[KnobChange]:
    for name, unset in _SETTINGS.items():
        old, new = (_words(start.settings.get(name), unset) for start in (before, now))
        if old != new:
            yield KnobChange(name, old, new)
    for knob, old in before.knobs.items():
        if (new := now.knobs.get(knob, old)) != old:
            yield KnobChange(knob, old, new)


def _words(value: object, unset: str) -> str:
    if value is None:
        return unset
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


def restart(
    earlier: Earlier,
    now: Start,
    events: Sequence[Event],
    steps_total: int,
    rows_between: Callable[[int, int], Rows],
) -> Restart:
    """Compare a restarted run with the run before it.

    `events`, `steps_total` and `rows_between(first, last)` are of the new run. Its steps up to its first switch count,
    at most 600.
    """
    changed = changes(earlier.start, now)
    switch = next((event.step for event in events if isinstance(event, PipelineSwitched)), LONGEST + 1)
    last = min(switch - 1, LONGEST, steps_total)
    after = breakdown(steady(rows_between(1, last))) if last > 0 else None
    before, sizes = earlier.split, (earlier.start.batch_size, now.batch_size)
    per_image = sizes[0] != sizes[1] and None not in sizes
    sides = [_of_an_image(side, size) if per_image else side for side, size in zip((before, after), sizes, strict=True)]
    one = changed[0] if len(changed) == 1 else KnobChange("", "before", "after")
    return Restart(
        knob=one.knob,
        old=one.old,
        new=one.new,
        by="restart",
        asked_at_ns=0,
        asked_step=0,
        step=1,
        before=sides[0],
        after=sides[1],
        ratio=ratio(*sides),
        settled=after is not None and after.steps >= ENOUGH_STEPS,
        run=earlier.run,
        changes=changed,
        per_image=per_image,
    )


def _of_an_image(side: Breakdown | None, batch_size: int | None) -> Breakdown | None:
    """Return the milliseconds per image of a batch."""
    if side is None or not batch_size:
        return side

    def spread(stat: Stat) -> Stat:
        return Stat(stat.median / batch_size, stat.mean / batch_size, stat.p95 / batch_size)

    return replace(
        side,
        step=spread(side.step),
        wait=spread(side.wait),
        dispatch=spread(side.dispatch),
        compute=spread(side.compute),
        host=spread(side.host),
    )

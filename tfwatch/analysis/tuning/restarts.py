"""Comparison of the steps of a run before a restart with those after it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.analysis.steps.verdict import Breakdown, Stat, breakdown, steady
from tfwatch.analysis.tuning.before_after import compare_sides
from tfwatch.analysis.tuning.comparison import ENOUGH_STEPS, LEAST, LONGEST, Comparison
from tfwatch.analysis.tuning.knob_state import knobs_in_effect
from tfwatch.core.events import PipelineSwitched
from tfwatch.core.knobs import KnobChange
from tfwatch.core.rows import STEP, Flag, plausible, step_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tfwatch.analysis.tuning.experiment import Estimate
    from tfwatch.core.events import Event
    from tfwatch.core.rows import Rows

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

    run: its name. start: with its last knobs. rows: the last steady steps of one setting, at most 600. split: theirs;
    None where there are none.
    """

    run: str
    start: Start
    rows: Rows
    split: Breakdown | None


@dataclass(frozen=True, slots=True)
class Restart(Comparison):
    """A restart, with the steps before and after it; its first step is 1.

    run: the run before it. changes: of start knobs and live ones; `knob`, `old` and `new` are those of a single change.
    per_example: the batch size differs, so that `before`, `after` and `ratio` are per example, not per step.
    """

    run: str
    changes: tuple[KnobChange, ...]
    per_example: bool


def earlier_run(run: str, start: Start, steps: Rows, events: Sequence[Event]) -> Earlier:
    """Summarise a finished run for the comparison with the next one; `steps` are all its rows, step 1 first.

    The last setting with `LEAST` steady steps counts.
    """
    switches = [event for event in events if isinstance(event, PipelineSwitched)]
    rows = steps[plausible(steps)]
    bounds = [0, *(rows["flags"] & Flag.SWITCH).nonzero()[0], len(rows)]
    for first, end in zip(bounds[-2::-1], bounds[:0:-1], strict=True):
        stretch = rows[max(first, end - LONGEST) : end]
        calm = steady(stretch) if len(stretch) else stretch
        if len(calm) >= LEAST:
            made = (event for event in switches if event.step <= stretch["step"][-1])
            return Earlier(run, _at(start, made), calm, breakdown(calm))
    return Earlier(run, _at(start, switches), np.empty(0, dtype=STEP), None)


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
    switch = next(
        (event.step for event in events if isinstance(event, PipelineSwitched)), LONGEST + 1
    )
    last = min(switch - 1, LONGEST, steps_total)
    rows = steady(rows_between(1, last)) if last > 0 else np.empty(0, dtype=STEP)
    before, after, sizes = (
        earlier.split,
        breakdown(rows),
        (earlier.start.batch_size, now.batch_size),
    )
    per_example = sizes[0] != sizes[1] and None not in sizes
    sides = [
        _of_an_example(side, size) if per_example else side
        for side, size in zip((before, after), sizes, strict=True)
    ]
    one = changed[0] if len(changed) == 1 else KnobChange("", "before", "after")
    found = _restart_estimate(earlier.rows, rows, sizes if per_example else (1, 1), sides)
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
        ratio=found.ratio if found else None,
        settled=after is not None and after.steps >= ENOUGH_STEPS,
        low=found.low if found else None,
        high=found.high if found else None,
        run=earlier.run,
        changes=changed,
        per_example=per_example,
    )


def _restart_estimate(
    before: Rows,
    after: Rows,
    sizes: tuple[int | None, int | None],
    sides: Sequence[Breakdown | None],
) -> Estimate | None:
    """Return the ratio of the steps per example of both runs; None below 20 steady steps in either."""
    if min(len(before), len(after)) < LEAST:
        return None
    times = [
        step_ms(rows, np.float64) / (size or 1)
        for rows, size in zip((before, after), sizes, strict=True)
    ]
    return compare_sides(times[0], times[1], any(side.in_bursts for side in sides if side))


def _of_an_example(side: Breakdown | None, batch_size: int | None) -> Breakdown | None:
    """Return the milliseconds per example of a batch."""
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

"""Did a restart help: the last steps of the run before it against the steps of the run that it began."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tfwatch.analysis.breakdown import Breakdown, Stat, breakdown, steady
from tfwatch.analysis.switches import LEAST, LONGEST, SETTLED, Comparison, ratio
from tfwatch.analysis.turns import in_effect
from tfwatch.core.events import PipelineSwitched
from tfwatch.core.knobs import KnobChange
from tfwatch.core.rows import Flag, plausible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tfwatch.core.events import Event
    from tfwatch.core.rows import Rows

#: Start knobs in the order in which they are told, with what stands for a value that was not given.
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
    """What a run trains with: settings and batch size as run.json has them, and its knobs, values in words."""

    settings: Mapping[str, object]
    knobs: Mapping[str, str]
    batch_size: int | None


@dataclass(frozen=True, slots=True)
class Earlier:
    """The run before a restart.

    run: its name. start: with its knobs as they stood then. split: of the last steady steps of one setting, at most
    600; None where there are none.
    """

    run: str
    start: Start
    split: Breakdown | None


@dataclass(frozen=True, slots=True)
class Restart(Comparison):
    """A restart and what it gave; its first step is 1.

    run: the run before it. changes: of start knobs and live ones; `knob`, `old` and `new` are those of the one where
    there is one.
    per_image: the batch size differs: `before`, `after` and `ratio` are of an image, not of a step.
    """

    run: str
    changes: tuple[KnobChange, ...]
    per_image: bool


def earlier_run(run: str, start: Start, steps: Rows, events: Sequence[Event]) -> Earlier:
    """A run that is over, as the next one is compared with it; `steps` are all its rows, step 1 first.

    It counts with its last setting that has `LEAST` steady steps: one in which it was left at once shows nothing.
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
    return replace(start, knobs=in_effect(start.knobs, switches))


def changes(before: Start, now: Start) -> tuple[KnobChange, ...]:
    """What differs of the settings and of the knobs, in the order in which it is told."""
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
    """What a restart gave so far.

    `events` are of the run that it began, `steps_total` how many steps that has; `rows_between(first, last)` gives
    its rows. Its steps up to its first switch count, at most 600.
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
        settled=after is not None and after.steps >= SETTLED,
        run=earlier.run,
        changes=changed,
        per_image=per_image,
    )


def _of_an_image(side: Breakdown | None, batch_size: int | None) -> Breakdown | None:
    """A step's milliseconds spread over the images of its batch."""
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

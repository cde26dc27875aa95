"""The marks below the time axis: events at their columns, in labels that never overlap."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core import units
from tfwatch.core.events import (
    EpochEnded,
    Event,
    ExperimentBegan,
    ExperimentEnded,
    Paused,
    PipelineSwitched,
    Slept,
    SwitchFailed,
    TrainingFailed,
    ValidationEnded,
    WatchFailed,
    is_of_experiment,
)
from tfwatch.core.knobs import KNOBS, knob_name
from tfwatch.judge.effects.tuner_text import subject_text
from tfwatch.judge.steps.causes import LIMITS, find_limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.screens.live.timeline.step_bars import Bars, Bools, Floats

#: A wait this long is a stall worth a mark, milliseconds.
STALL_MS = 500.0


class Kind(IntEnum):
    """The kind of a mark; higher kinds are placed first."""

    EPOCH = 0
    COMPILE = 1
    VALIDATION = 2
    LIMIT = 3
    STALL = 4
    SWITCH = 5
    FAILED = 6
    OPEN = 7


@dataclass(frozen=True, slots=True)
class EventMark:
    """An event at `at_s` that lasted `length_s`. `texts`: its label, longest first."""

    at_s: float
    kind: Kind
    texts: tuple[str, ...]
    length_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Label:
    """A text at a column."""

    column: int
    text: str
    kind: Kind


def event_marks(events: Sequence[Event], to: str) -> list[EventMark]:
    """Make the marks of a run's events; `to` is the arrow between an old and a new value."""
    held = [_limit_mark(limit) for limit in find_limits(events)]
    return [*(mark for event in events if (mark := _event_mark(event, to))), *held]


def _limit_mark(limit: Paused) -> EventMark:
    letter, name = LIMITS[limit.cause]
    length_s = limit.took_ms / 1e3
    texts = (f"{letter} {name} {units.seconds(length_s)}", f"{letter} {name}", letter)
    return EventMark(limit.at_ns / 1e9 - length_s, Kind.LIMIT, texts, length_s)


def _event_mark(event: Event, to: str) -> EventMark | None:
    at_s = event.at_ns / 1e9
    match event:
        case ExperimentBegan(knob=knob, values=values):
            return EventMark(
                at_s, Kind.SWITCH, (f"A {subject_text(knob, values)}", "A/B test", "A")
            )
        case ExperimentEnded(knob=knob, kept=kept):
            longest = (f"A/B test done: {knob_name(knob)} {kept}",) if kept else ()
            return EventMark(at_s, Kind.SWITCH, (*longest, "A/B test done", "A"))
        case PipelineSwitched() if is_of_experiment(event):
            return None
        case PipelineSwitched(knob=knob, old=old, new=new):
            letter, name = KNOBS[knob].key, knob_name(knob)
            return EventMark(
                at_s,
                Kind.SWITCH,
                (f"{letter} {name} {old}{to}{new}", f"{letter} {old}{to}{new}", letter),
            )
        case ValidationEnded(took_ms=took_ms):
            length_s = took_ms / 1e3
            return EventMark(
                at_s - length_s,
                Kind.VALIDATION,
                (f"EV {units.seconds(length_s)}", "EV", "V"),
                length_s,
            )
        case EpochEnded(epoch=epoch):
            return EventMark(at_s, Kind.EPOCH, (f"E {epoch + 1}", "E"))
        case SwitchFailed(knob=knob):
            return EventMark(
                at_s, Kind.FAILED, (f"X {knob_name(knob)} switch failed", "X failed", "X")
            )
        case TrainingFailed():
            return EventMark(at_s, Kind.FAILED, ("X failed", "X"))
        case WatchFailed():
            return EventMark(at_s, Kind.FAILED, ("X not measured", "X"))
        case Slept(slept_ms=slept_ms):
            return EventMark(
                at_s, Kind.LIMIT, (f"Z asleep {units.seconds(slept_ms / 1e3)}", "Z asleep", "Z")
            )
    return None


def bar_marks(bars: Bars, top_ms: float | None, filled: Bools) -> list[EventMark]:
    """Make the marks of compiles and of stalls above the axis. `filled`: columns in which a shuffle
    buffer filled.

    A mark has a length where the step has its columns to itself.
    """
    own_ms = np.where((bars.steps <= 1) & np.isfinite(bars.total_ms), bars.total_ms, 0.0)
    marks = []
    for first, end in runs(bars.muted):
        marks.append(
            _bar_mark(bars, first, Kind.COMPILE, "C compile", float(own_ms[first:end].max()))
        )
    for first, end in runs(bars.wait_ms > max(top_ms or 0.0, STALL_MS)):
        word = "S shuffle" if filled[max(first - 1, 0) : end].any() else "S stall"
        marks.append(_bar_mark(bars, first, Kind.STALL, word, float(own_ms[first:end].max())))
    return marks


def _bar_mark(bars: Bars, column: int, kind: Kind, words: str, took_ms: float) -> EventMark:
    letter, took = words[0], units.seconds(took_ms / 1e3)
    timed = (f"{words} {took}", f"{letter} {took}") if took_ms >= STALL_MS else ()
    return EventMark(float(bars.starts_s[column]), kind, (*timed, words, letter), took_ms / 1e3)


def place(marks: Sequence[EventMark], starts_s: Floats, end_s: float) -> list[Label]:
    """Place each mark at its column, with the longest text that leaves a blank beside the next
    label, or drop it.

    Near the right edge a label ends at the edge. Among equal kinds the newest is placed first.
    """
    # Few marks and columns: lists are faster than arrays.
    begins: list[float] = starts_s.tolist()
    taken = bytearray(len(begins) + 1)
    labels: list[Label] = []
    for mark in sorted(marks, key=lambda mark: (mark.kind, mark.at_s), reverse=True):
        column = bisect_right(begins, mark.at_s) - 1
        if mark.at_s > end_s or (column < 0 and mark.at_s + mark.length_s <= begins[0]):
            continue
        placed = _fit(mark, max(column, 0), taken)
        if placed:
            labels.append(placed)
            first, end = (
                max(placed.column - 1, 0),
                min(placed.column + len(placed.text) + 1, len(taken)),
            )
            taken[first:end] = b"x" * (end - first)
    return sorted(labels, key=lambda label: label.column)


def _fit(mark: EventMark, column: int, taken: bytearray) -> Label | None:
    for text in mark.texts:
        at = min(column, len(taken) - 1 - len(text))
        if at >= 0 and not any(taken[at : at + len(text)]):
            return Label(at, text, mark.kind)
    return None


def clip_labels(total_ms: Floats, clipped: Bools, blank: Bools) -> list[tuple[int, str, bool]]:
    """Return (column, text, is on the bar) for each run of columns above the axis' top.

    `blank`: the columns whose top row is empty; a bar too narrow for its text gets it beside
    itself.
    """
    free = blank.copy()
    labels = []
    for first, end in runs(clipped):
        text = _beyond(float(total_ms[first:end].max()))
        if end - first >= len(text) + 2:
            labels.append((end - len(text) - 1, text, True))
            continue
        for at in (end, first - len(text)):
            if at >= 0 and at + len(text) <= len(free) and free[at : at + len(text)].all():
                free[at : at + len(text)] = False
                labels.append((at, text, False))
                break
    return labels


def _beyond(value_ms: float) -> str:
    """Return `>412 ms`, `>3.5 s` or `>20 s`, rounded down so that it is true."""
    if value_ms < 1000:
        return f">{int(value_ms)} ms"
    return f">{int(value_ms / 100) / 10:g} s" if value_ms < 10_000 else f">{int(value_ms / 1000)} s"


def runs(wanted: Bools) -> list[tuple[int, int]]:
    """Return (first, end) of each run of true columns."""
    if not wanted.any():
        return []
    edges = np.flatnonzero(np.diff(wanted.astype(np.int8), prepend=0, append=0))
    return [(int(first), int(end)) for first, end in zip(edges[::2], edges[1::2], strict=True)]


def tick_step(window_s: float, most: int) -> float:
    """Return the seconds between the labels of a time axis of `window_s` seconds with at most
    `most` labels."""
    steps = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400)
    return next((float(step) for step in steps if window_s / step <= most), 86400.0 * 7)


def ago(seconds: float) -> str:
    """Return a time before now: `-16 s`, `-5 min`, `-2 h`."""
    if seconds < 120:
        return f"-{seconds:g} s"
    return f"-{seconds / 60:.3g} min" if seconds < 7200 else f"-{seconds / 3600:.3g} h"

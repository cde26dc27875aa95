"""The marks below the time axis: events at their columns, in labels that never overlap."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core import events as facts
from tfwatch.core import units
from tfwatch.core.events import is_of_experiment
from tfwatch.core.knobs import KNOBS, knob_name
from tfwatch.core.rows import Flag, Phase
from tfwatch.judge.effects.wording import subject_text
from tfwatch.judge.steps.causes import LIMITS, find_limits
from tfwatch.runs.liveness import Life
from tfwatch.screens.live.timeline.step_bars import OPEN_MS, BarPart
from tfwatch.screens.live.timeline.window import open_step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.runs.snapshot import Snapshot
    from tfwatch.screens.live.timeline.step_bars import Bars, Bools, Floats
    from tfwatch.screens.live.timeline.window import OpenStep

#: A wait this long is a stall worth a mark, milliseconds.
STALL_MS = 500.0
#: An open step is overlong, and an open wait a stall, from this many median steps on.
_LONG_STEPS = 4.0
_MARKED: tuple[type[facts.Event], ...] = (
    *(facts.PipelineSwitched, facts.ExperimentBegan, facts.ExperimentEnded, facts.SwitchFailed),
    *(facts.EpochEnded, facts.ValidationEnded, facts.Slept, facts.TrainingFailed),
    facts.WatchFailed,
)
#: A mark shows a validation at its start; the event comes at its end, at most this much later.
_VALIDATION_NS = 3600 * 10**9


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


def marks_in_view(
    snapshot: Snapshot,
    bars: Bars,
    limits: Sequence[facts.Paused],
    top_ms: float | None,
    median_ms: float | None,
    to: str,
) -> list[EventMark]:
    """Make all marks of a view.

    limits: the run's stretches of heat and swapping. top_ms: the top of the axis. median_ms: the
    median of the newest steady steps. to: the arrow between an old and a new value.
    """
    marks = event_marks([*_events_in(snapshot, bars), *limits], to)
    so_far = bar_marks(bars, top_ms, _filled(snapshot, bars)) if snapshot.steps_total else []
    lasting = _lasting_mark(snapshot, median_ms)
    if lasting:
        so_far = [mark for mark in so_far if mark.at_s + mark.length_s < lasting.at_s]
        so_far.append(lasting)
    return [*marks, *so_far]


def _events_in(snapshot: Snapshot, bars: Bars) -> list[facts.Event]:
    """Return the view's events, at most the newest of each kind in each column."""
    edges_ns = [round(float(at) * 1e9) for at in (*bars.starts_s, bars.end_s + 1e-9)]
    events, end_ns = snapshot.events, edges_ns[-1]
    marked = [event for kind in _MARKED for event in events.newest_in_each(kind, edges_ns)]
    following = events.between(facts.ValidationEnded, end_ns, end_ns + _VALIDATION_NS)
    return [*marked, *following[:1]]


def _filled(snapshot: Snapshot, bars: Bars) -> Bools:
    """Return the columns in which a shuffle buffer filled."""
    steps = snapshot.recent
    fillings = steps["start_ns"][(steps["flags"] & np.uint16(Flag.SHUFFLE_FILL)) != 0] / 1e9
    if not len(fillings):
        return np.zeros(len(bars.starts_s), dtype=np.bool_)
    filled: Bools = np.histogram(fillings, np.append(bars.starts_s, bars.end_s))[0] > 0
    return filled


def event_marks(events: Sequence[facts.Event], to: str) -> list[EventMark]:
    """Make the marks of a run's events; `to` is the arrow between an old and a new value."""
    held = [_limit_mark(limit) for limit in find_limits(events)]
    return [*(mark for event in events if (mark := _event_mark(event, to))), *held]


def _limit_mark(limit: facts.Paused) -> EventMark:
    letter, name = LIMITS[limit.cause]
    length_s = limit.took_ms / 1e3
    texts = (f"{letter} {name} {units.seconds(length_s)}", f"{letter} {name}", letter)
    return EventMark(limit.at_ns / 1e9 - length_s, Kind.LIMIT, texts, length_s)


def _event_mark(event: facts.Event, to: str) -> EventMark | None:
    at_s = event.at_ns / 1e9
    match event:
        case facts.PipelineSwitched() if is_of_experiment(event):
            return None
        case facts.ValidationEnded(took_ms=took_ms):
            length_s = took_ms / 1e3
            longest = f"EV {units.seconds(length_s)}"
            return EventMark(at_s - length_s, Kind.VALIDATION, (longest, "EV", "V"), length_s)
    kind, texts = _words(event, to)
    return EventMark(at_s, kind, texts) if texts else None


def _words(event: facts.Event, to: str) -> tuple[Kind, tuple[str, ...]]:
    """Return the kind of a mark without a length, and its texts; none where it has no mark."""
    match event:
        case facts.ExperimentBegan(knob=knob, values=values):
            return Kind.SWITCH, (f"A {subject_text(knob, values)}", "A/B test", "A")
        case facts.ExperimentEnded(knob=knob, kept=kept):
            longest = (f"A/B test done: {knob_name(knob)} {kept}",) if kept else ()
            return Kind.SWITCH, (*longest, "A/B test done", "A")
        case facts.PipelineSwitched(knob=knob, old=old, new=new):
            key, change = KNOBS[knob].key, f"{old}{to}{new}"
            return Kind.SWITCH, (f"{key} {knob_name(knob)} {change}", f"{key} {change}", key)
        case facts.EpochEnded(epoch=epoch):
            return Kind.EPOCH, (f"E {epoch + 1}", "E")
        case facts.SwitchFailed(knob=knob):
            return Kind.FAILED, (f"X {knob_name(knob)} switch failed", "X failed", "X")
        case facts.TrainingFailed():
            return Kind.FAILED, ("X failed", "X")
        case facts.WatchFailed():
            return Kind.FAILED, ("X not measured", "X")
        case facts.Slept(slept_ms=slept_ms):
            return Kind.LIMIT, (f"Z asleep {units.seconds(slept_ms / 1e3)}", "Z asleep", "Z")
        case _:
            return Kind.EPOCH, ()


def bar_marks(bars: Bars, top_ms: float | None, filled: Bools) -> list[EventMark]:
    """Make the marks of compiles and of stalls above the axis. `filled`: columns in which a shuffle
    buffer filled.

    A mark has a length where the step has its columns to itself.
    """
    own_ms = np.where((bars.steps <= 1) & np.isfinite(bars.total_ms), bars.total_ms, 0.0)
    marks = []
    for first, end in runs(bars.muted):
        took_ms = float(own_ms[first:end].max())
        marks.append(_bar_mark(bars, first, Kind.COMPILE, "C compile", took_ms))
    for first, end in runs(bars.wait_ms > max(top_ms or 0.0, STALL_MS)):
        word = "S shuffle" if filled[max(first - 1, 0) : end].any() else "S stall"
        marks.append(_bar_mark(bars, first, Kind.STALL, word, float(own_ms[first:end].max())))
    return marks


def _bar_mark(bars: Bars, column: int, kind: Kind, words: str, took_ms: float) -> EventMark:
    letter, took = words[0], units.seconds(took_ms / 1e3)
    timed = (f"{words} {took}", f"{letter} {took}") if took_ms >= STALL_MS else ()
    return EventMark(float(bars.starts_s[column]), kind, (*timed, words, letter), took_ms / 1e3)


def _lasting_mark(snapshot: Snapshot, median_ms: float | None) -> EventMark | None:
    """Make the mark of an open stall, validation or compile, or of a run without a sign of life."""
    pulse, life = snapshot.pulse, snapshot.life
    if pulse is None or life is Life.ENDED:
        return None
    if life is not Life.RUNNING:
        kind = Kind.FAILED if life is Life.KILLED else Kind.OPEN
        return EventMark(pulse.now_ns / 1e9, kind, _silence(snapshot))
    since_s = pulse.since_ns / 1e9
    length_s = max(0.0, snapshot.now_s - since_s)
    took = units.seconds(length_s)
    late = overlong(snapshot, median_ms)
    if late and late.part is BarPart.WAIT:
        return EventMark(
            since_s, Kind.OPEN, (f"stalled now {took}", f"now {took}", "now"), length_s
        )
    if pulse.phase is Phase.VALIDATION:
        return EventMark(since_s, Kind.VALIDATION, (f"EV {took}", "EV"), length_s)
    if pulse.phase is Phase.COMPILE:
        return EventMark(since_s, Kind.COMPILE, (f"C compiling {took}", f"C {took}", "C"), length_s)
    return None


def _silence(snapshot: Snapshot) -> tuple[str, ...]:
    if snapshot.life is Life.KILLED:
        return "X killed", "X"
    if snapshot.life is Life.GONE:
        return "folder gone", "gone"
    return f"not responding {units.seconds(snapshot.silent_s)}", "not responding"


def overlong(snapshot: Snapshot, median_ms: float | None) -> OpenStep | None:
    """Return the open step where it is overlong; the first step never is."""
    lasting = open_step(snapshot) if snapshot.steps_total else None
    long_ms = max(OPEN_MS, _LONG_STEPS * (median_ms or 0.0))
    return lasting if lasting and (lasting.until_s - lasting.since_s) * 1e3 >= long_ms else None


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
        if placed := _fit(mark, max(column, 0), taken):
            labels.append(placed)
            first, end = max(placed.column - 1, 0), placed.column + len(placed.text) + 1
            taken[first:end] = b"x" * (min(end, len(taken)) - first)
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

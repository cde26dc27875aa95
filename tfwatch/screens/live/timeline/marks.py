"""The marks of a timeline, made from the run's events, its bars and the step that is still open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core import events as facts
from tfwatch.core import units
from tfwatch.core.events import ExperimentBegan, ExperimentEnded
from tfwatch.core.rows import Flag, Phase
from tfwatch.runs.reading.liveness import Life
from tfwatch.screens.live.timeline import step_bars
from tfwatch.screens.live.timeline.labels import EventMark, Kind, bar_marks, event_marks
from tfwatch.screens.live.timeline.step_bars import BarPart
from tfwatch.screens.live.timeline.window import Zoom, open_step

if TYPE_CHECKING:
    from tfwatch.runs.reading.reader import Snapshot
    from tfwatch.screens.live.timeline.rows import Figures
    from tfwatch.screens.live.timeline.step_bars import Floats
    from tfwatch.screens.live.timeline.window import OpenStep, Scene

#: An open step is overlong, and an open wait a stall, from this many median steps on.
_LONG_STEPS = 4.0
_MARKED: tuple[type[facts.Event], ...] = (
    facts.PipelineSwitched,
    ExperimentBegan,
    ExperimentEnded,
    facts.SwitchFailed,
    facts.EpochEnded,
    facts.ValidationEnded,
    facts.Slept,
    facts.TrainingFailed,
    facts.WatchFailed,
)
#: A mark shows a validation at its start; the event comes at its end, at most this much later.
_VALIDATION_NS = 3600 * 10**9


def overlong(snapshot: Snapshot, median_ms: float | None) -> OpenStep | None:
    """Return the open step where it is overlong; the first step never is."""
    lasting = open_step(snapshot) if snapshot.steps_total else None
    long_ms = max(step_bars.OPEN_MS, _LONG_STEPS * (median_ms or 0.0))
    return lasting if lasting and lasting.lasted_s * 1e3 >= long_ms else None


def stalled(snapshot: Snapshot, median_ms: float | None) -> OpenStep | None:
    """Return the overlong open step where it waits for its batch."""
    lasting = overlong(snapshot, median_ms)
    return lasting if lasting and lasting.part is BarPart.WAIT else None


def marks_of(scene: Scene) -> list[EventMark]:
    """Make all marks of the row `why`."""
    snapshot, bars = scene.snapshot, scene.bars
    marks = event_marks([*_events_in(scene), *scene.limits], scene.glyphs.to)
    fillings, filled = _fillings(snapshot), np.zeros(len(bars.starts_s), dtype=np.bool_)
    if len(fillings) and scene.view.zoom is Zoom.STEPS:
        filled = np.isin(bars.starts_s, fillings)
    elif len(fillings):
        filled = np.histogram(fillings, np.append(bars.starts_s, bars.end_s))[0] > 0
    lasting = _lasting_mark(snapshot, scene.figures)
    marks_so_far = bar_marks(bars, scene.top_ms, filled) if snapshot.steps_total else []
    if lasting:
        marks_so_far = [mark for mark in marks_so_far if mark.at_s + mark.length_s < lasting.at_s]
        marks_so_far.append(lasting)
    return [*marks, *marks_so_far]


def _events_in(scene: Scene) -> list[facts.Event]:
    """Return the view's events, at most the newest of each kind in each column."""
    events, bars = scene.snapshot.events, scene.bars
    edges_ns = [round(float(at) * 1e9) for at in (*bars.starts_s, bars.end_s + 1e-9)]
    marked = [event for kind in _MARKED for event in events.newest_in_each(kind, edges_ns)]
    following = events.between(facts.ValidationEnded, edges_ns[-1], edges_ns[-1] + _VALIDATION_NS)
    return [*marked, *following[:1]]


def _fillings(snapshot: Snapshot) -> Floats:
    steps = snapshot.steps
    starts: Floats = steps["start_ns"][(steps["flags"] & np.uint16(Flag.SHUFFLE_FILL)) != 0] / 1e9
    return starts


def _lasting_mark(snapshot: Snapshot, figures: Figures) -> EventMark | None:
    """Make the mark of an open stall, validation or compile, or of a run without a sign of life."""
    pulse = snapshot.pulse
    if pulse is None or snapshot.life is Life.ENDED:
        return None
    since_s = pulse.since_ns / 1e9
    if snapshot.life is Life.KILLED:
        return EventMark(pulse.now_ns / 1e9, Kind.FAILED, ("X killed", "X"))
    if snapshot.life is Life.GONE:
        return EventMark(pulse.now_ns / 1e9, Kind.OPEN, ("folder gone", "gone"))
    if snapshot.life is not Life.RUNNING:
        return EventMark(
            pulse.now_ns / 1e9,
            Kind.OPEN,
            (f"not responding {units.seconds(snapshot.silent_s)}", "not responding"),
        )
    took = units.seconds(snapshot.now_s - since_s)
    if stalled(snapshot, figures.split.step.median if figures.split else None):
        return EventMark(
            since_s,
            Kind.OPEN,
            (f"stalled now {took}", f"now {took}", "now"),
            snapshot.now_s - since_s,
        )
    if pulse.phase is Phase.VALIDATION:
        return EventMark(since_s, Kind.VALIDATION, (f"EV {took}", "EV"), snapshot.now_s - since_s)
    if pulse.phase is Phase.COMPILE:
        return EventMark(
            since_s,
            Kind.COMPILE,
            (f"C compiling {took}", f"C {took}", "C"),
            snapshot.now_s - since_s,
        )
    return None

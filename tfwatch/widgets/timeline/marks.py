"""The marks of a timeline: which of a run's events, of its bars and of what goes on now are labelled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core import events as facts
from tfwatch.core import units
from tfwatch.core.events import ExperimentBegan, ExperimentEnded
from tfwatch.core.rows import Flag, Phase
from tfwatch.runs.liveness import Life
from tfwatch.widgets.timeline import step_bars
from tfwatch.widgets.timeline.labels import Kind, Mark, bar_marks, event_marks
from tfwatch.widgets.timeline.step_bars import Part
from tfwatch.widgets.timeline.window import Zoom, open_step

if TYPE_CHECKING:
    from tfwatch.runs.reader import Snapshot
    from tfwatch.widgets.timeline.rows import Figures
    from tfwatch.widgets.timeline.step_bars import Floats
    from tfwatch.widgets.timeline.window import OpenStep, Scene

#: A wait that lasts is called a stall, and a step long, from this many median steps on.
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
#: A validation is marked where it began: its event comes so much later, at most.
_VALIDATION_NS = 3600 * 10**9


def overlong(snapshot: Snapshot, median_ms: float | None) -> OpenStep | None:
    """The step that lasts longer than is usual; the first one is the run's start."""
    lasting = open_step(snapshot) if snapshot.steps_total else None
    long_ms = max(step_bars.OPEN_MS, _LONG_STEPS * (median_ms or 0.0))
    return lasting if lasting and lasting.lasted_s * 1e3 >= long_ms else None


def stalled(snapshot: Snapshot, median_ms: float | None) -> OpenStep | None:
    """The same, where it waits for its batch."""
    lasting = overlong(snapshot, median_ms)
    return lasting if lasting and lasting.part is Part.WAIT else None


def marks_of(scene: Scene) -> list[Mark]:
    """Everything that has a label in the row `why`."""
    snapshot, bars = scene.snapshot, scene.bars
    marks = event_marks([*_events_in(scene), *scene.limits], scene.glyphs.to)
    fillings, filled = _fillings(snapshot), np.zeros(len(bars.starts_s), dtype=np.bool_)
    if len(fillings) and scene.view.zoom is Zoom.STEPS:
        filled = np.isin(bars.starts_s, fillings)
    elif len(fillings):
        filled = np.histogram(fillings, np.append(bars.starts_s, bars.end_s))[0] > 0
    lasting = _lasting_mark(snapshot, scene.figures)
    found = bar_marks(bars, scene.top_ms, filled) if snapshot.steps_total else []
    if lasting:
        found = [mark for mark in found if mark.at_s + mark.length_s < lasting.at_s]
        found.append(lasting)
    return [*marks, *found]


def _events_in(scene: Scene) -> list[facts.Event]:
    """The view's events; where a kind has more of them than the view has columns, the newest of each column."""
    events, bars = scene.snapshot.events, scene.bars
    edges_ns = [round(float(at) * 1e9) for at in (*bars.starts_s, bars.end_s + 1e-9)]
    found = [event for kind in _MARKED for event in events.newest_in_each(kind, edges_ns)]
    later = events.between(facts.ValidationEnded, edges_ns[-1], edges_ns[-1] + _VALIDATION_NS)
    return [*found, *later[:1]]


def _fillings(snapshot: Snapshot) -> Floats:
    steps = snapshot.steps
    starts: Floats = steps["start_ns"][(steps["flags"] & np.uint16(Flag.SHUFFLE_FILL)) != 0] / 1e9
    return starts


def _lasting_mark(snapshot: Snapshot, figures: Figures) -> Mark | None:
    """What goes on now and is no plain step, or how the run ended without a word."""
    pulse = snapshot.pulse
    if pulse is None or snapshot.life is Life.ENDED:
        return None
    since_s = pulse.since_ns / 1e9
    if snapshot.life is Life.KILLED:
        return Mark(pulse.now_ns / 1e9, Kind.FAILED, ("X killed", "X"))
    if snapshot.life is Life.GONE:
        return Mark(pulse.now_ns / 1e9, Kind.OPEN, ("folder gone", "gone"))
    if snapshot.life is not Life.RUNNING:
        return Mark(pulse.now_ns / 1e9, Kind.OPEN, (f"no answer {units.seconds(snapshot.silent_s)}", "no answer"))
    took = units.seconds(snapshot.now_s - since_s)
    if stalled(snapshot, figures.split.step.median if figures.split else None):
        return Mark(since_s, Kind.OPEN, (f"stalled now {took}", f"now {took}", "now"), snapshot.now_s - since_s)
    if pulse.phase is Phase.VALIDATION:
        return Mark(since_s, Kind.VALIDATION, (f"EV {took}", "EV"), snapshot.now_s - since_s)
    if pulse.phase is Phase.COMPILE:
        return Mark(since_s, Kind.COMPILE, (f"C compiling {took}", f"C {took}", "C"), snapshot.now_s - since_s)
    return None

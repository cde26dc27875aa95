"""The picture of a timeline: its rows and marks, the figures beside them and the texts in its
frame."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core import events as facts
from tfwatch.core import units
from tfwatch.core.events import (
    ExperimentBegan,
    ExperimentEnded,
    GpuFound,
    GpusFound,
    PipelineSwitched,
    SensorMissing,
    without_experiments,
)
from tfwatch.core.rows import Flag, Phase
from tfwatch.judge.findings import machine
from tfwatch.judge.findings.gpus import find_gpus, gpu_lanes, recent_rows
from tfwatch.runs.liveness import Life
from tfwatch.screens.basics.text import clock, single_width
from tfwatch.screens.live.timeline import lanes, rows, step_bars
from tfwatch.screens.live.timeline.labels import EventMark, Kind, ago, bar_marks, event_marks, place
from tfwatch.screens.live.timeline.step_bars import BarPart
from tfwatch.screens.live.timeline.window import (
    View,
    Zoom,
    column_of,
    looks_back,
    open_step,
    step_number,
    width_s,
)

if TYPE_CHECKING:
    from tfwatch.core.rows import Rows
    from tfwatch.judge.findings.gpus import GpuLane
    from tfwatch.judge.findings.machine import GpuFigures
    from tfwatch.judge.steps.verdict import Breakdown
    from tfwatch.runs.snapshot import Snapshot
    from tfwatch.screens.live.timeline.rows import Figures, Line, TimelineLayout
    from tfwatch.screens.live.timeline.step_bars import Bars, Bools, Floats
    from tfwatch.screens.live.timeline.window import OpenStep, Scene

#: Seconds before a switch over which the GPU's use is averaged.
_BEFORE_S = 10.0
#: The heading of figures from before an overlong step.
_BEFORE = "before"
_WORDS = {
    Phase.STARTING: "starting",
    Phase.COMPILE: "compiling the first step",
    Phase.WAIT: "waiting for the first batch",
    Phase.COMPUTE: "running the first step",
    Phase.ENDED: "no step completed",
}
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


def figures_of(snapshot: Snapshot, split: Breakdown | None) -> Figures:
    """Make the figures beside the rows. split: the breakdown of the newest steady steps."""
    switch = next(reversed(without_experiments(snapshot.events.of(PipelineSwitched))), None)
    return rows.Figures(
        split=split,
        means=rows.means_of(split),
        gpu=_gpu_now(snapshot, switch),
        gpu_was=_busy_before(snapshot, switch) if switch else None,
        gpu_status=machine.gpu_status(snapshot.events.of(GpuFound, SensorMissing)),
        gpus=_gpus_of(snapshot, recent_rows(snapshot.gpus, snapshot.now_s)),
    )


def figures_in_view(figures: Figures, snapshot: Snapshot, bars: Bars) -> Figures:
    """Return the figures of the bars in view; columns are means, so they give no 95th percentile of
    steps."""
    counts = (bars.steps > 0) & np.isfinite(bars.total_ms) & ~bars.flagged
    steps = int(bars.steps[counts].sum())
    parts = (bars.wait_ms, bars.host_ms, bars.own_compute_ms, bars.total_ms)
    means = [_mean(part, bars, counts) for part in parts] if steps else []
    copy = _mean(bars.known_copy_ms, bars, counts) if steps and bars.copy_ms is not None else None

    def between(rows: Rows) -> slice:
        return slice(
            *(lanes.count_before(rows, at_s * 1e9) for at_s in (bars.starts_s[0], bars.end_s))
        )

    seen = between(snapshot.samples)
    return replace(
        figures,
        means=replace(rows.StepMeans(*means), copy=copy),
        gpu=machine.gpu_figures(snapshot.samples[seen]),
        gpu_was=None,
        gpus=_gpus_of(snapshot, snapshot.gpus[between(snapshot.gpus)]),
    )


def _gpus_of(snapshot: Snapshot, seen: Rows) -> tuple[GpuLane, ...]:
    return gpu_lanes(seen, find_gpus(snapshot.events.of(GpusFound)))


def _mean(part_ms: Floats, bars: Bars, counts: Bools) -> float:
    return float((part_ms * bars.steps)[counts].sum()) / int(bars.steps[counts].sum())


def _gpu_now(snapshot: Snapshot, switch: PipelineSwitched | None) -> GpuFigures | None:
    seen = machine.recent(snapshot.samples, snapshot.now_s)
    return machine.gpu_figures(seen[seen["at_ns"] > switch.at_ns] if switch else seen)


def _busy_before(snapshot: Snapshot, switch: PipelineSwitched) -> float | None:
    """Return the GPU's use in the seconds before a switch, back to the switch before it; None where
    unknown."""
    earlier = [e.at_ns for e in snapshot.events.of(PipelineSwitched) if e.at_ns < switch.at_ns]
    since_ns = max([switch.at_ns - int(_BEFORE_S * 1e9), *earlier])
    first, end = (lanes.count_before(snapshot.samples, at) for at in (since_ns, switch.at_ns))
    figures = machine.gpu_figures(snapshot.samples[first:end])
    return figures.busy if figures else None


def draw(scene: Scene, layout: TimelineLayout) -> list[Line]:
    """Draw all rows, from the top: the strip, why, the GPU, the time axis."""
    snapshot, bars, glyphs, figures = scene.snapshot, scene.bars, scene.glyphs, scene.figures
    wide = layout.legend >= rows.WIDE
    cells = step_bars.stack(bars, scene.top_ms, layout.strip_rows, glyphs.fine)
    charts = rows.strip_lines(bars, cells, glyphs, _rules(scene))
    if not snapshot.steps_total:
        middle = layout.strip_rows // 2
        charts[middle] = rows.message_line(single_width(first_words(snapshot)), charts[middle])
    axis = rows.axis_texts(scene.top_ms, layout.strip_rows)
    when, is_stale = _when(scene), snapshot.life.is_stale
    legend = rows.legend_lines(
        figures.means, glyphs, layout.strip_rows, wide, when, is_stale or when == _BEFORE
    )
    lines = [
        _beside(text, chart, right) for text, chart, right in zip(axis, charts, legend, strict=True)
    ]
    labels = place(marks_of(scene), bars.starts_s, bars.end_s)
    hint = " ? explains marks" if wide else " ? explains"
    lines.append(_beside("why", rows.mark_line(labels, layout.columns), ((hint, "quiet"),)))
    lines.extend(_gpu_lane(scene, layout))
    if layout.has_axis:
        lines.append(_beside("", rows.axis_line(bars, _times(scene)), ()))
    return lines


def _when(scene: Scene) -> str:
    """Return the heading of the figures: the moment they describe."""
    if scene.view.end_s is None:
        split = scene.figures.split
        if scene.snapshot.life is not Life.RUNNING:
            return "last"
        return _BEFORE if overlong(scene.snapshot, split.step.median if split else None) else "now"
    return "in view" if looks_back(scene.snapshot, scene.view) else "then"


def _gpu_lane(scene: Scene, layout: TimelineLayout) -> list[Line]:
    seen, count = scene.sampled, layout.gpu_rows
    if not count or seen.busy is None:
        return []
    if len(scene.figures.gpus) > 1:
        return [_lane_of(one, scene, layout) for one in lanes.shown_gpus(scene.figures.gpus, count)]
    charts = lanes.gpu_lines(seen.busy, seen.ours, count, scene.glyphs)
    beside = lanes.gpu_figures_beside(
        scene.figures.gpu, scene.figures.gpu_was, count, layout.legend
    )
    return [_beside(*parts) for parts in zip(("GPU", "busy"), charts, beside, strict=False)]


def _lane_of(gpu: GpuLane, scene: Scene, layout: TimelineLayout) -> Line:
    """Draw one of several GPUs."""
    nothing = np.full(layout.columns, np.nan)
    busy, ours = scene.sampled.gpus.get(gpu.device, (nothing, nothing))
    (chart,) = lanes.gpu_lines(busy, ours, 1, scene.glyphs)
    return _beside(
        gpu.device, chart, lanes.gpu_lane_figures(gpu, scene.figures.gpus, layout.legend)
    )


def _beside(label: str, chart: Line, right: Line) -> Line:
    gutter = f"{label:>{rows.GUTTER - 1}} " if label[:1].isdigit() else f"{label:<{rows.GUTTER}}"
    return ((gutter, "quiet"), *chart, *right)


def _rules(scene: Scene) -> list[tuple[int, str, str]]:
    starts_s, glyphs = scene.bars.starts_s, scene.glyphs
    switches = [
        event.at_ns / 1e9
        for event in without_experiments(scene.snapshot.events.of(PipelineSwitched))
    ]
    seen = [at for at in switches if starts_s[0] <= at <= scene.bars.end_s]
    rules = [(column_of(scene.bars, at), glyphs.switched, "rule") for at in seen]
    return rules if scene.cursor is None else [*rules, (scene.cursor, glyphs.cursor, "cursor")]


def _times(scene: Scene) -> list[tuple[float, str]]:
    snapshot, bars = scene.snapshot, scene.bars
    follows = scene.view.end_s is None and snapshot.life in (Life.RUNNING, Life.NOT_RESPONDING)
    if scene.view.zoom is Zoom.STEPS:
        last = (
            step_number(snapshot, scene.view.end_s or 0.0)
            if looks_back(snapshot, scene.view)
            else None
        )
        return rows.steps_ago(bars) if last is None else rows.step_numbers(bars, last)
    if follows and scene.view.zoom is not Zoom.ALL:
        return rows.times_ago(bars, snapshot.now_s)
    first_s = float(bars.starts_s[0])
    first = snapshot.local_time(first_s)
    origin_s = (
        first.hour * 3600 + first.minute * 60 + first.second + first.microsecond / 1e6 - first_s
    )
    return [
        (at_s, clock(snapshot, at_s)) for at_s in rows.times_of_day(bars, origin_s, snapshot.now_s)
    ]


def first_words(snapshot: Snapshot) -> str:
    """Return the text in the chart before the first step."""
    pulse = snapshot.pulse
    if pulse is None or snapshot.life.is_over:
        return "no step completed" if snapshot.life.is_over else "starting"
    words = _WORDS.get(pulse.phase, "before the first step")
    return f"{words}, {units.seconds(max(0.0, snapshot.now_s - pulse.since_ns / 1e9))}"


def span_words(snapshot: Snapshot, view: View, columns: int) -> tuple[str, str]:
    """Return the time that the view shows, and the time of a column."""
    if view.zoom is Zoom.STEPS:
        return f"last {columns} steps", "one column = 1 step"
    width = width_s(snapshot, view, columns)
    column = f"one column = {ago(float(f'{width:.2g}'))[1:]}"
    if view.zoom is Zoom.ALL:
        return f"the whole run, {units.seconds(snapshot.now_s)}", column
    shown_s = width * columns
    return f"last {ago(round(shown_s) if shown_s < 120 else round(shown_s / 60) * 60)[1:]}", column


def read_out(scene: Scene) -> list[str]:
    """Return `10:18:31 step 3 477: wait 9.6 host 0.8 compute 12.9 ms` of the cursor's column, and a
    shorter text."""
    bars, column = scene.bars, scene.cursor
    if column is None:
        return []
    when = clock(scene.snapshot, float(bars.starts_s[column]))
    parts = bars.parts_of(column)
    if np.isnan(parts["wait"]):
        return [f"{when} no step"]
    if sum(parts.values()) >= 10_000:
        figures = " ".join(f"{name} {units.milliseconds(value)}" for name, value in parts.items())
    else:
        figures = " ".join(f"{name} {value:.1f}" for name, value in parts.items()) + " ms"
    shortest = [figures] if "copy" in parts else []
    return [f"{when}{_step_words(scene, column)}: {figures}", f"{when} {figures}", *shortest]


def _step_words(scene: Scene, column: int) -> str:
    """Return the steps of a column; empty where they are no longer in memory."""
    bars, steps = scene.bars, scene.snapshot.recent
    if scene.view.zoom is Zoom.STEPS:
        number = step_number(scene.snapshot, float(bars.starts_s[column]))
        return "" if number is None else f" step {units.count(number)}"
    ends_s = bars.starts_s[column + 1] if column + 1 < len(bars.starts_s) else bars.end_s + 1e-9
    starts_ns = [round(float(at) * 1e9) for at in (bars.starts_s[column], ends_s)]
    first, end = (int(at) for at in np.searchsorted(steps["start_ns"], starts_ns, side="left"))
    if not len(steps) or end == 0:
        return ""
    if end - first <= 1:
        return f" step {units.count(int(steps['step'][max(end - 1, 0)]))}"
    return (
        f" steps {units.count(int(steps['step'][first]))} to"
        f" {units.count(int(steps['step'][end - 1]))}"
    )


def title_words(scene: Scene, live: Snapshot | None, columns: int, room: int) -> tuple[str, str]:
    """Return the texts at both ends of the frame, the longest that fit in `room` cells.

    live: the newest snapshot where the picture is frozen, else None.
    """
    glyphs, held = scene.glyphs, scene.snapshot
    span, column = span_words(held, scene.view, columns)
    look = f"z zoom  {glyphs.left} {glyphs.right} look back"
    lefts, rights = [span], [f"{look}  {column}", look, "z zoom", ""]
    if live:
        dot = f" {glyphs.dot} "
        lefts = [
            dot.join(words) for words in (_viewing if held.life.is_over else _frozen)(scene, live)
        ]
    if scene.cursor is not None:
        rights = [*read_out(scene), ""]
    fits = (
        (left, right) for left in lefts for right in rights if len(left) + len(right) + 4 <= room
    )
    wanted = next((pair for pair in fits if pair[1] or scene.cursor is None), None)
    return wanted or (lefts[-1], "")


def _frozen(scene: Scene, live: Snapshot) -> list[tuple[str, ...]]:
    held, steps = scene.snapshot, live.steps_total - scene.snapshot.steps_total
    at = f"FROZEN at {clock(held, held.now_s)}"
    since, back = f"{units.counted(steps, 'step')} since", "space: live"
    if live.life.is_over:
        since, back = "the run is over", "space: end"
    return [(at, since, back), (at, back), ("FROZEN", back)]


def _viewing(scene: Scene, live: Snapshot) -> list[tuple[str, ...]]:
    """Return the title of a run that was over before: the moment in view."""
    view = scene.view
    at_s = min(live.now_s, scene.bars.end_s if view.cursor_s is None else view.cursor_s)
    return [(f"VIEWING {clock(live, at_s)}", "space: end"), ("VIEWING", "space: end")]


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
    steps = snapshot.recent
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

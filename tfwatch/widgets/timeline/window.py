"""The window of a timeline: the stretch it looks at, the bars in it, and the scene it is drawn from.

Where on the time axis a timeline looks, and the bars that it sees there.

The scene of a timeline: all that one picture of it is drawn from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core.events import PipelineSwitched
from tfwatch.core.rows import Phase
from tfwatch.runs.liveness import Life
from tfwatch.widgets.timeline.step_bars import (
    OPEN_MS,
    Bars,
    Part,
    bars_of_steps,
    bars_of_time,
    column_width,
    mean_share,
    padded,
    with_open_step,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.core.events import Paused
    from tfwatch.runs.reader import Snapshot
    from tfwatch.runs.sums import Columns
    from tfwatch.widgets.basics.glyphs import Glyphs
    from tfwatch.widgets.timeline.lanes import Sampled
    from tfwatch.widgets.timeline.rows import Figures


class Zoom(IntEnum):
    """How much of the run is shown at once."""

    STEPS = 0
    SECONDS = 1
    MINUTES = 2
    HOUR = 3
    ALL = 4


#: What a zoom shows at least, seconds.
_SPAN_S = {Zoom.SECONDS: 18.0, Zoom.MINUTES: 300.0, Zoom.HOUR: 3600.0}
_OPEN_PARTS = {
    Phase.WAIT: Part.WAIT,
    Phase.COMPUTE: Part.COMPUTE,
    Phase.HOST: Part.HOST,
    Phase.COMPILE: Part.MUTED,
}
#: Columns before a switch that tell how much the device starved then: 10 s.
_BEFORE = 40
_BUCKET_S = 0.25


@dataclass(frozen=True, slots=True)
class View:
    """A place on the time axis. `end_s`: where the newest column lies; None follows the run.

    cursor_s: the moment that is read out; None where none is.
    """

    zoom: Zoom = Zoom.SECONDS
    end_s: float | None = None
    cursor_s: float | None = None


@dataclass(frozen=True, slots=True)
class OpenStep:
    """What the training thread does and has not ended: `part` since `since_s`, known to last until `until_s`."""

    part: Part
    since_s: float
    until_s: float

    @property
    def lasted_s(self) -> float:
        """How long so far."""
        return max(0.0, self.until_s - self.since_s)


def open_step(snapshot: Snapshot) -> OpenStep | None:
    """The step that lasts now; of a process that gives no answer, until its last sign of life."""
    pulse = snapshot.pulse
    if pulse is None or pulse.phase not in _OPEN_PARTS or snapshot.life not in (Life.RUNNING, Life.SILENT):
        return None
    until_s = snapshot.now_s if snapshot.life is Life.RUNNING else pulse.now_ns / 1e9
    return OpenStep(_OPEN_PARTS[pulse.phase], pulse.since_ns / 1e9, until_s)


def see(snapshot: Snapshot, view: View, columns: int) -> Bars:
    """The `columns` bars of a view."""
    lasting = open_step(snapshot)
    if view.zoom is Zoom.STEPS:
        return _see_steps(snapshot, view, columns, lasting)
    bars = _of_columns(
        snapshot.pyramid.columns(_end_s(snapshot, view, columns), width_s(snapshot, view, columns), columns)
    )
    return with_open_step(bars, lasting.since_s, lasting.until_s, lasting.part) if lasting else bars


def _see_steps(snapshot: Snapshot, view: View, columns: int, lasting: OpenStep | None) -> Bars:
    rows = snapshot.steps
    if view.end_s is not None:
        rows = rows[: _step_at(snapshot, view.end_s) + 1]
    follows = lasting and lasting.lasted_s * 1e3 >= OPEN_MS and (view.end_s is None or view.end_s >= lasting.since_s)
    if not lasting or not follows:
        return bars_of_steps(rows, columns)
    bars = padded(replace(bars_of_steps(rows, columns - 1), end_s=lasting.since_s), 0, 1)
    return with_open_step(replace(bars, end_s=lasting.until_s), lasting.since_s, lasting.until_s, lasting.part)


def _of_columns(columns: Columns) -> Bars:
    parts = (columns.wait_ms, columns.host_ms, columns.compute_ms)
    return bars_of_time(columns.start_s, columns.width_s, columns.steps, parts, columns.flags)


def width_s(snapshot: Snapshot, view: View, columns: int) -> float:
    """How long a column is; of no meaning where a column is a step."""
    span_s = _SPAN_S.get(view.zoom, snapshot.now_s + _BUCKET_S)
    return column_width(span_s, columns)


def _end_s(snapshot: Snapshot, view: View, columns: int) -> float:
    if view.zoom is Zoom.ALL:
        return (columns - 0.5) * width_s(snapshot, view, columns)
    return snapshot.now_s if view.end_s is None else view.end_s


def _step_at(snapshot: Snapshot, at_s: float) -> int:
    """The index in `snapshot.steps` of the step that began at `at_s` or last before it; -1 is none."""
    return int(np.searchsorted(snapshot.steps["start_ns"], round(at_s * 1e9), side="right")) - 1


def column_of(bars: Bars, at_s: float) -> int:
    """The column in which a moment lies; the nearest where it lies in none."""
    column = int(np.searchsorted(bars.starts_s, at_s, side="right")) - 1
    return min(max(column, 0), len(bars.starts_s) - 1)


def frozen(snapshot: Snapshot, view: View) -> View:
    """The view as it stands."""
    return view if view.end_s is not None else replace(view, end_s=snapshot.now_s)


def looks_back(snapshot: Snapshot, view: View) -> bool:
    """Whether a view ends before the newest that there is."""
    return view.end_s is not None and view.end_s < snapshot.now_s


def moved(snapshot: Snapshot, view: View, bars: Bars, by: int) -> View:
    """The cursor moved by so many columns; at an edge the view moves along."""
    view, columns = frozen(snapshot, view), len(bars.starts_s)
    cursor = columns - 1 if view.cursor_s is None else column_of(bars, view.cursor_s)
    target = min(max(cursor + by, 0), columns - 1)
    beyond = cursor + by - target
    if beyond:
        view = _shifted(snapshot, view, columns, beyond)
        bars = see(snapshot, view, columns)
    return replace(view, cursor_s=float(bars.starts_s[target]))


def _shifted(snapshot: Snapshot, view: View, columns: int, by: int) -> View:
    end_s = _end_s(snapshot, view, columns)
    if view.zoom is not Zoom.STEPS:
        return replace(view, end_s=_clamped(snapshot, view, columns, end_s + by * width_s(snapshot, view, columns)))
    last = len(snapshot.steps) - 1
    at = min(max(_step_at(snapshot, end_s) + by, min(columns - 1, last)), last)
    return replace(view, end_s=float(snapshot.steps["start_ns"][at] / 1e9) if at >= 0 else end_s)


def _clamped(snapshot: Snapshot, view: View, columns: int, end_s: float) -> float:
    """An end at which the window begins in the run and ends in it."""
    first_end_s = (columns - 0.5) * width_s(snapshot, view, columns)
    return min(max(end_s, first_end_s), snapshot.now_s)


def at_home(snapshot: Snapshot, view: View, columns: int) -> View:
    """The run's beginning; of single steps, the oldest that are kept."""
    if view.zoom is Zoom.STEPS:
        start = _shifted(snapshot, frozen(snapshot, view), columns, -len(snapshot.steps))
    else:
        start = replace(view, end_s=_clamped(snapshot, view, columns, 0.0))
    return replace(start, cursor_s=float(see(snapshot, start, columns).starts_s[0]))


def around(snapshot: Snapshot, view: View, columns: int, at_s: float) -> View:
    """A moment in the middle, read out. A single step that is not kept any more is seen in its quarter second."""
    zoom = view.zoom
    if zoom is Zoom.STEPS and _step_at(snapshot, at_s) < 0:
        zoom = Zoom.SECONDS
    view = View(zoom, at_s, at_s)
    if zoom is Zoom.STEPS:
        return replace(_shifted(snapshot, view, columns, columns // 2), cursor_s=at_s)
    end_s = at_s + columns // 2 * width_s(snapshot, view, columns)
    return replace(view, end_s=_clamped(snapshot, view, columns, end_s))


def zoomed(snapshot: Snapshot, view: View, columns: int, direction: int) -> View:
    """Another zoom; spans longer than the run are passed over. A moment that is read out stays in view."""
    levels = [zoom for zoom in Zoom if _SPAN_S.get(zoom, 0.0) < max(snapshot.now_s, _SPAN_S[Zoom.SECONDS] + 1)]
    at = levels.index(view.zoom) if view.zoom in levels else len(levels) - 1
    zoom = levels[min(max(at + (1 if direction > 0 else -1), 0), len(levels) - 1)]
    if view.end_s is None or zoom is view.zoom:
        return replace(view, zoom=zoom)
    return around(snapshot, replace(view, zoom=zoom), columns, view.end_s if view.cursor_s is None else view.cursor_s)


def share_before(snapshot: Snapshot, switch: PipelineSwitched) -> float | None:
    """How much the device starved in the 10 s before a switch, back to the switch before it; None is unknown."""
    earlier = [event.at_ns for event in snapshot.events.of(PipelineSwitched) if event.at_ns < switch.at_ns]
    bars = _of_columns(snapshot.pyramid.columns(switch.at_ns / 1e9 - _BUCKET_S, _BUCKET_S, _BEFORE))
    since_s = max(earlier, default=0) / 1e9
    return mean_share(replace(bars, flagged=bars.flagged | (bars.starts_s < since_s)))


@dataclass(frozen=True, eq=False)
class Scene:
    """What a picture is made of. `limits`: all of the run's."""

    snapshot: Snapshot
    view: View
    bars: Bars
    sampled: Sampled
    limits: Sequence[Paused]
    top_ms: float | None
    glyphs: Glyphs
    figures: Figures
    cursor: int | None

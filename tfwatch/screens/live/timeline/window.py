"""The view of a timeline: its zoom and place on the time axis, and the bars in view."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.rows import Phase
from tfwatch.runs.liveness import Life
from tfwatch.runs.sums import BUCKET_S, TimeColumns
from tfwatch.screens.live.timeline.step_bars import (
    WIDTHS_S,
    BarPart,
    with_open_step,
    with_traces,
)

if TYPE_CHECKING:
    from tfwatch.runs.snapshot import Snapshot


class Zoom(IntEnum):
    """The zoom level: the part of the run in view."""

    SECONDS = 0
    MINUTES = 1
    HOUR = 2
    ALL = 3


#: The least seconds that a zoom level shows.
_SPAN_S = {Zoom.SECONDS: 18.0, Zoom.MINUTES: 300.0, Zoom.HOUR: 3600.0}
_OPEN_PARTS = {
    Phase.WAIT: BarPart.WAIT,
    Phase.COMPUTE: BarPart.COMPUTE,
    Phase.HOST: BarPart.HOST,
    Phase.COMPILE: BarPart.MUTED,
}


@dataclass(frozen=True, slots=True)
class View:
    """A place on the time axis."""

    zoom: Zoom = Zoom.SECONDS
    #: The moment of the newest column; None follows the run.
    end_s: float | None = None


def bars_in_view(snapshot: Snapshot, view: View, columns: int) -> TimeColumns:
    """Return the `columns` bars of a view, with the unfinished step; of a process that does not
    respond, until its last sign of life."""
    width, end_s = width_s(snapshot, view, columns), _end_s(snapshot, view, columns)
    bars = with_traces(snapshot.time_sums.columns(end_s, width, columns))
    pulse, life = snapshot.pulse, snapshot.life
    if pulse is None or life not in (Life.RUNNING, Life.NOT_RESPONDING):
        return bars
    part = _OPEN_PARTS.get(pulse.phase)
    until_s = snapshot.now_s if life is Life.RUNNING else pulse.now_ns / 1e9
    return bars if part is None else with_open_step(bars, pulse.since_ns / 1e9, until_s, part)


def width_s(snapshot: Snapshot, view: View, columns: int) -> float:
    """Return the width of a column in seconds: the narrowest that shows the span of the zoom.

    A run that is over fills all columns; another would shift in each frame.
    """
    if view.zoom is Zoom.ALL and snapshot.life.is_over:
        return max(snapshot.now_s / columns, BUCKET_S)
    span_s = _SPAN_S.get(view.zoom, snapshot.now_s + BUCKET_S)
    return next((width for width in WIDTHS_S if width * columns >= span_s), WIDTHS_S[-1])


def _end_s(snapshot: Snapshot, view: View, columns: int) -> float:
    if view.zoom is Zoom.ALL:
        return (columns - 0.5) * width_s(snapshot, view, columns)
    return snapshot.now_s if view.end_s is None else view.end_s


def frozen(snapshot: Snapshot, view: View) -> View:
    """Return the view with a fixed end."""
    return view if view.end_s is not None else replace(view, end_s=snapshot.now_s)


def moved(snapshot: Snapshot, view: View, columns: int, by: int) -> View:
    """Move the view by `by` halves of its width, to the past where negative."""
    shift_s = by * columns / 2 * width_s(snapshot, view, columns)
    end_s = _end_s(snapshot, view, columns) + shift_s
    return replace(view, end_s=_clamped(snapshot, view, columns, end_s))


def _clamped(snapshot: Snapshot, view: View, columns: int, end_s: float) -> float:
    """Return the nearest end that keeps the window within the run."""
    first_end_s = (columns - 0.5) * width_s(snapshot, view, columns)
    return min(max(end_s, first_end_s), snapshot.now_s)


def around(snapshot: Snapshot, view: View, columns: int, at_s: float) -> View:
    """Return a view with a moment in the middle."""
    end_s = at_s + columns // 2 * width_s(snapshot, view, columns)
    return View(view.zoom, _clamped(snapshot, view, columns, end_s))


def zoomed(snapshot: Snapshot, view: View, columns: int) -> View:
    """Return the view at the next zoom, without spans longer than the run; its middle stays."""
    longest_s = max(snapshot.now_s, _SPAN_S[Zoom.SECONDS] + 1)
    levels = [zoom for zoom in Zoom if _SPAN_S.get(zoom, 0.0) < longest_s]
    zoom = next((level for level in levels if level > view.zoom), Zoom.SECONDS)
    if view.end_s is None:
        return replace(view, zoom=zoom)
    at_s = view.end_s - columns // 2 * width_s(snapshot, view, columns)
    return around(snapshot, replace(view, zoom=zoom), columns, at_s)


def span_words(snapshot: Snapshot, view: View, columns: int) -> str:
    """Return `last 23 s`, or `the whole run, 11:40`: the time that the view shows."""
    if view.zoom is Zoom.ALL:
        return f"the whole run, {units.seconds(snapshot.now_s)}"
    shown_s = round(width_s(snapshot, view, columns) * columns)
    return f"last {shown_s} s" if shown_s < 120 else f"last {round(shown_s / 60)} min"

"""The view of a timeline: its zoom and place on the time axis, the axis, and the bars in view."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core import units
from tfwatch.core.rows import Phase
from tfwatch.runs.liveness import Life
from tfwatch.runs.sums import BUCKET_S
from tfwatch.screens.basics.text import clock
from tfwatch.screens.live.timeline.step_bars import (
    BarPart,
    Bars,
    bars_of_time,
    column_width,
    with_open_step,
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
    #: The moment under the cursor.
    cursor_s: float | None = None


@dataclass(frozen=True, slots=True)
class OpenStep:
    """The unfinished step: its `part` lasts since `since_s`, and is known to last until
    `until_s`."""

    part: BarPart
    since_s: float
    until_s: float


def open_step(snapshot: Snapshot) -> OpenStep | None:
    """Return the unfinished step; of a process that does not respond, until its last sign of
    life."""
    pulse, life = snapshot.pulse, snapshot.life
    if pulse is None or life not in (Life.RUNNING, Life.NOT_RESPONDING):
        return None
    part = _OPEN_PARTS.get(pulse.phase)
    until_s = snapshot.now_s if life is Life.RUNNING else pulse.now_ns / 1e9
    return None if part is None else OpenStep(part, pulse.since_ns / 1e9, until_s)


def bars_in_view(snapshot: Snapshot, view: View, columns: int) -> Bars:
    """Return the `columns` bars of a view."""
    end_s, lasting = _end_s(snapshot, view, columns), open_step(snapshot)
    bars = bars_of_time(
        snapshot.time_sums.columns(end_s, width_s(snapshot, view, columns), columns)
    )
    return with_open_step(bars, lasting.since_s, lasting.until_s, lasting.part) if lasting else bars


def width_s(snapshot: Snapshot, view: View, columns: int) -> float:
    """Return the width of a column in seconds.

    A run that is over fills all columns; another would shift in each frame.
    """
    if view.zoom is Zoom.ALL and snapshot.life.is_over:
        return max(snapshot.now_s / columns, BUCKET_S)
    return column_width(_SPAN_S.get(view.zoom, snapshot.now_s + BUCKET_S), columns)


def _end_s(snapshot: Snapshot, view: View, columns: int) -> float:
    if view.zoom is Zoom.ALL:
        return (columns - 0.5) * width_s(snapshot, view, columns)
    return snapshot.now_s if view.end_s is None else view.end_s


def column_of(bars: Bars, at_s: float) -> int:
    """Return the column of a moment, or the nearest column."""
    column = int(np.searchsorted(bars.starts_s, at_s, side="right")) - 1
    return min(max(column, 0), len(bars.starts_s) - 1)


def frozen(snapshot: Snapshot, view: View) -> View:
    """Return the view with a fixed end."""
    return view if view.end_s is not None else replace(view, end_s=snapshot.now_s)


def looks_back(snapshot: Snapshot, view: View) -> bool:
    """Return True where a view ends before the newest data."""
    return view.end_s is not None and view.end_s < snapshot.now_s


def moved(snapshot: Snapshot, view: View, bars: Bars, by: int) -> View:
    """Move the cursor by `by` columns; at an edge move the view too."""
    view, columns = frozen(snapshot, view), len(bars.starts_s)
    cursor = column_of(bars, snapshot.now_s if view.cursor_s is None else view.cursor_s)
    target = min(max(cursor + by, 0), columns - 1)
    if beyond := cursor + by - target:
        view = _shifted(snapshot, view, columns, beyond)
        bars = bars_in_view(snapshot, view, columns)
    return replace(view, cursor_s=float(bars.starts_s[target]))


def _shifted(snapshot: Snapshot, view: View, columns: int, by: int) -> View:
    end_s = _end_s(snapshot, view, columns) + by * width_s(snapshot, view, columns)
    return replace(view, end_s=_clamped(snapshot, view, columns, end_s))


def _clamped(snapshot: Snapshot, view: View, columns: int, end_s: float) -> float:
    """Return the nearest end that keeps the window within the run."""
    first_end_s = (columns - 0.5) * width_s(snapshot, view, columns)
    return min(max(end_s, first_end_s), snapshot.now_s)


def paged(snapshot: Snapshot, view: View, columns: int, pages: int) -> View:
    """Move the view by its own width, to the past where `pages` is negative, and the cursor with
    it."""
    before = frozen(snapshot, view)
    after = _shifted(snapshot, before, columns, pages * columns)
    if before.cursor_s is None or before.end_s is None or after.end_s is None:
        return after
    return replace(after, cursor_s=before.cursor_s + after.end_s - before.end_s)


def at_home(snapshot: Snapshot, view: View, columns: int) -> View:
    """Return the view of the run's start."""
    start = replace(view, end_s=_clamped(snapshot, view, columns, 0.0))
    return replace(start, cursor_s=float(bars_in_view(snapshot, start, columns).starts_s[0]))


def around(snapshot: Snapshot, view: View, columns: int, at_s: float) -> View:
    """Return a view with a moment in the middle."""
    end_s = at_s + columns // 2 * width_s(snapshot, view, columns)
    return View(view.zoom, _clamped(snapshot, view, columns, end_s), at_s)


def zoomed(snapshot: Snapshot, view: View, columns: int, direction: int) -> View:
    """Change the zoom, skipping spans longer than the run; keep the moment under the cursor in
    view."""
    longest_s = max(snapshot.now_s, _SPAN_S[Zoom.SECONDS] + 1)
    levels = [zoom for zoom in Zoom if _SPAN_S.get(zoom, 0.0) < longest_s]
    at = levels.index(view.zoom) if view.zoom in levels else len(levels) - 1
    zoom = levels[min(max(at + (1 if direction > 0 else -1), 0), len(levels) - 1)]
    if view.end_s is None or zoom is view.zoom:
        return replace(view, zoom=zoom)
    at_s = view.end_s if view.cursor_s is None else view.cursor_s
    return around(snapshot, replace(view, zoom=zoom), columns, at_s)


# -- the time axis ---------------------------------------------------------------------------------


def tick_texts(snapshot: Snapshot, view: View, bars: Bars) -> list[tuple[float, str]]:
    """Return the ticks of a view: seconds since the clock origin, and their texts."""
    follows = view.end_s is None and snapshot.life in (Life.RUNNING, Life.NOT_RESPONDING)
    if follows and view.zoom is not Zoom.ALL:
        return times_ago(bars, snapshot.now_s)
    return [(at_s, clock(snapshot, at_s)) for at_s in times_of_day(bars, snapshot)]


def times_ago(bars: Bars, now_s: float) -> list[tuple[float, str]]:
    """Return the ticks of a view that follows the run, as time before now."""
    shown_s = now_s - float(bars.starts_s[0])
    step = tick_step(shown_s, max(len(bars.starts_s) // 15, 2))
    ticks = np.arange(step, shown_s, step)[::-1].tolist()
    return [*((now_s - tick, ago(tick)) for tick in ticks), (now_s, "now")]


def times_of_day(bars: Bars, snapshot: Snapshot) -> list[float]:
    """Return ticks at round times of day, seconds since the clock origin."""
    first_s, end_s = float(bars.starts_s[0]), min(bars.end_s, snapshot.now_s)
    first = snapshot.local_time(first_s)
    of_day_s = first.hour * 3600 + first.minute * 60 + first.second + first.microsecond / 1e6
    step = tick_step(bars.end_s - first_s, max(len(bars.starts_s) // 18, 2))
    origin_s = of_day_s - first_s
    round_s = np.ceil((max(first_s, 0.0) + origin_s) / step) * step - origin_s
    ticks: list[float] = np.arange(round_s, end_s, step).tolist()
    return ticks


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


def span_words(snapshot: Snapshot, view: View, columns: int) -> tuple[str, str]:
    """Return the time that the view shows, and the time of a column."""
    width = width_s(snapshot, view, columns)
    column = f"one column = {ago(float(f'{width:.2g}'))[1:]}"
    if view.zoom is Zoom.ALL:
        return f"the whole run, {units.seconds(snapshot.now_s)}", column
    shown_s = width * columns
    return f"last {ago(round(shown_s) if shown_s < 120 else round(shown_s / 60) * 60)[1:]}", column

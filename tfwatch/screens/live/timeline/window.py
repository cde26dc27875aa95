"""The view of a timeline: its zoom and place on the time axis, the bars in view, and the scene to
draw."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core.rows import Phase
from tfwatch.runs.folder import DiskSilentError
from tfwatch.runs.liveness import Life
from tfwatch.runs.sums import BUCKET_S
from tfwatch.screens.live.timeline.step_bars import (
    OPEN_MS,
    BarPart,
    Bars,
    bars_of_steps,
    bars_of_time,
    column_width,
    padded,
    with_open_step,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.core.events import Paused
    from tfwatch.core.rows import Rows
    from tfwatch.runs.snapshot import Snapshot
    from tfwatch.runs.sums import Floats, TimeColumns
    from tfwatch.screens.basics.glyphs import Glyphs
    from tfwatch.screens.live.timeline.lanes import Sampled
    from tfwatch.screens.live.timeline.rows import Figures


class Zoom(IntEnum):
    """The zoom level: the part of the run in view."""

    STEPS = 0
    SECONDS = 1
    MINUTES = 2
    HOUR = 3
    ALL = 4


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

    @property
    def lasted_s(self) -> float:
        """The seconds so far."""
        return max(0.0, self.until_s - self.since_s)


def open_step(snapshot: Snapshot) -> OpenStep | None:
    """Return the unfinished step; of a process that does not respond, until its last sign of
    life."""
    pulse = snapshot.pulse
    if (
        pulse is None
        or pulse.phase not in _OPEN_PARTS
        or snapshot.life not in (Life.RUNNING, Life.NOT_RESPONDING)
    ):
        return None
    until_s = snapshot.now_s if snapshot.life is Life.RUNNING else pulse.now_ns / 1e9
    return OpenStep(_OPEN_PARTS[pulse.phase], pulse.since_ns / 1e9, until_s)


def bars_in_view(snapshot: Snapshot, view: View, columns: int) -> Bars:
    """Return the `columns` bars of a view."""
    lasting = open_step(snapshot)
    if view.zoom is Zoom.STEPS:
        return _bars_of_single_steps(snapshot, view, columns, lasting)
    seen = snapshot.pyramid.columns(
        _end_s(snapshot, view, columns), width_s(snapshot, view, columns), columns
    )
    # The pyramid of a frozen picture still grows.
    bars = _of_columns(clipped(snapshot, seen) if _is_ahead(snapshot, seen) else seen)
    return with_open_step(bars, lasting.since_s, lasting.until_s, lasting.part) if lasting else bars


def _bars_of_single_steps(
    snapshot: Snapshot, view: View, columns: int, lasting: OpenStep | None
) -> Bars:
    last = snapshot.steps_total if view.end_s is None else _step_at(snapshot, view.end_s)
    rows = _steps_until(snapshot, last, columns)
    follows = (
        lasting
        and lasting.lasted_s * 1e3 >= OPEN_MS
        and (view.end_s is None or view.end_s >= lasting.since_s)
    )
    if not lasting or not follows:
        return bars_of_steps(rows, columns)
    bars = padded(replace(bars_of_steps(rows, columns - 1), end_s=lasting.since_s), 0, 1)
    return with_open_step(
        replace(bars, end_s=lasting.until_s), lasting.since_s, lasting.until_s, lasting.part
    )


def _of_columns(columns: TimeColumns) -> Bars:
    parts = (columns.wait_ms, columns.host_ms, columns.compute_ms)
    copy_ms = columns.copy_ms if np.isfinite(columns.copy_ms).any() else None
    return bars_of_time(
        columns.start_s, columns.end_s, columns.steps, parts, columns.flags, copy_ms
    )


def _is_ahead(snapshot: Snapshot, columns: TimeColumns) -> bool:
    return min(snapshot.pyramid.end_s, columns.end_s) > snapshot.now_s


def clipped(snapshot: Snapshot, columns: TimeColumns) -> TimeColumns:
    """Return the columns without the steps that began after the snapshot."""
    at = max(int(np.searchsorted(columns.start_s, snapshot.now_s, side="right")) - 1, 0)
    last_s = snapshot.now_s // BUCKET_S * BUCKET_S
    whole = snapshot.pyramid.columns(
        last_s - BUCKET_S / 2, BUCKET_S, round((last_s - columns.start_s[at]) / BUCKET_S)
    )
    starts_ns = snapshot.recent["start_ns"]
    newest = snapshot.recent[(starts_ns >= last_s * 1e9) & (starts_ns <= snapshot.now_s * 1e9)]
    count = int(whole.steps.sum()) + len(newest)

    def mean(part: str) -> float:
        sum_ms = float(np.nansum(getattr(whole, part) * whole.steps)) + float(
            np.nansum(newest[part], dtype=np.float64)
        )
        return sum_ms / count if count else np.nan

    def until(values: Floats, newest_value: float) -> Floats:
        later = np.full(len(values) - at - 1, np.nan)
        return np.concatenate([values[:at], [newest_value], later])

    return replace(
        columns,
        steps=np.nan_to_num(until(columns.steps.astype(np.float64), count)).astype(np.int64),
        wait_ms=until(columns.wait_ms, mean("wait_ms")),
        host_ms=until(columns.host_ms, mean("host_ms")),
        compute_ms=until(columns.compute_ms, mean("compute_ms")),
        copy_ms=until(columns.copy_ms, mean("copy_ms") or np.nan),
    )


def width_s(snapshot: Snapshot, view: View, columns: int) -> float:
    """Return the width of a column in seconds; without meaning where a column is a step.

    A run that is over fills all columns; another would shift in each frame.
    """
    if view.zoom is Zoom.ALL and snapshot.life.is_over:
        return max(snapshot.now_s / columns, BUCKET_S)
    span_s = _SPAN_S.get(view.zoom, snapshot.now_s + BUCKET_S)
    return column_width(span_s, columns)


def _end_s(snapshot: Snapshot, view: View, columns: int) -> float:
    if view.zoom is Zoom.ALL:
        return (columns - 0.5) * width_s(snapshot, view, columns)
    return snapshot.now_s if view.end_s is None else view.end_s


def _step_at(snapshot: Snapshot, at_s: float) -> int:
    """Return the last step that started by `at_s`, counted from 1; 0 for none. Old steps are read
    from the disk."""
    older, at_ns = snapshot.steps_total - len(snapshot.recent), round(at_s * 1e9)
    kept = int(np.searchsorted(snapshot.recent["start_ns"], at_ns, side="right"))
    if kept or not older:
        return older + kept
    return bisect_right(range(1, older + 1), at_ns, key=lambda step: _start_ns(snapshot, step))


def _start_ns(snapshot: Snapshot, step: int) -> int:
    rows = _steps_until(snapshot, step, 1)
    return int(rows["start_ns"][0]) if len(rows) else 0


def _steps_until(snapshot: Snapshot, last: int, count: int) -> Rows:
    """Return the rows of at most `count` steps up to the `last`; old ones are read from the disk,
    where it responds."""
    first, older = max(last - count + 1, 1), snapshot.steps_total - len(snapshot.recent)
    if first > older:
        return snapshot.recent[first - older - 1 : last - older]
    try:
        return snapshot.steps_between(first, last)
    except DiskSilentError:
        return snapshot.recent[:0]


def step_number(snapshot: Snapshot, at_s: float) -> int | None:
    """Return the number of the step that runs at a moment; None where there is none."""
    rows = _steps_until(snapshot, _step_at(snapshot, at_s), 1)
    return int(rows["step"][0]) if len(rows) else None


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
    cursor = columns - 1 if view.cursor_s is None else column_of(bars, view.cursor_s)
    target = min(max(cursor + by, 0), columns - 1)
    beyond = cursor + by - target
    if beyond:
        view = _shifted(snapshot, view, columns, beyond)
        bars = bars_in_view(snapshot, view, columns)
    return replace(view, cursor_s=float(bars.starts_s[target]))


def _shifted(snapshot: Snapshot, view: View, columns: int, by: int) -> View:
    end_s = _end_s(snapshot, view, columns)
    if view.zoom is not Zoom.STEPS:
        return replace(
            view,
            end_s=_clamped(snapshot, view, columns, end_s + by * width_s(snapshot, view, columns)),
        )
    last = snapshot.steps_total
    at = min(max(_step_at(snapshot, end_s) + by, min(columns, last)), last)
    return replace(view, end_s=_start_ns(snapshot, at) / 1e9) if at else view


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


def close_to(snapshot: Snapshot, view: View, columns: int, at_s: float) -> View:
    """Return a view with a moment in the middle, in which a stall of seconds is seen."""
    return around(snapshot, replace(view, zoom=min(view.zoom, Zoom.MINUTES)), columns, at_s)


def moved_to(snapshot: Snapshot, view: View, columns: int, at_s: float) -> View:
    """Return a view of the same width with a moment in its middle; of the whole run, the next
    narrower one."""
    if view.zoom is Zoom.ALL:
        view = replace(zoomed(snapshot, View(Zoom.ALL), columns, -1), end_s=None)
    return replace(around(snapshot, view, columns, at_s), cursor_s=None)


def at_home(snapshot: Snapshot, view: View, columns: int) -> View:
    """Return the view of the run's start."""
    if view.zoom is Zoom.STEPS:
        start = _shifted(snapshot, frozen(snapshot, view), columns, -snapshot.steps_total)
    else:
        start = replace(view, end_s=_clamped(snapshot, view, columns, 0.0))
    return replace(start, cursor_s=float(bars_in_view(snapshot, start, columns).starts_s[0]))


def around(snapshot: Snapshot, view: View, columns: int, at_s: float) -> View:
    """Return a view with a moment in the middle; zoom out where its single step cannot be read."""
    zoom = view.zoom
    if zoom is Zoom.STEPS and step_number(snapshot, at_s) is None:
        zoom = Zoom.SECONDS
    view = View(zoom, at_s, at_s)
    if zoom is Zoom.STEPS:
        return replace(_shifted(snapshot, view, columns, columns // 2), cursor_s=at_s)
    end_s = at_s + columns // 2 * width_s(snapshot, view, columns)
    return replace(view, end_s=_clamped(snapshot, view, columns, end_s))


def zoomed(snapshot: Snapshot, view: View, columns: int, direction: int) -> View:
    """Change the zoom, skipping spans longer than the run; keep the moment under the cursor in
    view."""
    levels = [
        zoom
        for zoom in Zoom
        if _SPAN_S.get(zoom, 0.0) < max(snapshot.now_s, _SPAN_S[Zoom.SECONDS] + 1)
    ]
    at = levels.index(view.zoom) if view.zoom in levels else len(levels) - 1
    zoom = levels[min(max(at + (1 if direction > 0 else -1), 0), len(levels) - 1)]
    if view.end_s is None or zoom is view.zoom:
        return replace(view, zoom=zoom)
    return around(
        snapshot,
        replace(view, zoom=zoom),
        columns,
        view.end_s if view.cursor_s is None else view.cursor_s,
    )


@dataclass(frozen=True, eq=False)
class Scene:
    """The data of one picture. `limits`: the run's stretches of heat and swapping."""

    snapshot: Snapshot
    view: View
    bars: Bars
    sampled: Sampled
    limits: Sequence[Paused]
    top_ms: float | None
    glyphs: Glyphs
    figures: Figures
    cursor: int | None

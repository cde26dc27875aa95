"""The rows below the bars, on their time axis: the marks of events, the use of the GPUs, and times
of day."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tfwatch.core import units
from tfwatch.core.events import GpuFound, GpusFound
from tfwatch.judge.machine import extremes
from tfwatch.screens.text import QUIET_COLOUR, clock, single_width

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tfwatch.core.rows import Rows
    from tfwatch.judge.event_rows import EventRow, EventRows
    from tfwatch.judge.machine import GpuFigures, MachineFigures
    from tfwatch.runs.snapshot import Snapshot
    from tfwatch.runs.sums import Floats, TimeColumns

#: A piece of text and its style, e.g. `$warning bold`: lines of them are faster than `Content`.
Piece: TypeAlias = tuple[str, str]
Line: TypeAlias = tuple[Piece, ...]

NUMBER, LIMIT = "$foreground", "$text-warning bold"


def joined(row: Iterable[Piece]) -> Line:
    """Join neighbours with the same style."""
    return tuple(
        ("".join([char for char, _ in run]), style) for style, run in groupby(row, itemgetter(1))
    )


# -- marks: the letters of events, with their first words where there is room ----------------------

#: The styles of rows, the most important last: their marks are placed first.
_STYLES = ("", "$text-accent", "$text-warning", "$text-error")
#: The end of the first words of a sentence: figures follow.
_END = re.compile(r",|:| at step | in ")


@dataclass(frozen=True, slots=True)
class Label:
    """A text at a column."""

    column: int
    text: str
    style: str


def labels_in_view(rows: EventRows, bars: TimeColumns) -> list[Label]:
    """Return the labels of the events in view, at most one a column."""
    edges_s = [*bars.start_s.tolist(), bars.end_s]
    return place(rows.newest_in_each(edges_s), edges_s)


def place(rows: Sequence[EventRow], edges_s: Sequence[float]) -> list[Label]:
    """Place the mark of each row at its column, with its first words, as `E epoch 1`, where they
    leave a blank beside the next label, or drop it.

    Near the right edge a label ends at the edge. Among equal styles the newest is placed first.
    """
    columns = len(edges_s) - 1
    taken = bytearray(columns + 1)
    labels = []
    for row in sorted(rows, key=_importance, reverse=True):
        column = bisect_right(edges_s, row.at_s, 0, columns) - 1
        for text in (single_width(f"{row.mark} {_END.split(row.text, 1)[0]}"), row.mark):
            at = min(column, columns - len(text))
            if at >= 0 and not any(taken[at : at + len(text)]):
                labels.append(Label(at, text, row.style))
                first, end = max(at - 1, 0), min(at + len(text) + 1, len(taken))
                taken[first:end] = b"x" * (end - first)
                break
    return sorted(labels, key=lambda label: label.column)


def _importance(row: EventRow) -> tuple[int, float]:
    return _STYLES.index(row.style) if row.style in _STYLES else 0, row.at_s


def mark_line(labels: Sequence[Label], columns: int) -> Line:
    """Draw the labels of the marks, each at its column."""
    row: list[Piece] = [(" ", "")] * columns
    for label in labels:
        style = label.style or QUIET_COLOUR
        row[label.column : label.column + len(label.text)] = [(char, style) for char in label.text]
    return joined(row)


# -- GPUs ------------------------------------------------------------------------------------------

#: The longest time that one sample covers: samples come twice a second, and a late one covers the
#: gap before it.
_HOLD_S = 2.0
#: The most samples to average: a long view uses every n-th.
_SAMPLES = 4000
#: The GPU's name, its use in each column, 0 to 1, the figures beside it and their style.
Lane: TypeAlias = "tuple[str, Floats, str, str]"


def gpu_lanes(
    snapshot: Snapshot, machine: MachineFigures | None, bars: TimeColumns, is_wide: bool
) -> list[Lane]:
    """Return the lane of the GPU, of several those of the idlest and the busiest; none where none
    has figures in view."""
    if machine and len(machine.gpus) > 1:
        words = "busiest", "idlest"
        named = zip(words, extremes(machine.gpus) or machine.gpus[:1], strict=False)
        return [_lane_of(snapshot, gpu, word, bars) for word, gpu in named][::-1]
    if not snapshot.events.newest(GpuFound):
        return []
    seen = _in_view(snapshot.samples, bars)
    busy = _columns(seen["gpu_busy"], seen["at_ns"] / 1e9, bars, snapshot.now_s)
    return [("GPU", busy, *_figures(machine, is_wide))] if np.isfinite(busy).any() else []


def _lane_of(snapshot: Snapshot, gpu: GpuFigures, word: str, bars: TimeColumns) -> Lane:
    found = snapshot.events.newest(GpusFound)
    names = [*found.names] if found else []
    seen = _in_view(snapshot.gpus, bars)
    own = seen[seen["gpu"] == (names.index(gpu.device) if gpu.device in names else -1)]
    shares = _columns(own["busy"], own["at_ns"] / 1e9, bars, snapshot.now_s)
    return gpu.device, shares, f"{units.percent(gpu.busy):>5} {word}", NUMBER


def _figures(machine: MachineFigures | None, is_wide: bool) -> tuple[str, str]:
    """Return `56 %, 6.5 W`: the GPU's use and power, and their style."""
    gpu = machine.gpu if machine else None
    if gpu is None or gpu.busy is None:
        return units.MISSING, QUIET_COLOUR
    power = "" if gpu.power_w is None or not is_wide else f", {units.watts(gpu.power_w)}"
    return f"{units.percent(gpu.busy)}{power}", LIMIT if gpu.is_shared else NUMBER


def _in_view(rows: Rows, bars: TimeColumns) -> Rows:
    """Return the samples of the bars' time; a search in numpy would copy the whole column first."""
    first, end = (
        bisect_left(range(len(rows)), at_s * 1e9, key=lambda at: int(rows["at_ns"][at]))
        for at_s in (bars.start_s[0] - _HOLD_S, bars.end_s + _HOLD_S)
    )
    between: Rows = rows[first : end : max(1, (end - first) // _SAMPLES)]
    return between


def _columns(values: Floats, at_s: Floats, bars: TimeColumns, now_s: float) -> Floats:
    """Return the mean of the samples in each column; a column without samples gets the one that
    covers it.

    A sample covers the time since the one before it, at most `_HOLD_S` seconds; columns after the
    last sample are unknown. `at_s` rises.
    """
    starts_s = bars.start_s
    out = np.full(len(starts_s), np.nan)
    since_s = np.maximum(at_s - _HOLD_S, np.concatenate([[-np.inf], at_s[:-1]]))
    known = np.isfinite(values)
    at_s, values, since_s = at_s[known], values[known], since_s[known]
    if not len(at_s):
        return out
    following = np.searchsorted(at_s, starts_s, side="right")
    held = following < len(at_s)
    held[held] = since_s[following[held]] <= starts_s[held] + 1e-9
    out[held] = values[following[held]]
    column = np.searchsorted(starts_s, at_s, side="left") - 1
    inside = column >= 0
    counts = np.bincount(column[inside], minlength=len(out))
    sums = np.bincount(column[inside], weights=values[inside], minlength=len(out))
    out[counts > 0] = sums[counts > 0] / counts[counts > 0]
    out[(starts_s < 0) | (starts_s > now_s)] = np.nan
    return out


#: From empty to full; only the first is blank.
_LEVELS = " ▁▂▃▄▅▆▇█"


def gauge(shares: Floats) -> str:
    """Draw shares, 0 to 1, as a row of levels: 0 is a thin line, and only a missing one is
    blank."""
    known = np.isfinite(shares)
    full = len(_LEVELS) - 1
    levels = np.rint(np.clip(np.where(known, shares, 0.0), 0.0, 1.0) * full)
    levels = np.where(known, np.maximum(levels, 1), 0).astype(np.int64)
    return "".join(_LEVELS[level] for level in levels.tolist())


# -- the time axis ---------------------------------------------------------------------------------

#: The columns from one time of day to the next.
_APART = 45


def axis_line(bars: TimeColumns, snapshot: Snapshot) -> Line:
    """Draw times of day, each ending at its column, from the right edge on."""
    columns = len(bars.start_s)
    row = " " * columns
    for end in range(columns, 0, -_APART):
        at_s = float(bars.start_s[end - 1])
        text = clock(snapshot, at_s)
        if end >= len(text) and 0.0 <= at_s <= snapshot.now_s:
            row = row[: end - len(text)] + text + row[end:]
    return ((row, QUIET_COLOUR),)

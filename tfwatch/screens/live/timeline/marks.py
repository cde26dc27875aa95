"""The marks below the bars: the letters of events at their columns, with their first words where
there is room."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.screens.basics.text import single_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.judge.event_rows import EventRow, EventRows
    from tfwatch.screens.live.timeline.step_bars import Bars

#: The styles of rows, the most important last: their marks are placed first.
_STYLES = ("", "$text-accent", "$text-warning", "$text-error")


@dataclass(frozen=True, slots=True)
class Label:
    """A text at a column."""

    column: int
    text: str
    style: str


def labels_in_view(rows: EventRows, bars: Bars) -> list[Label]:
    """Return the labels of the events in view, at most one a column."""
    edges_s = [*bars.starts_s.tolist(), bars.end_s]
    return place(rows.newest_in_each(edges_s), edges_s)


def place(rows: Sequence[EventRow], edges_s: Sequence[float]) -> list[Label]:
    """Place the mark of each row at its column, with its first words where they leave a blank
    beside the next label, or drop it.

    Near the right edge a label ends at the edge. Among equal styles the newest is placed first.
    """
    columns = len(edges_s) - 1
    taken = bytearray(columns + 1)
    labels = []
    for row in sorted(rows, key=_importance, reverse=True):
        column = bisect_right(edges_s, row.at_s, 0, columns) - 1
        for text in _texts(row):
            at = min(column, columns - len(text))
            if at >= 0 and not any(taken[at : at + len(text)]):
                labels.append(Label(at, text, row.style))
                first, end = max(at - 1, 0), min(at + len(text) + 1, len(taken))
                taken[first:end] = b"x" * (end - first)
                break
    return sorted(labels, key=lambda label: label.column)


def _importance(row: EventRow) -> tuple[int, float]:
    return _STYLES.index(row.style) if row.style in _STYLES else 0, row.at_s


def _texts(row: EventRow) -> tuple[str, str]:
    """Return `E epoch 1` and `E`: the mark with the first words of its sentence, and alone."""
    words = row.text.partition(",")[0].partition(":")[0]
    return single_width(f"{row.mark} {words}"), row.mark

"""The workers of the tf.data service as rows of the input pipeline's pane: the sum, and one row per worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from tfwatch.analysis.findings.feed_lanes import FeedLane, total
from tfwatch.core import units
from tfwatch.widgets.basics.glyphs import MUTED_COLOUR, STALL_COLOUR
from tfwatch.widgets.basics.text import column, plain, row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.content import Content

    from tfwatch.analysis.findings.feed_lanes import Feed

_FAINT = "$foreground 65%"
_HEADS = ("cores", "elements/s", "received/s")
_FIGURES = ("cores", "elements_s", "bytes_s")
_FIGURE = max(map(len, _HEADS)) + 1
#: The narrowest column of names, and the fewest rows of a table: heads, sum, a worker, the others.
_NAME, _LEAST = 14, 4


def feed_rows(feed: Feed, width: int, room: int, end: str = "…") -> list[Content]:
    """Return the rows of a service, at most `room`; none without room. A lost worker is shown before others."""
    style = f"{STALL_COLOUR} bold" if feed.lost else "bold"
    if room < min(len(feed.lanes) + 2, _LEAST):
        return [row((f"  {feed.words}", style))][:room]
    dispatcher = [FeedLane("dispatcher", is_lost=True)] if feed.is_dispatcher_lost else []
    whole = (
        [_sum(feed.lanes, units.counted(len(feed.lanes), "worker"))] if len(feed.lanes) > 1 else []
    )
    lanes = [*whole, *dispatcher, *_shown(feed, room - 2 - len(dispatcher))]
    name = _name_width(lanes, width)
    heads = row((f"  {'':<{name}}{''.join(f'{head:>{_FIGURE}}' for head in _HEADS)}", _FAINT))
    rows = [_row(lane, name, end, f"{STALL_COLOUR} bold" if lane.is_lost else "") for lane in lanes]
    reasons = [row((f"  {reason}", MUTED_COLOUR)) for reason in feed.missing_text]
    return [heads, *rows, *reasons][:room]


def _sum(lanes: Sequence[FeedLane], name: str) -> FeedLane:
    return FeedLane(name, is_lost=False, **{figure: total(lanes, figure) for figure in _FIGURES})


def _name_width(lanes: Sequence[FeedLane], width: int) -> int:
    longest = max(cell_len(plain(lane.address)) for lane in lanes)
    return max(min(longest, width - 2 - len(_HEADS) * _FIGURE), _NAME)


def _shown(feed: Feed, room: int) -> list[FeedLane]:
    """Return as many workers as fit, lost ones before others, in their order; one row sums up the others."""
    if len(feed.lanes) <= room:
        return list(feed.lanes)
    kept = sorted(feed.lanes, key=lambda lane: not lane.is_lost)[: max(room - 1, 0)]
    others = [lane for lane in feed.lanes if lane not in kept]
    return [*(lane for lane in feed.lanes if lane in kept), _sum(others, f"{len(others)} others")]


def _row(lane: FeedLane, name: int, end: str, style: str) -> Content:
    if lane.is_lost:
        return row((f"  {column(lane.address, name, end)} does not respond", style))
    figures = (_number(lane.cores, 1), _number(lane.elements_s, 0), units.memory(lane.bytes_s))
    return row(
        (
            f"  {column(lane.address, name, end)}{''.join(f'{one:>{_FIGURE}}' for one in figures)}",
            style,
        )
    )


def _number(value: float | None, digits: int) -> str:
    return (
        units.count(round(value))
        if value is not None and not digits
        else units.number(value, digits)
    )

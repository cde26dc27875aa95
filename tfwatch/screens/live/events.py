"""The list of events, newest first; selecting one shows its moment in the charts."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.message import Message
from textual.reactive import reactive

from tfwatch.judge.event_rows import EventCollector, EventRow
from tfwatch.judge.findings.situation import reading_text
from tfwatch.screens.basics.row_list import RowList
from tfwatch.screens.basics.text import row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.binding import BindingType
    from textual.content import Content

    from tfwatch.judge.view import RunView


_KEYS_HINT = "enter jumps  [ ] previous, next  / filters"


class EventsPane(RowList):
    """Rows of `EventRow`; posts `Chosen` with the moment of the selected row."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "row up", show=False),
        Binding("down", "move(1)", "row down", show=False),
        Binding("pageup", "move(-10)", "page up", show=False),
        Binding("pagedown", "move(10)", "page down", show=False),
        Binding("enter", "choose", "jump to this event", show=False),
    ]

    #: Oldest first.
    event_rows: reactive[Sequence[EventRow]] = reactive((), repaint=False)
    #: The selected row, counted from the newest; -1 without one.
    cursor: reactive[int] = reactive(-1, repaint=False)
    #: The number of rows that show, of how many.
    matches = ""
    #: Only rows that contain this text show; all where it is empty.
    wanted: reactive[str] = reactive("", repaint=False)

    @dataclass
    class Chosen(Message):
        """The user selected a moment of the run."""

        #: Seconds since the clock origin.
        at_s: float
        #: The sentence of its row where the pane cuts it; else empty.
        cut_text: str = ""

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._collector = EventCollector()
        self._view: RunView | None = None
        self._shown: tuple[object, ...] = ()

    def on_mount(self) -> None:
        self.set_titles("events", _KEYS_HINT)

    def show(self, view: RunView) -> None:
        """Show the events of a view where they differ from those shown."""
        waiting = tuple(state.asked for state in view.knobs.values())
        counts = tuple(
            map(
                len,
                (view.snapshot.events, view.stalls, view.compiles, view.log_findings, view.fits),
            )
        )
        key = counts, view.comparisons, waiting
        if key != self._shown:
            self._shown = key
            self.update(view)
        self._view = view
        self._set_title()

    def update(self, view: RunView) -> None:
        """Show the events of a view now."""
        self._view = view
        rows = self._collector.take(view)
        self.event_rows = rows.with_text(self.wanted) if self.wanted else rows
        self.matches = f"{len(self.event_rows)} of {len(rows)}"

    def watch_wanted(self) -> None:
        """Filter the rows."""
        self.follow()
        if self._view:
            self.update(self._view)

    def _set_title(self) -> None:
        reading = self._view.situation.searched if self._view else None
        title = "events" if reading is None else f"events, {reading_text(reading)}"
        self.set_titles(title, _KEYS_HINT)

    def count(self) -> int:
        """Return the number of rows."""
        return len(self.event_rows)

    def row_at(self, index: int, width: int) -> Content:
        """Return the `index`-th newest row."""
        what = self.event_rows[-1 - index]
        here = "reverse" if index == self.cursor else ""
        return row(
            (f"{what.time} ", f"$foreground 65% {here}".strip()),
            (f"{what.mark} ", "$accent bold"),
            (what.text, f"{what.style} {here}".strip()),
        )

    def watch_event_rows(self, old: Sequence[EventRow], new: Sequence[EventRow]) -> None:
        if 0 <= self.cursor < len(old):
            at = _find(old[-1 - self.cursor], new)
            self.cursor = self.cursor if at is None else len(new) - 1 - at
        self.rows_changed()

    def watch_cursor(self) -> None:
        if self.cursor >= 0:
            self.scroll_to(y=max(0, self.cursor - self.size.height // 2), animate=False)
        self.repaint_rows()

    def action_move(self, rows: int) -> None:
        """Move the cursor, to older events where `rows` is positive."""
        self.cursor = min(max(self.cursor + rows, 0), len(self.event_rows) - 1)

    def action_choose(self) -> None:
        """Jump to the event under the cursor."""
        if 0 <= self.cursor < len(self.event_rows):
            chosen = self.event_rows[-1 - self.cursor]
            width = self.scrollable_content_region.width
            is_cut = self.row_at(self.cursor, width).cell_length > width
            # An earlier fit of the script ended before this run began.
            self.post_message(self.Chosen(max(chosen.at_s, 0.0), chosen.text if is_cut else ""))

    def follow(self) -> None:
        """Clear the selection and follow the newest events."""
        self.cursor = -1
        self.scroll_to(y=0, animate=False)

    def step(self, rows: int) -> bool:
        """Move the cursor and jump to its event; return False where the list has no such row."""
        before = self.cursor
        self.action_move(rows)
        self.action_choose()
        return self.cursor != before

    def on_click(self, event: events.Click) -> None:
        at = event.get_content_offset(self)
        if at is not None and at.y + self.scroll_offset.y < len(self.event_rows):
            self.cursor = at.y + self.scroll_offset.y
            self.action_choose()


def _find(what: EventRow, rows: Sequence[EventRow]) -> int | None:
    """Return the index of a row among rows sorted by time; None where it is gone."""
    at = bisect_left(rows, what.at_s, key=attrgetter("at_s"))
    while at < len(rows) and rows[at].at_s == what.at_s:
        if rows[at] == what:
            return at
        at += 1
    return None

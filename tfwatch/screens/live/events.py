"""The list of events, newest first; selecting one shows its moment in the charts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.message import Message
from textual.reactive import reactive

from tfwatch.judge.event_rows import EventCollector, EventRow
from tfwatch.judge.findings.situation import reading_text
from tfwatch.screens.basics.row_list import CursorList
from tfwatch.screens.basics.text import row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import BindingType
    from textual.content import Content

    from tfwatch.judge.event_rows import EventRows
    from tfwatch.judge.view import RunView

_KEYS_HINT = "enter jumps  [ ] previous, next  / filters"


class EventsPane(CursorList):
    """Rows of `EventRow`; posts `Chosen` with the moment of the selected row."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "jump to this event", show=False)
    ]

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
        self.set_reactive(EventsPane.cursor, -1)
        #: Those that show, oldest first.
        self.event_rows: Sequence[EventRow] = ()
        #: The number of rows that show, of how many.
        self.matches = ""
        self._collector = EventCollector()
        self._all: EventRows | None = None

    def on_mount(self) -> None:
        self.set_titles("events", _KEYS_HINT)

    def take(self, view: RunView) -> EventRows:
        """Return all events of a view, and show them."""
        rows = self._collector.take(view)
        if rows is not self._all:
            self._all = rows
            self._filter()
        return rows

    def show(self, view: RunView) -> None:
        """Show in the title how much of the run is read."""
        reading = view.situation.searched
        title = "events" if reading is None else f"events, {reading_text(reading)}"
        self.set_titles(title, _KEYS_HINT)

    def watch_wanted(self) -> None:
        self.follow()
        self._filter()

    def _filter(self) -> None:
        """Show the rows with the wanted text; the cursor stays at its event."""
        if self._all is None:
            return
        cursor, before = self.cursor, self.event_rows
        chosen = before[-1 - cursor] if 0 <= cursor < len(before) else None
        self.event_rows = self._all.with_text(self.wanted) if self.wanted else self._all
        self.matches = f"{len(self.event_rows)} of {len(self._all)}"
        if chosen and len(self.event_rows) != len(before):
            self.cursor = next(
                (at for at in range(self.count()) if self.event_rows[-1 - at] == chosen), cursor
            )
        self.rows_changed()

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

    def action_choose(self) -> None:
        """Jump to the event under the cursor."""
        if 0 <= self.cursor < self.count():
            chosen = self.event_rows[-1 - self.cursor]
            width = self.scrollable_content_region.width
            is_cut = self.row_at(self.cursor, width).cell_length > width
            # An earlier fit of the script ended before this run began.
            self.post_message(self.Chosen(max(chosen.at_s, 0.0), chosen.text if is_cut else ""))

    def clicked(self, again: bool) -> None:
        """Jump to the event."""
        self.action_choose()

    def follow(self) -> None:
        """Clear the selection, if there is one, and follow the newest events."""
        if self.cursor >= 0:
            self.cursor = -1
            self.scroll_to(y=0, animate=False)

    def step(self, rows: int) -> bool:
        """Move the cursor and jump to its event; return False where the list has no such row."""
        before = self.cursor
        self.action_move(rows)
        self.action_choose()
        return self.cursor != before

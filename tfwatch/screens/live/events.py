"""The list of events, newest first; selecting one shows its moment in the charts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.message import Message
from textual.reactive import reactive

from tfwatch.judge.event_rows import EventCollector, EventRow
from tfwatch.judge.findings.situation import reading_text
from tfwatch.screens.basics.pane import RowList
from tfwatch.screens.basics.text import row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.binding import BindingType
    from textual.content import Content

    from tfwatch.judge.event_rows import EventRows
    from tfwatch.judge.view import RunView

_KEYS_HINT = "3, then up and down: its moment in the charts"


class EventsPane(RowList):
    """Rows of `EventRow` with a cursor; posts `Chosen` with the moment of the selected row."""

    DEFAULT_CSS = """
    EventsPane.-plain { scrollbar-size-vertical: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "row up", show=False),
        Binding("down", "move(1)", "row down", show=False),
        Binding("pageup", "move(-10)", "page up", show=False),
        Binding("pagedown", "move(10)", "page down", show=False),
        Binding("enter", "choose", "the whole sentence", show=False),
    ]

    #: The row under the cursor, from the newest on; -1 without one.
    cursor: reactive[int] = reactive(-1, repaint=False)

    @dataclass
    class Chosen(Message):
        """The user selected a moment of the run."""

        #: Seconds since the clock origin.
        at_s: float
        #: The sentence of its row where the pane cuts it; else empty.
        cut_text: str = ""

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        #: Oldest first.
        self.event_rows: Sequence[EventRow] = ()
        self._collector = EventCollector()

    def on_mount(self) -> None:
        self.set_titles("events", _KEYS_HINT)

    def take(self, view: RunView) -> EventRows:
        """Return all events of a view, and show them; the cursor stays at its event."""
        rows, before = self._collector.take(view), self.event_rows
        if rows is not before:
            chosen = before[-1 - self.cursor] if 0 <= self.cursor < len(before) else None
            self.event_rows = rows
            if chosen:
                at = (at for at in range(len(rows)) if rows[-1 - at] == chosen)
                self.cursor = next(at, self.cursor)
            self.rows_changed()
        return rows

    def show(self, view: RunView) -> None:
        """Show in the title how much of the run is read."""
        reading = view.situation.searched
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

    def action_choose(self) -> None:
        """Jump to the event under the cursor, and show the whole of a sentence that is cut."""
        self._jump(shows_text=True)

    def _jump(self, *, shows_text: bool) -> None:
        if 0 <= self.cursor < self.count():
            chosen = self.event_rows[-1 - self.cursor]
            width = self.scrollable_content_region.width
            is_cut = self.row_at(self.cursor, width).cell_length > width
            # An earlier fit of the script ended before this run began.
            at_s = max(chosen.at_s, 0.0)
            self.post_message(self.Chosen(at_s, chosen.text if is_cut and shows_text else ""))

    def on_click(self, event: events.Click) -> None:
        """Jump to the event."""
        at = event.get_content_offset(self)
        if at is not None and at.y + self.scroll_offset.y < self.count():
            self.cursor = at.y + self.scroll_offset.y
            self.action_choose()

    def watch_cursor(self) -> None:
        room = max(self.scrollable_content_region.height, 1)
        if not self.scroll_offset.y <= max(self.cursor, 0) < self.scroll_offset.y + room:
            self.scroll_to(y=max(0, self.cursor - room // 2), animate=False)
        self.repaint_rows()

    def action_move(self, rows: int) -> None:
        """Move the cursor, down where `rows` is positive, and jump to its event."""
        self.cursor = min(max(self.cursor + rows, 0), max(self.count() - 1, 0))
        self._jump(shows_text=False)

    def follow(self) -> None:
        """Clear the selection, if there is one, and follow the newest events."""
        if self.cursor >= 0:
            self.cursor = -1
            self.scroll_to(y=0, animate=False)

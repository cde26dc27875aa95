"""The lists: the events, newest first, whose moments the charts show; and the log, with what its
known lines mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual.binding import Binding
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tfwatch.judge.event_rows import EventCollector
from tfwatch.judge.log_lines import meaning_of
from tfwatch.screens.pane import FRAME_CSS, Titled, strip_of
from tfwatch.screens.text import QUIET_COLOUR, plain, row, wrap_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from textual import events
    from textual.binding import BindingType
    from textual.content import Content

    from tfwatch.judge.event_rows import EventRow, EventRows
    from tfwatch.judge.view import RunView
    from tfwatch.screens.text import Part


class RowList(ScrollView, Titled, can_focus=True, inherit_bindings=False):
    """A scrolling list; a subclass returns the number of rows and each row."""

    DEFAULT_CSS = f"""
    RowList {{
        {FRAME_CSS}
        background: $background;
        padding: 0 1;
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
        scrollbar-background: $background;
        scrollbar-color: $foreground 30%;
    }}
    """

    #: True for a list that follows new rows while it is scrolled to its end.
    FOLLOWS_END: ClassVar[bool] = False

    #: The end when the rows last changed: a pane that was resized or hidden since is still at its
    #: end.
    _end = 0

    def count(self) -> int:
        """Return the number of rows."""
        raise NotImplementedError

    def row_at(self, index: int, width: int) -> Content:
        """Return one row."""
        raise NotImplementedError

    def rows_changed(self) -> None:
        """Draw the rows again."""
        at_end = self.FOLLOWS_END and self.scroll_offset.y >= self._end - 1
        self._resize(Size(self.scrollable_content_region.width, self.count()))
        self._end = self.max_scroll_y
        if at_end:
            # By force: the scrollbar, which scrolling needs, appears only with the next layout.
            self.scroll_end(animate=False, immediate=True, force=True)
        self.repaint_rows()

    def _resize(self, size: Size) -> None:
        """Set the number of rows; lay the screen out again, which costs three frames, only if the
        scrollbar changes."""
        bar = size.height > self.container_size.height
        if bar != self.show_vertical_scrollbar or size.width != self.virtual_size.width:
            self.virtual_size = size
            return
        self.set_reactive(RowList.virtual_size, size)
        if bar:
            self.vertical_scrollbar.window_virtual_size = size.height
        self.scroll_y = self.validate_scroll_y(self.scroll_y)

    def on_resize(self) -> None:
        self.rows_changed()

    def repaint_rows(self) -> None:
        """Repaint the rows, not the frame around them."""
        self.refresh(self.size.region)

    def render_line(self, y: int) -> Strip:
        """Draw visible row `y`."""
        width, index = self.scrollable_content_region.width, y + self.scroll_offset.y
        if index >= self.count():
            return Strip.blank(width, self.rich_style)
        line = self.row_at(index, width)
        return strip_of(self, line, width).adjust_cell_length(width, self.rich_style)


# -- events ----------------------------------------------------------------------------------------

_KEYS_HINT = "3, then up and down: its moment in the charts"
_FOLDED_HINT = "3: all events, their moments in the charts"


class EventsPane(RowList):
    """Rows of `EventRow` with a cursor; posts `Chosen` with the moment of the selected row."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "row up", show=False),
        Binding("down", "move(1)", "row down", show=False),
        Binding("pageup", "move(-10)", "page up", show=False),
        Binding("pagedown", "move(10)", "page down", show=False),
        Binding("enter", "choose", "the whole sentence", show=False),
    ]

    #: The row under the cursor, from the newest on; -1 without one.
    cursor: reactive[int] = reactive(-1, repaint=False)
    #: Rows are brief, and what repeats has one row; the key 3 shows all.
    folded: reactive[bool] = reactive(False, repaint=False)

    @dataclass
    class Chosen(Message):
        """The user selected a moment of the run."""

        #: Seconds since the clock origin.
        at_s: float
        #: The sentence of its row where the pane cuts it; else empty.
        cut_text: str = ""

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        #: Oldest first: all, and those that have a row.
        self._all: EventRows | None = None
        self.event_rows: Sequence[EventRow] = ()
        self._collector = EventCollector()

    def on_mount(self) -> None:
        self.set_titles("events", _KEYS_HINT)

    def take(self, view: RunView) -> EventRows:
        """Return all events of a view, and show them; the cursor stays at its event."""
        rows = self._collector.take(view)
        if rows is not self._all:
            self._all = rows
            self.watch_folded()
        return rows

    def watch_folded(self) -> None:
        """Choose the rows to show; the cursor stays at its event."""
        if self._all is None:
            return
        before, rows = self.event_rows, self._all
        chosen = before[-1 - self.cursor] if 0 <= self.cursor < len(before) else None
        self.event_rows = rows = rows.without_repeated() if self.folded else rows
        if chosen:
            at = (at for at in range(len(rows)) if rows[-1 - at] == chosen)
            self.cursor = next(at, -1)
        self.rows_changed()

    def show(self, view: RunView) -> None:
        """Show in the title how much of the run is read."""
        read, hidden = view.searched, self.event_rows is not self._all
        title = "events" if read is None else f"events, still reading, {int(read * 100)} %"
        self.set_titles(title, _FOLDED_HINT if hidden else _KEYS_HINT)

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
            (self._text_of(what), f"{what.style} {here}".strip()),
        )

    def _text_of(self, what: EventRow) -> str:
        return (self.folded and what.brief) or what.text

    def action_choose(self, *, shows_text: bool = True) -> None:
        """Jump to the event under the cursor, and show the whole of a sentence that is cut."""
        if 0 <= self.cursor < self.count():
            chosen = self.event_rows[-1 - self.cursor]
            width = self.scrollable_content_region.width
            line = self.row_at(self.cursor, width)
            is_cut = line.cell_length > width or self._text_of(chosen) != chosen.text
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
        self.action_choose(shows_text=False)

    def follow(self) -> None:
        """Clear the selection, if there is one, and follow the newest events."""
        if self.cursor >= 0:
            self.cursor = -1
            self.scroll_to(y=0, animate=False)


# -- the log ---------------------------------------------------------------------------------------


_NO_OUTPUT = ("no output yet", QUIET_COLOUR)


class LogPane(RowList):
    """The lines, each explained where it is known."""

    #: Reserve the scrollbar's column: when the scrollbar appears, no line wraps differently.
    DEFAULT_CSS = """
    LogPane { scrollbar-gutter: stable; }
    """
    FOLLOWS_END = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "scroll_up", "row up", show=False),
        Binding("down", "scroll_down", "row down", show=False),
        Binding("pageup", "page_up", "page up", show=False),
        Binding("pagedown", "page_down", "page down", show=False),
    ]

    #: Oldest first.
    lines: tuple[str, ...] = ()

    #: The rows of the wrapped lines.
    _folded: Sequence[Part] = ()

    def on_mount(self) -> None:
        self.set_titles("log")

    def on_resize(self) -> None:
        self._fold()

    def show(self, view: RunView) -> None:
        lines = log_lines(view)
        if lines != self.lines:
            self.lines = lines
            self._fold()

    def count(self) -> int:
        """Return the number of rows of the wrapped lines."""
        return len(self._folded)

    def row_at(self, index: int, width: int) -> Content:
        """Return one row."""
        return row(self._folded[index])

    def _fold(self) -> None:
        width = max(self.scrollable_content_region.width, 20)
        self._folded = list(_folded(map(plain, self.lines), width)) or [_NO_OUTPUT]
        self.rows_changed()


def _folded(lines: Iterable[str], width: int) -> Iterator[Part]:
    """Wrap lines to rows; the explanation of a line follows its first occurrence."""
    explained = set[str]()
    for line in lines:
        yield from (
            (part, "") for part in ([line] if cell_len(line) <= width else wrap_text(line, width))
        )
        meaning = meaning_of(line)
        if meaning is None or meaning.name in explained:
            continue
        explained.add(meaning.name)
        words = wrap_text(f"  = {meaning.text}", width, indent="    ")
        yield from ((part, "$text-warning") for part in words)


def log_lines(view: RunView) -> tuple[str, ...]:
    """Return the log; append the traceback of a failed training where the log does not end with
    it."""
    unfinished = view.snapshot.log_unfinished
    log = (*view.snapshot.log_tail, unfinished) if unfinished else view.snapshot.log_tail
    failed = view.situation.failed
    if failed is None:
        return log
    lines = tuple(failed.traceback.splitlines())
    return log if lines and lines[-1] in log[-len(lines) - 5 :] else (*log, *lines)

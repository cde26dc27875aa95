"""A scrolling list of rows of which only those in view are drawn, and one with a cursor.

A scrolling list of rows of which only those in view are drawn.

A list of rows with a cursor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBarRender
from textual.strip import Strip

from tfwatch.widgets.basics.pane import Painted, strip_of
from tfwatch.widgets.basics.text import row

if TYPE_CHECKING:
    from collections.abc import Hashable

    from textual import events
    from textual.binding import BindingType
    from textual.content import Content


class _PlainBar(ScrollBarRender):
    """Its ends fall on whole cells: they are drawn with spaces only."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "] * 8


class RowList(ScrollView, Painted, can_focus=True, inherit_bindings=False):
    """A subclass says how many rows there are and what each says. `painted` says what they cost."""

    DEFAULT_CSS = """
    RowList {
        border: round $foreground 30%;
        border-title-color: $foreground 80%;
        border-title-style: bold;
        border-subtitle-color: $foreground 60%;
        background: $background;
        padding: 0 1;
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
        scrollbar-background: $background;
        scrollbar-color: $foreground 30%;
        &:focus { border: round $accent; }
        &.-plain { border: ascii $foreground 30%; }
        &.-plain:focus { border: ascii $accent; }
        &.-bare { border: none; }
        &.-bare.-plain { border: none; }
    }
    """

    #: Whether a list that stands at its end stays there as rows come.
    FOLLOWS_END: ClassVar[bool] = False

    #: Where the end was when the rows last changed: a pane that was resized since, or hidden, still stands at it.
    _end = 0
    _entitled: tuple[str, str] = ("", "")
    #: The rows in view.
    _seen: tuple[Content, ...] = ()

    def count(self) -> int:
        """How many rows there are."""
        raise NotImplementedError

    def row_at(self, index: int, width: int) -> Content:
        """One row."""
        raise NotImplementedError

    def rows_changed(self) -> None:
        """Draw again."""
        at_end = self.FOLLOWS_END and self.scroll_offset.y >= self._end - 1
        self._resize(Size(self.scrollable_content_region.width, self.count()))
        self._end = self.max_scroll_y
        if at_end:
            # By force: the scrollbar, without which nothing scrolls, comes with the next layout only.
            self.scroll_end(animate=False, immediate=True, force=True)
        self.repaint_rows()

    def _resize(self, size: Size) -> None:
        """Take so many rows. Only for a bar that comes or goes is the screen laid out anew: that costs three frames."""
        bar = size.height > self.container_size.height
        if bar != self.show_vertical_scrollbar or size.width != self.virtual_size.width:
            self.virtual_size = size
            return
        self.set_reactive(RowList.virtual_size, size)
        if bar:
            self.vertical_scrollbar.window_virtual_size = size.height
        self.scroll_y = self.validate_scroll_y(self.scroll_y)

    def entitle(self, title: str, note: str = "") -> None:
        """Set the words in the frame, at its top left and bottom right."""
        if (title, note) != self._entitled:
            self._entitled = (title, note)
            self.border_title = row(title)
            self.border_subtitle = row(note) if note else None

    def on_resize(self) -> None:
        if self.has_class("-plain"):
            self.vertical_scrollbar.renderer = _PlainBar  # type: ignore[misc]  # as Textual documents it
        self.rows_changed()

    def paint_lines(self, crop: Region) -> list[Strip]:
        """The rows within `crop`, as they are to be said now."""
        size, first = self.scrollable_content_region.size, self.scroll_offset.y
        last = min(first + size.height, self.count())
        self._seen = tuple(self.row_at(index, size.width) for index in range(max(first, 0), last))
        return super().paint_lines(crop)

    def row_key(self, y: int) -> Hashable:
        """What the row at `y` of those in view says, and in how many cells: a scrollbar takes one."""
        width = self.scrollable_content_region.width
        return (width, self._seen[y].plain, *self._seen[y].spans) if y < len(self._seen) else None

    def render_line(self, y: int) -> Strip:
        """The row at `y` of those in view."""
        width = self.scrollable_content_region.width
        if y >= len(self._seen):
            return Strip.blank(width, self.rich_style)
        line = self._seen[y].truncate(width, ellipsis=not self.has_class("-plain"))
        return strip_of(self, line, width).adjust_cell_length(width, self.rich_style)


class ChoiceList(RowList):
    """A row list in which the arrows and clicks move a cursor; a subclass hears of it in `moved`."""

    DEFAULT_CSS = """
    ChoiceList.-plain { scrollbar-size-vertical: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "row up", show=False),
        Binding("down", "move(1)", "row down", show=False),
        Binding("pageup", "move(-10)", "page up", show=False),
        Binding("pagedown", "move(10)", "page down", show=False),
        Binding("home", "move(-1000)", "first row", show=False),
        Binding("end", "move(1000)", "last row", show=False),
    ]

    cursor: reactive[int] = reactive(0)

    def moved(self) -> None:
        """The cursor stands on another row, or its row says something else."""

    def chosen_again(self) -> None:
        """The row that the cursor stands on already was clicked."""

    def rows_replaced(self) -> None:
        """Draw other rows, the cursor on one of them."""
        self.cursor = min(self.cursor, max(self.count() - 1, 0))
        self.rows_changed()
        self.moved()

    def watch_cursor(self) -> None:
        room = max(self.scrollable_content_region.height, 1)
        if not self.scroll_offset.y <= self.cursor < self.scroll_offset.y + room:
            self.scroll_to(y=max(0, self.cursor - room // 2), animate=False)
        self.refresh()
        self.moved()

    def action_move(self, rows: int) -> None:
        """Move the cursor, down where positive."""
        self.cursor = min(max(self.cursor + rows, 0), max(self.count() - 1, 0))

    def on_click(self, event: events.Click) -> None:
        at = event.get_content_offset(self)
        if at is None or at.y + self.scroll_offset.y >= self.count():
            return
        if self.cursor == at.y + self.scroll_offset.y:
            self.chosen_again()
        self.cursor = at.y + self.scroll_offset.y


class Choices(ChoiceList):
    """A list of choices; `Moved` says that its cursor did, `Entered` that its row is wanted."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "enter", "take it", show=False)]

    class Moved(Message):
        """The cursor stands on another row."""

    class Entered(Message):
        """The row under the cursor is wanted."""

    def on_mount(self) -> None:
        self.rows_changed()

    def moved(self) -> None:
        self.post_message(self.Moved())

    def chosen_again(self) -> None:
        self.action_enter()

    def action_enter(self) -> None:
        """Take the row under the cursor."""
        self.post_message(self.Entered())

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def mark(self, index: int) -> str:
        """The style of a row's name: the cursor's row stands out, and more where the keys go."""
        if index != self.cursor:
            return ""
        return "reverse" if self.has_focus else "bold underline"

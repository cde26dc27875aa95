"""Scrolling lists that draw only their visible rows: plain, and with a cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBarRender
from textual.strip import Strip

from tfwatch.screens.basics.pane import FRAME_CSS, PaintedRows, Titled, strip_of

if TYPE_CHECKING:
    from collections.abc import Hashable

    from textual import events
    from textual.binding import BindingType
    from textual.content import Content


class _PlainBar(ScrollBarRender):
    """A scrollbar of spaces: its ends fall on whole cells."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "] * 8


class RowList(ScrollView, PaintedRows, Titled, can_focus=True, inherit_bindings=False):
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
    #: The visible rows.
    _seen: tuple[Content, ...] = ()

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
        if self.has_class("-plain"):
            self.vertical_scrollbar.renderer = _PlainBar  # type: ignore[misc]  # as Textual documents it
        self.rows_changed()

    def paint_lines(self, crop: Region) -> list[Strip]:
        """Make the visible rows, then paint the lines within `crop`."""
        size, first = self.scrollable_content_region.size, self.scroll_offset.y
        last = min(first + size.height, self.count())
        self._seen = tuple(self.row_at(index, size.width) for index in range(max(first, 0), last))
        return super().paint_lines(crop)

    def row_key(self, y: int) -> Hashable:
        """Return the text, the styles and the width of visible row `y`: a scrollbar takes a
        cell."""
        width = self.scrollable_content_region.width
        return (width, self._seen[y].plain, *self._seen[y].spans) if y < len(self._seen) else None

    def render_line(self, y: int) -> Strip:
        """Draw visible row `y`."""
        width = self.scrollable_content_region.width
        if y >= len(self._seen):
            return Strip.blank(width, self.rich_style)
        line = self._seen[y].truncate(width, ellipsis=not self.has_class("-plain"))
        return strip_of(self, line, width).adjust_cell_length(width, self.rich_style)


class CursorList(RowList):
    """A list with a cursor for arrow keys and clicks."""

    DEFAULT_CSS = """
    CursorList.-plain { scrollbar-size-vertical: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "row up", show=False),
        Binding("down", "move(1)", "row down", show=False),
        Binding("pageup", "move(-10)", "page up", show=False),
        Binding("pagedown", "move(10)", "page down", show=False),
    ]

    #: The row under the cursor; -1 without one.
    cursor: reactive[int] = reactive(0, repaint=False)

    def clicked(self, again: bool) -> None:
        """Handle a click on a row, which is now under the cursor. again: it was before."""

    def watch_cursor(self) -> None:
        room = max(self.scrollable_content_region.height, 1)
        if not self.scroll_offset.y <= max(self.cursor, 0) < self.scroll_offset.y + room:
            self.scroll_to(y=max(0, self.cursor - room // 2), animate=False)
        self.repaint_rows()

    def action_move(self, rows: int) -> None:
        """Move the cursor, down where `rows` is positive."""
        self.cursor = min(max(self.cursor + rows, 0), max(self.count() - 1, 0))

    def on_click(self, event: events.Click) -> None:
        at = event.get_content_offset(self)
        if at is not None and at.y + self.scroll_offset.y < self.count():
            before, self.cursor = self.cursor, at.y + self.scroll_offset.y
            self.clicked(before == self.cursor)

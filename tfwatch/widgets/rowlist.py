"""A scrolling list of rows of which only those in view are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBarRender
from textual.strip import Strip

from tfwatch.widgets.painted import Painted, strip_of
from tfwatch.widgets.text import row

if TYPE_CHECKING:
    from collections.abc import Hashable

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

"""A scrolling list of rows of which only those in view are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.cache import LRUCache
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Visual

from tfwatch.widgets.text import row

if TYPE_CHECKING:
    from textual.content import Content


#: More rows than any window shows.
_DRAWN = 200


class RowList(ScrollView, can_focus=True, inherit_bindings=False):
    """A subclass says how many rows there are and what each says."""

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

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        #: Rows as they were drawn: most only move when another one comes.
        self._strips: LRUCache[object, Strip] = LRUCache(_DRAWN)

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
        self.refresh()

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
        self.rows_changed()

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        index = y + self.scroll_offset.y
        if not 0 <= index < self.count():
            return Strip.blank(width, self.rich_style)
        line = self.row_at(index, width)
        if self.text_selection is not None:
            return self._drawn(line, width)
        key = line.plain, tuple(line.spans), width
        if (drawn := self._strips.get(key)) is None:
            drawn = self._strips[key] = self._drawn(line, width)
        return drawn

    def _drawn(self, line: Content, width: int) -> Strip:
        line = line.truncate(width, ellipsis=not self.has_class("-plain"))
        strips = Visual.to_strips(self, line, width, 1, self.visual_style)
        return strips[0].adjust_cell_length(width, self.rich_style)

    def notify_style_update(self) -> None:
        """Forget the colours of the old theme."""
        super().notify_style_update()
        self._strips.clear()

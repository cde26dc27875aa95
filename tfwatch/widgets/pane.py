"""What all panes share: rows of text, drawn again only when they changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual.content import Content
from textual.reactive import reactive
from textual.strip import Strip

from tfwatch.widgets.glyphs import Glyphs, choose_glyphs
from tfwatch.widgets.painted import Painted, strip_of
from tfwatch.widgets.text import row

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from textual.geometry import Region
    from textual.screen import Screen


class Pane(Painted):
    """Rows of text; a subclass says them for a width and a height. `painted` says what they cost.

    Attributes:
        glyphs: the characters to draw with.
    """

    DEFAULT_CSS = """
    Pane {
        text-wrap: nowrap;
        text-overflow: ellipsis;
        padding: 0 1;
        &.-plain { text-overflow: clip; }
    }
    """

    glyphs: reactive[Glyphs] = reactive(choose_glyphs(colour=True, unicode=True))

    _rows: Sequence[Content] = ()

    def paint_lines(self, crop: Region) -> list[Strip]:
        """The rows within `crop`, as they are to be said now."""
        size = self.content_size
        self._rows = self.rows(size.width, size.height)
        return super().paint_lines(crop)

    def row_key(self, y: int) -> Hashable:
        """What row `y` says."""
        return (self._rows[y].plain, *self._rows[y].spans) if y < len(self._rows) else None

    def render_line(self, y: int) -> Strip:
        """Row `y` by itself; of a pane with text that is selected, all of them."""
        if self.text_selection is not None:
            return super().render_line(y)
        width = self.content_size.width
        if y >= len(self._rows):
            return Strip.blank(width, self.visual_style.rich_style)
        return strip_of(self, self._rows[y], width)

    def render(self) -> Content:
        """The rows, as many as there is room for."""
        size = self.content_size
        return Content("\n").join(self.rows(size.width, size.height))

    def rows(self, width: int, height: int) -> Sequence[Content]:
        """What the pane says in a space of `width` x `height` cells."""
        raise NotImplementedError


def dress(screen: Screen[Any], glyphs: Glyphs) -> None:
    """Have every widget of a screen draw with these characters."""
    for pane in screen.query(Pane):
        pane.glyphs = glyphs
    for widget in (screen, *screen.query("*")):
        widget.set_class(not glyphs.unicode, "-plain")


class FramedPane(Pane):
    """A pane with a frame that holds a title; `-bare` takes the frame away where rows are dear."""

    DEFAULT_CSS = """
    FramedPane {
        border: round $foreground 30%;
        border-title-color: $foreground 80%;
        border-title-style: bold;
        border-subtitle-color: $foreground 60%;
        &:focus { border: round $accent; }
        &.-plain { border: ascii $foreground 30%; }
        &.-plain:focus { border: ascii $accent; }
        &.-bare { border: none; }
        &.-bare.-plain { border: none; }
    }
    """

    _entitled: tuple[str, str] = ("", "")

    def entitle(self, title: str, note: str = "") -> None:
        """Set the words in the pane's frame, at its top left and bottom right."""
        if (title, note) != self._entitled:
            self._entitled = (title, note)
            self.border_title = row(title)
            self.border_subtitle = row(note) if note else None

"""What all panes share: rows of text, drawn again only when they changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from tfwatch.widgets.glyphs import Glyphs, choose_glyphs
from tfwatch.widgets.text import row

if TYPE_CHECKING:
    from collections.abc import Sequence


class Pane(Widget):
    """Rows of text; a subclass says them for a width and a height.

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

    def render(self) -> Content:
        """The rows, as many as there is room for."""
        size = self.content_size
        return Content("\n").join(self.rows(size.width, size.height))

    def rows(self, width: int, height: int) -> Sequence[Content]:
        """What the pane says in a space of `width` x `height` cells."""
        raise NotImplementedError


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

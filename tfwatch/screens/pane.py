"""The base classes of all panes: rows of text, of which those that change are painted again.

A frame of the live screen may cost 6 ms of CPU; most of it is painting. To add a pane, make it a
`ViewPane` (rows of `Content`), or a `RowList` (`live/lists.py`) if it scrolls. Its news differ once
a second for figures that change with every step, in a frame of their own (`core.clock.Slot`). An
unchanged row costs almost nothing: round figures, and keep changing ones in few rows.

`python -m tests.bench.long_run` measures the cost.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, ClassVar

from textual.geometry import Region, Size
from textual.strip import Strip
from textual.visual import Visual
from textual.widget import Widget

from tfwatch.screens.text import cut_row, row

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from textual.content import Content

    from tfwatch.judge.view import RunView


class PaintedRows(Widget):
    """A widget of rows; `repaint_changed` has those painted whose keys differ."""

    _keys: Sequence[Hashable] = ()

    def repaint_changed(self, keys: Sequence[Hashable]) -> None:
        """Repaint each row whose key is another one than before."""
        before, self._keys = self._keys, keys
        # Whole rows from edge to edge: of narrower regions Textual cuts each strip.
        left, width = -self.gutter.left, self.outer_size.width
        changed = [
            Region(left, y, width, 1)
            for y, (old, new) in enumerate(zip_longest(before, keys))
            if old != new
        ]
        if changed:
            self.refresh(*changed)


def strip_of(widget: Widget, row: Content, width: int) -> Strip:
    """Return a row of text in its widget's style, cut where it is too wide."""
    return Visual.to_strips(widget, cut_row(row, width), width, 1, widget.visual_style)[0]


class Pane(PaintedRows):
    """Rows of text, which a subclass makes for a width and a height."""

    DEFAULT_CSS = """
    Pane {
        text-wrap: nowrap;
        padding: 0 1;
    }
    """

    _rows: Sequence[Content] = ()
    #: The size that the rows are made for.
    _made_for: Size | None = None

    def repaint_rows(self) -> None:
        """Make the rows, and repaint those that changed."""
        self._made_for = size = self.content_size
        self._rows = self.rows(size.width, size.height) if size else ()
        self.repaint_changed([(one.plain, *one.spans) for one in self._rows])

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the lines within `crop`, of rows that are made for the present size."""
        if self._made_for != self.content_size:
            self.repaint_rows()
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Draw row `y`."""
        width = self.content_size.width
        if y >= len(self._rows):
            return Strip.blank(width, self.visual_style.rich_style)
        return strip_of(self, self._rows[y], width)

    def rows(self, width: int, height: int) -> Sequence[Content]:
        """Return the pane's rows for a space of `width` x `height` cells."""
        raise NotImplementedError


#: The styles of a titled frame; the class `-bare` removes the frame on a small screen.
FRAME_CSS = """
    border: round $foreground 30%;
    border-title-color: $foreground 80%;
    border-title-style: bold;
    border-subtitle-color: $foreground 65%;
    &:focus { border: round $accent; }
    &.-bare { border: none; }
"""


class Titled(Widget):
    """Has texts in its frame. List it after the other base class, as `CachedLines`."""

    _titles: tuple[str, str] = ("", "")

    def set_titles(self, title: str, note: str = "") -> None:
        """Set the texts in the frame, at the top left and the bottom right."""
        if (title, note) != self._titles:
            self._titles = (title, note)
            self.border_title, self.border_subtitle = row(title), row(note) if note else None


class ViewPane(Pane):
    """Shows a run, and is painted again only where its news differ."""

    #: The newest view of which something was new.
    view: RunView | None = None
    _shown: object = None

    def show(self, view: RunView) -> None:
        """Show a view where it has news."""
        news = self.news(view)
        if news != self._shown:
            self._shown, self.view = news, view
            self.take_news(view)

    def news(self, view: RunView) -> object:
        """Return what decides the rows of a view: equal ones are painted once."""
        raise NotImplementedError

    def take_news(self, view: RunView) -> None:
        """Repaint the rows of a view that has news."""
        self.repaint_rows()


class FramedPane(ViewPane, Titled):
    """A pane of a run with a titled frame."""

    DEFAULT_CSS = f"FramedPane {{ {FRAME_CSS} }}"
    #: The title until the first view.
    TITLE: ClassVar[str]

    def on_mount(self) -> None:
        self.set_titles(self.TITLE)

"""The base classes of all panes: rows of text that are painted again only when they change.

A frame of the live screen may cost 6 ms of CPU; most of it is painting. To add a pane:

* Make it a `ViewPane` (rows of `Content`), or a `RowList` (`live/lists.py`) if it scrolls. Its news
  differ once a second for figures that change with every step, in a frame of their own
  (`core.clock.Slot`).
* An unchanged row reuses its `Strip` and costs almost nothing: round figures, and keep changing
  ones in few rows.
* Where the rows change and the frame around them does not, use `repaint_rows` and `reactive(...,
  repaint=False)`.
* The compositor asks every visible widget for its lines in each frame: make a container a
  `CachedContainer`.

`python -m tests.bench.long_run` measures the cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.containers import Container, Horizontal
from textual.content import Content
from textual.filter import ANSIToTruecolor
from textual.geometry import Region
from textual.reactive import Reactive
from textual.strip import Strip
from textual.style import Style
from textual.visual import Visual
from textual.widget import Widget

from tfwatch.screens.basics.text import row

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from textual.filter import LineFilter
    from typing_extensions import Self

    from tfwatch.judge.view import RunView


class CachedLines(Widget):
    """Gives the compositor the cached lines of a widget until it changes.

    List it after the other base class: Textual takes the styles from the first.
    """

    _cached_lines: tuple[Region, list[Strip]] | None = None

    def refresh(
        self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False
    ) -> Self:
        """Drop the cached lines and refresh."""
        self._cached_lines = None
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def notify_style_update(self) -> None:
        """Drop the cached lines after a change of style."""
        self._cached_lines = None
        super().notify_style_update()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the lines within `crop`, with the edges."""
        if self._cached_lines is None or self._cached_lines[0] != crop:
            self._cached_lines = crop, self.paint_lines(crop)
        return self._cached_lines[1]

    def paint_lines(self, crop: Region) -> list[Strip]:
        """Paint the lines within `crop`."""
        return super().render_lines(crop)


class CachedContainer(Container, CachedLines):
    """A `Container` without cost in a frame."""


class CachedHorizontal(Horizontal, CachedLines):
    """A `Horizontal` without cost in a frame."""


class _Edges:
    """The border and padding beside a widget's rows, cut from a row that Textual painted."""

    def __init__(self, whole: Region, rows: Region, painted: Strip, widget: Widget) -> None:
        base, self.background = widget.background_colors
        self.blank = Style(background=base + self.background).rich_style
        self.filters: list[LineFilter] = list(widget.get_line_filters())
        self.left = painted.crop(0, rows.x)
        self.right = painted.crop(rows.right, whole.width)
        self.looks = self.blank, widget.visual_style, self.filters, self.left, self.right

    def around(self, row: Strip, width: int) -> Strip:
        row = row.adjust_cell_length(width, self.blank)
        for line_filter in self.filters:
            row = row.apply_filter(line_filter, self.background)
        return Strip(
            [*self.left, *row, *self.right], self.left.cell_length + width + self.right.cell_length
        )


class PaintedRows(CachedLines):
    """Paints its rows one by one, and a row again only when its key changes.

    A subclass draws row `y` in `render_line` and returns its key in `row_key`.
    """

    #: No row contains a link.
    auto_links: Reactive[bool] = Reactive(False)
    #: The rows of the last paint, by key and width.
    _by_key: dict[Hashable, Strip] | None = None
    _edges: _Edges | None = None
    #: The lines above and below the rows, for a widget of that size.
    _frame: tuple[Region, list[Strip], list[Strip]] | None = None

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Leave out Textual's filter for ANSI colours and dim text: no row uses them."""
        return [one for one in super().get_line_filters() if not isinstance(one, ANSIToTruecolor)]

    def row_key(self, y: int) -> Hashable:
        """Return the key of row `y`: rows with equal keys look the same."""
        raise NotImplementedError

    def repaint_rows(self) -> None:
        """Repaint the rows, not the frame around them."""
        self.refresh(self.size.region)

    def refresh(
        self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False
    ) -> Self:
        """Refresh the rows of `regions`; without regions the frame too."""
        if not regions:
            self._frame = None
        # Whole rows from edge to edge: of narrower regions Textual would cut each strip.
        left, width = -self.styles.gutter.left, self.outer_size.width
        rows = (Region(left, region.y, width, region.height) for region in regions)
        return super().refresh(*rows, repaint=repaint, layout=layout, recompose=recompose)

    def notify_style_update(self) -> None:
        """Drop all painted rows after a change of style."""
        self._frame = self._by_key = None
        super().notify_style_update()

    def paint_lines(self, crop: Region) -> list[Strip]:
        """Paint the lines within `crop`; reuse unchanged rows."""
        whole = self.region.size.region
        rows = whole.shrink(self.styles.gutter)
        if crop != whole or not rows or self.text_selection is not None or self.opacity != 1.0:
            self._frame = None
            return super().paint_lines(crop)
        if self._frame is None or self._frame[0] != whole:
            self._frame = self._paint_frame(whole, rows)
        _, above, below = self._frame
        return [*above, *self._paint_rows(rows.width, rows.height), *below]

    def _paint_rows(self, width: int, height: int) -> list[Strip]:
        assert self._edges
        before = self._by_key or {}
        now: dict[Hashable, Strip] = {}
        painted = []
        for y in range(height):
            key = width, self.row_key(y)
            row = now.get(key) or before.get(key)
            now[key] = row = row or self._edges.around(self.render_line(y), width)
            painted.append(row)
        self._by_key = now
        return painted

    def _paint_frame(self, whole: Region, rows: Region) -> tuple[Region, list[Strip], list[Strip]]:
        """Paint the frame; drop the painted rows where their edges have changed."""
        inner = super().paint_lines(Region(0, rows.y, whole.width, 1))[0]
        edges = _Edges(whole, rows, inner, self)
        if self._edges is None or self._edges.looks != edges.looks:
            self._edges, self._by_key = edges, None
        return whole, self._part(whole, 0, rows.y), self._part(whole, rows.bottom, whole.height)

    def _part(self, whole: Region, first: int, end: int) -> list[Strip]:
        return (
            super().paint_lines(Region(0, first, whole.width, end - first)) if end > first else []
        )


def strip_of(widget: Widget, row: Content, width: int) -> Strip:
    """Return a row of text in its widget's style."""
    return Visual.to_strips(widget, row, width, 1, widget.visual_style)[0]


class Pane(PaintedRows):
    """Rows of text, which a subclass makes for a width and a height."""

    DEFAULT_CSS = """
    Pane {
        text-wrap: nowrap;
        text-overflow: ellipsis;
        padding: 0 1;
    }
    """

    _rows: Sequence[Content] = ()

    def paint_lines(self, crop: Region) -> list[Strip]:
        """Make the rows, then paint the lines within `crop`."""
        size = self.content_size
        self._rows = self.rows(size.width, size.height)
        return super().paint_lines(crop)

    def row_key(self, y: int) -> Hashable:
        """Return the text and the styles of row `y`."""
        return (self._rows[y].plain, *self._rows[y].spans) if y < len(self._rows) else None

    def render_line(self, y: int) -> Strip:
        """Draw row `y`; a pane with selected text draws all rows."""
        if self.text_selection is not None:
            return super().render_line(y)
        width = self.content_size.width
        if y >= len(self._rows):
            return Strip.blank(width, self.visual_style.rich_style)
        return strip_of(self, self._rows[y], width)

    def render(self) -> Content:
        """Return the rows as one text."""
        size = self.content_size
        return Content("\n").join(self.rows(size.width, size.height))

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

"""What all panes share: rows of text, painted again only when they changed.

Widgets of rows, of which only those are painted that say something new.

What a frame of the live screen may cost is 6 ms of CPU, and most of it is painting. Whoever adds a pane:

* Make it a `Pane` (rows of `Content`), or a `RowList` where it scrolls, and hand it a new value only where that
  differs. What changes with every step is told once a second, in a frame of its own (`live.schedule.Slot`).
* A row that says the same as before is the same `Strip` and costs next to nothing: round figures before they get
  here, and keep those that change in few rows.
* Where only words are new, not the frame around them: `repaint_rows`, with `reactive(..., repaint=False)`.
* The compositor asks every widget in view for its rows in each frame: a container is a `KeptContainer`.

`python -m tests.bench.frame` says what it comes to.

What all panes share: rows of text, drawn again only when they changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual.containers import Container, Horizontal
from textual.content import Content
from textual.filter import ANSIToTruecolor
from textual.geometry import Region
from textual.reactive import Reactive, reactive
from textual.strip import Strip
from textual.style import Style
from textual.visual import Visual
from textual.widget import Widget

from tfwatch.widgets.basics.glyphs import Glyphs, choose_glyphs
from tfwatch.widgets.basics.text import row

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from textual.filter import LineFilter
    from textual.screen import Screen
    from typing_extensions import Self


class Kept(Widget):
    """Gives the compositor the rows of the last time, until something has changed.

    Stands after the other base, for Textual takes styles from the first one.
    """

    _kept: tuple[Region, list[Strip]] | None = None

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Something has changed."""
        self._kept = None
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def notify_style_update(self) -> None:
        """The looks have changed."""
        self._kept = None
        super().notify_style_update()

    def render_lines(self, crop: Region) -> list[Strip]:
        """The rows within `crop`, edges and all."""
        if self._kept is None or self._kept[0] != crop:
            self._kept = crop, self.paint_lines(crop)
        return self._kept[1]

    def paint_lines(self, crop: Region) -> list[Strip]:
        """The rows within `crop`, anew."""
        return super().render_lines(crop)


class KeptContainer(Container, Kept):
    """A `Container` that costs nothing in a frame."""


class KeptHorizontal(Horizontal, Kept):
    """A `Horizontal` that costs nothing in a frame."""


class _Edges:
    """What stands around the rows of a widget: taken from a row that Textual has painted."""

    def __init__(self, whole: Region, rows: Region, painted: Strip, widget: Widget) -> None:
        base, self.background = widget.background_colors
        self.blank = Style(background=base + self.background).rich_style
        self.filters: list[LineFilter] = list(widget.get_line_filters())
        self.left = painted.crop(0, rows.x)
        self.right = painted.crop(rows.right, whole.width)
        self.looks = self.blank, widget.visual_style, self.filters, self.left, self.right

    def around(self, row: Strip, width: int) -> Strip:
        """The whole row, from edge to edge."""
        row = row.adjust_cell_length(width, self.blank)
        for line_filter in self.filters:
            row = row.apply_filter(line_filter, self.background)
        return Strip([*self.left, *row, *self.right], self.left.cell_length + width + self.right.cell_length)


class Painted(Kept):
    """Paints its rows one by one, each once for as long as it says the same.

    A subclass draws row `y` in `render_line`, and tells in `row_key` what it says.
    """

    #: None of the rows holds a link to look for.
    auto_links: Reactive[bool] = Reactive(False)
    #: The rows of the last time, by what they say and how wide they are.
    _by_key: dict[Hashable, Strip] | None = None
    _edges: _Edges | None = None
    #: What stands above and below the rows, in a widget of that size.
    _frame: tuple[Region, list[Strip], list[Strip]] | None = None

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Without Textual's own for the terminal's colours and dim text: no row holds either."""
        return [one for one in super().get_line_filters() if not isinstance(one, ANSIToTruecolor)]

    def row_key(self, y: int) -> Hashable:
        """What row `y` says: rows of one key look the same."""
        raise NotImplementedError

    def repaint_rows(self) -> None:
        """The words are new, and the frame around them is not."""
        self.refresh(self.size.region)

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Something has changed; without `regions` the frame too."""
        if not regions:
            self._frame = None
        # Rows from edge to edge: of less Textual cuts a strip of its own from each.
        left, width = -self.styles.gutter.left, self.outer_size.width
        rows = (Region(left, region.y, width, region.height) for region in regions)
        return super().refresh(*rows, repaint=repaint, layout=layout, recompose=recompose)

    def notify_style_update(self) -> None:
        """Forget the old looks."""
        self._frame = self._by_key = None
        super().notify_style_update()

    def paint_lines(self, crop: Region) -> list[Strip]:
        """The rows within `crop`, anew."""
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
        """Where the edges beside the rows are new, so are the rows."""
        inner = super().paint_lines(Region(0, rows.y, whole.width, 1))[0]
        edges = _Edges(whole, rows, inner, self)
        if self._edges is None or self._edges.looks != edges.looks:
            self._edges, self._by_key = edges, None
        return whole, self._part(whole, 0, rows.y), self._part(whole, rows.bottom, whole.height)

    def _part(self, whole: Region, first: int, end: int) -> list[Strip]:
        return super().paint_lines(Region(0, first, whole.width, end - first)) if end > first else []


def strip_of(widget: Widget, row: Content, width: int) -> Strip:
    """A row of text in its widget's looks."""
    return Visual.to_strips(widget, row, width, 1, widget.visual_style)[0]


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

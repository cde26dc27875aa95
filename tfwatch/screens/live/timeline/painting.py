"""Lines of styled pieces, and the painter that makes strips of them: faster than `Content`."""

from __future__ import annotations

import re
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from textual.widget import Widget

#: A piece of text and its style, e.g. `$warning bold`.
Piece: TypeAlias = tuple[str, str]
Line: TypeAlias = tuple[Piece, ...]

NUMBER = "$foreground"
SWITCH = "$text-accent bold"
ALARM = "$text-error bold"
LIMIT = "$text-warning bold"

_FULL = re.compile("(█+)")


def joined(row: Iterable[Piece]) -> Line:
    """Join neighbours with the same style."""
    return tuple(
        ("".join([char for char, _ in run]), style) for style, run in groupby(row, itemgetter(1))
    )


class Painter:
    """Paints lines in the colours of a widget's theme.

    Attributes:
        fine: draw full blocks as background colour, which has no seams in any font.
    """

    def __init__(self, widget: Widget) -> None:
        self.fine = True
        self._widget = widget
        self._styles: dict[str, Style] = {}

    def forget(self) -> None:
        """Drop the cached styles after a change of theme."""
        self._styles.clear()

    def strip(self, line: Line, width: int) -> Strip:
        """Return a line in its colours, padded or cut to `width` cells."""
        segments = [segment for piece in line for segment in self._segments(*piece)]
        room = width - sum([cell_len(segment.text) for segment in segments])
        if room < 0:
            return Strip(segments, width - room).crop(0, width)
        return Strip([*segments, Segment(" " * room, self._style(""))] if room else segments, width)

    def _segments(self, text: str, style: str) -> Iterator[Segment]:
        if not self.fine or "█" not in text:
            yield Segment(text, self._style(style))
            return
        behind = Style(bgcolor=self._style(style).color)
        for piece in filter(None, _FULL.split(text)):
            full = piece[0] == "█"
            yield Segment(" " * len(piece), behind) if full else Segment(piece, self._style(style))

    def _style(self, text: str) -> Style:
        if text not in self._styles:
            parsed = self._widget.app.stylesheet.parse_style(text)
            self._styles[text] = (self._widget.visual_style + parsed).rich_style
        return self._styles[text]

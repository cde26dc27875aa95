"""The colours of a timeline: from a line of text with roles to what the terminal gets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tfwatch.widgets.timeline_style import PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.widget import Widget

    from tfwatch.widgets.timeline_rows import Line

_FULL = re.compile("(█+)")


class Paint:
    """Paints lines in a widget's component classes.

    Attributes:
        fine: draw full blocks as background, which no font leaves seams in.
    """

    def __init__(self, widget: Widget) -> None:
        self.fine = True
        self._widget = widget
        self._styles: dict[str, Style] = {}

    def forget(self) -> None:
        """Look the colours up anew: the theme changed."""
        self._styles.clear()

    def strip(self, line: Line, width: int) -> Strip:
        """A line in its colours, filled up or cut to `width` cells."""
        segments = [segment for piece in line for segment in self._segments(*piece)]
        room = width - sum([cell_len(segment.text) for segment in segments])
        if room < 0:
            return Strip(segments, width - room).crop(0, width)
        return Strip([*segments, Segment(" " * room, self.style(""))] if room else segments, width)

    def _segments(self, text: str, role: str) -> Iterator[Segment]:
        style = self.style(role)
        if not self.fine or "█" not in text:
            yield Segment(text, style)
            return
        for piece in filter(None, _FULL.split(text)):
            full = piece[0] == "█"
            yield Segment(" " * len(piece), self.style("." + role)) if full else Segment(piece, style)

    def style(self, role: str) -> Style:
        """The style of a role; of two with a dot, the second one's colour lies behind the first."""
        if role not in self._styles:
            self._styles[role] = self._find(role)
        return self._styles[role]

    def _find(self, role: str) -> Style:
        widget = self._widget
        front, _, behind = role.partition(".")
        style = widget.get_component_rich_style(PREFIX + front) if front else widget.rich_style
        if not behind:
            return style
        return style + Style(bgcolor=widget.get_component_rich_style(PREFIX + behind).color)

"""The keys of a timeline, its colour roles as component classes, and the painter that applies them.

The live screen binds the same keys, wherever the focus is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding
from textual.strip import Strip

from tfwatch.screens.basics.glyphs import (
    COMPUTE_COLOUR,
    COPY_COLOUR,
    HOST_COLOUR,
    MUTED_COLOUR,
    OTHERS_COLOUR,
    QUIET_COLOUR,
    STALL_COLOUR,
    WAIT_COLOUR,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.widget import Widget

    from tfwatch.screens.live.timeline.rows import Line

LOOK = Binding.Group("view")


def _key(keys: str, action: str, shown: str, does: str, id: str) -> Binding:
    return Binding(
        keys,
        action,
        does,
        key_display=shown,
        tooltip=does,
        group=LOOK,
        id=f"timeline.{id}",
        show=False,
    )


KEYS = (
    _key("space", "freeze", "space", "freeze the charts, or follow again", "freeze"),
    _key("left", "look(-1)", "left", "move back by a column", "back"),
    _key("right", "look(1)", "right", "move forward by a column", "forward"),
    _key("shift+left", "look(-20)", "shift+left", "move back by 20 columns", "far_back"),
    _key("shift+right", "look(20)", "shift+right", "move forward by 20 columns", "far_forward"),
    _key("pageup", "page(-1)", "pageup", "move back by the width of the chart", "page_back"),
    _key(
        "pagedown", "page(1)", "pagedown", "move forward by the width of the chart", "page_forward"
    ),
    _key("home", "home", "home", "go to the start of the run", "home"),
    _key("end", "live", "end", "follow the run again", "live"),
    _key("z", "zoom(1)", "z", "zoom out: more time per column", "out"),
    _key("Z,upper_z", "zoom(-1)", "Z", "zoom in: less time per column, down to single steps", "in"),
)


PREFIX = "timeline--"
ROLES = (
    *(
        "wait",
        "stall",
        "copy",
        "host",
        "compute",
        "muted",
        "gpu",
        "others",
        "quiet",
        "number",
        "message",
    ),
    *("switch", "alarm", "rule", "cursor", "onwall", "middling"),
)

#: The colours of the roles, for the rules of a widget.
ROLE_CSS = f"""
    & > .timeline--wait {{ color: {WAIT_COLOUR}; }}
    & > .timeline--stall {{ color: {STALL_COLOUR}; }}
    & > .timeline--copy {{ color: {COPY_COLOUR}; }}
    & > .timeline--host {{ color: {HOST_COLOUR}; }}
    & > .timeline--compute {{ color: {COMPUTE_COLOUR}; }}
    & > .timeline--muted {{ color: {MUTED_COLOUR}; }}
    & > .timeline--gpu {{ color: {COMPUTE_COLOUR}; }}
    & > .timeline--others {{ color: {OTHERS_COLOUR}; }}
    & > .timeline--quiet {{ color: {QUIET_COLOUR}; }}
    & > .timeline--number {{ color: $foreground; }}
    & > .timeline--message {{ color: $foreground; text-style: bold; }}
    & > .timeline--switch {{ color: $text-accent; text-style: bold; }}
    & > .timeline--alarm {{ color: $text-error; text-style: bold; }}
    & > .timeline--rule {{ color: $text-accent; }}
    & > .timeline--cursor {{ color: $foreground; }}
    & > .timeline--onwall {{ background: {STALL_COLOUR}; text-style: bold; }}
    & > .timeline--middling {{ color: $text-warning; text-style: bold; }}
    &.-mono > .timeline--wait, &.-mono > .timeline--stall, &.-mono > .timeline--copy,
    &.-mono > .timeline--host, &.-mono > .timeline--compute, &.-mono > .timeline--muted,
    &.-mono > .timeline--gpu,
    &.-mono > .timeline--others, &.-mono > .timeline--switch, &.-mono > .timeline--alarm,
    &.-mono > .timeline--rule, &.-mono > .timeline--middling
    {{ color: $foreground; }}
    &.-mono > .timeline--onwall {{ color: $background; background: $foreground; }}
"""
CSS = f"""
Timeline {{
    height: 15;
    border: round $foreground 30%;
    border-title-color: $foreground 80%;
    border-title-style: bold;
    &:focus {{ border: round $accent; }}
    &.-plain {{ border: ascii $foreground 30%; }}
    &.-plain:focus {{ border: ascii $accent; }}
    {ROLE_CSS}
}}
"""


_FULL = re.compile("(█+)")


class Paint:
    """Paints lines in the styles of a widget's component classes.

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
        return Strip([*segments, Segment(" " * room, self.style(""))] if room else segments, width)

    def _segments(self, text: str, role: str) -> Iterator[Segment]:
        style = self.style(role)
        if not self.fine or "█" not in text:
            yield Segment(text, style)
            return
        for piece in filter(None, _FULL.split(text)):
            full = piece[0] == "█"
            yield (
                Segment(" " * len(piece), self.style("." + role)) if full else Segment(piece, style)
            )

    def style(self, role: str) -> Style:
        """Return the style of a role; of `a.b`, b is the background."""
        if role not in self._styles:
            self._styles[role] = self._find(role)
        return self._styles[role]

    def _find(self, role: str) -> Style:
        widget = self._widget
        front, _, behind = role.partition(".")
        style = widget.get_component_rich_style(PREFIX + front) if front else widget.rich_style
        if not behind:
            return style
        ground = widget.get_component_rich_style(PREFIX + behind).color
        return style + Style(
            color=_readable_on(ground) if front == "onwall" else None, bgcolor=ground
        )


def _readable_on(ground: Color | None) -> Color | None:
    """Return black or white, whichever has more contrast (WCAG 2.2): theirs is equal at a luminance
    of 0.179."""
    if ground is None:
        return None
    parts = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in ground.get_truecolor().normalized
    )
    luminance = sum(
        share * part for share, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True)
    )
    return Color.parse("#ffffff" if luminance < 0.179 else "#000000")

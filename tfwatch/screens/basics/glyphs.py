"""The characters of charts and bars, for terminals with and without colour and Unicode."""

from __future__ import annotations

from dataclasses import dataclass, replace

#: Colour roles as theme variables for a widget's DEFAULT_CSS: they work with dark and light themes.
WAIT_COLOUR = "$warning"
STALL_COLOUR = "$error"
COMPUTE_COLOUR = "$primary"
HOST_COLOUR = "$foreground 45%"
MUTED_COLOUR = "$foreground 20%"
QUIET_COLOUR = "$foreground 65%"


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One set of characters, each one cell wide except `left` and `right`."""

    colour: bool
    unicode: bool
    #: These three fill a cell of each part of a step; without colour they differ by texture.
    wait: str
    host: str
    compute: str
    #: Fills a cell of a step that is not counted.
    muted: str
    #: Nine characters from empty to full, for a gauge; only the first is blank.
    levels: str
    #: Between an old and a new value.
    to: str
    left: str
    right: str
    cursor: str
    #: A horizontal bar and its rest.
    bar: str
    bar_rest: str
    record: str

    @property
    def fine(self) -> bool:
        """True where a cell can show two colours, split at an eighth."""
        return self.colour and self.unicode


_BLOCKS = Glyphs(
    colour=True,
    unicode=True,
    wait="█",
    host="█",
    compute="█",
    muted="█",
    levels=" ▁▂▃▄▅▆▇█",
    to="→",
    left="←",
    right="→",
    cursor="│",
    bar="█",
    bar_rest="░",
    record="●",
)
_TEXTURES = replace(_BLOCKS, colour=False, wait="░", host="▒", muted="▞")
_ASCII = {
    "wait": "#",
    "host": ".",
    "compute": "=",
    "muted": "/",
    "levels": " ...--==#",
    "to": ">",
    "left": "<-",
    "right": "->",
    "cursor": "|",
    "bar": "#",
    "bar_rest": ".",
    "record": "o",
}


def choose_glyphs(colour: bool, unicode: bool) -> Glyphs:
    """Return the set for a terminal."""
    if not unicode:
        return Glyphs(colour=colour, unicode=False, **_ASCII)
    return _BLOCKS if colour else _TEXTURES

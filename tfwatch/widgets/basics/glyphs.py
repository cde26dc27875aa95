"""The characters that panes draw with, for screens with and without colour and Unicode."""

from __future__ import annotations

from dataclasses import dataclass, replace

#: Colour roles, as semantic variables for a widget's DEFAULT_CSS: they hold on dark and on light themes.
WAIT_COLOUR = "$warning"
STALL_COLOUR = "$error"
COMPUTE_COLOUR = "$primary"
HOST_COLOUR = "$foreground 45%"
MUTED_COLOUR = "$foreground 20%"
OTHERS_COLOUR = "$secondary"
QUIET_COLOUR = "$foreground 60%"


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One set of characters; every field that stands for one cell is one column wide.

    wait, host, compute: what fills a cell of each part; muted: of a step that does not count. Without colour they
        differ by texture.
    others: what other programs use of the GPU, where it fills a cell.
    levels: nine characters from empty to full, for a gauge; only the first is blank.
    shades: four, for a share of nothing, some, much and most.
    to: between an old and a new value. dot: between two facts. bar, bar_rest: a horizontal bar and its rest.
    """

    colour: bool
    unicode: bool
    wait: str
    host: str
    compute: str
    muted: str
    others: str
    levels: str
    shades: str
    to: str
    dot: str
    left: str
    right: str
    rule: str
    cursor: str
    switched: str
    bar: str
    bar_rest: str
    record: str

    @property
    def fine(self) -> bool:
        """Whether a cell can be split into eighths, two colours in one."""
        return self.colour and self.unicode


_BLOCKS = Glyphs(
    colour=True,
    unicode=True,
    wait="█",
    host="█",
    compute="█",
    muted="█",
    others="█",
    levels=" ▁▂▃▄▅▆▇█",
    shades=" ░▒█",
    to="→",
    dot="·",
    left="←",
    right="→",
    rule="─",
    cursor="│",
    switched="┊",
    bar="█",
    bar_rest="░",
    record="●",
)
_TEXTURES = replace(_BLOCKS, colour=False, wait="░", host="▒", muted="▞", others="▒")
_ASCII = {
    "wait": "#",
    "host": ".",
    "compute": "=",
    "muted": "/",
    "others": "o",
    "levels": " ...--==#",
    "shades": " -+#",
    "to": ">",
    "dot": "-",
    "left": "<-",
    "right": "->",
    "rule": "-",
    "cursor": "|",
    "switched": ":",
    "bar": "#",
    "bar_rest": ".",
    "record": "o",
}


def choose_glyphs(colour: bool, unicode: bool) -> Glyphs:
    """The set for a screen."""
    if not unicode:
        return Glyphs(colour=colour, unicode=False, **_ASCII)
    return _BLOCKS if colour else _TEXTURES

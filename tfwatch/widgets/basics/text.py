"""Text for the screen: other people's words made harmless, and rows of a given width."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from typing import TYPE_CHECKING

from rich.cells import cell_len, chop_cells, set_cell_size
from textual.content import Content

if TYPE_CHECKING:
    from collections.abc import Sequence

#: What terminals obey: colours, cursor moves, titles.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.?)")
#: ASCII and what the panes draw with.
_HARMLESS = re.compile(r"[\x20-\x7e°·…←-⇿─-◿]*")
#: They make a character one cell or two wide, as each terminal sees it.
_SELECTORS = re.compile("[\ufe00-\ufe0f]")
_LONGEST = 4000
_ASIDE = re.compile(r" \([^()]*\)(?=[;,]|$)")
_PART = re.compile("; | - ")
_WITHIN = re.compile(", |: ")

#: One styled piece of a row: its text and a style, e.g. `$warning bold`.
Part = tuple[str, str]


def plain(text: str) -> str:
    """Text from outside in one line, without anything that a terminal would obey.

    Of a line that was overwritten (a progress bar) the last state is kept.
    """
    text = text[:_LONGEST]
    if _HARMLESS.fullmatch(text):
        return text
    text = _ESCAPES.sub("", text).expandtabs(8).rstrip("\r\n\b")
    text = re.sub(r"\s*\n\s*", " ", text)
    text = re.split(r"\r|\x08{2,}", text)[-1]
    text = _SELECTORS.sub("", text)
    return "".join(char if _is_shown(char) else "?" for char in text)


def _is_shown(char: str) -> bool:
    return unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def row(*parts: Part | str) -> Content:
    """A row of styled pieces; the text is data: never markup, and nothing that a terminal would obey."""
    return Content.assemble(*(plain(part) if isinstance(part, str) else (plain(part[0]), part[1]) for part in parts))


def column(text: str, width: int, end: str = "") -> str:
    """The text in exactly so many cells: filled up with blanks, or cut, with `end` where something is missing."""
    text = plain(text)
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, width - len(end)) + end


def shortened(text: str, width: int) -> str:
    """The text, where it takes more than so many cells cut, with dots for its end."""
    text = plain(text)
    return text if cell_len(text) <= width else column(text, width, "...")


def ending(text: str, width: int) -> str:
    """The text, where it takes more than so many cells its end, with dots before it: that is what tells paths apart."""
    text = plain(text)
    if cell_len(text) <= width:
        return text
    first = next(at for at in range(len(text)) if cell_len(text[at:]) <= width - 2)
    return f"..{text[first:]}"


def narrow(text: str) -> str:
    """The text, no longer than it was, with one character a cell: what takes two or none is a question mark."""
    known = plain(text)[: len(text)]
    return known if _HARMLESS.fullmatch(known) else "".join(char if cell_len(char) == 1 else "?" for char in known)


def folded(text: str, width: int, indent: str = "") -> list[str]:
    """The text broken between words, and within those that are wider than a row; `indent` begins the later rows."""
    width = max(width, 2)
    lines = textwrap.wrap(plain(text), width, subsequent_indent=indent)
    return [piece for line in lines for piece in chop_cells(line, width)]


def spread(left: Content, right: Content, width: int) -> Content:
    """Left and right at the two ends of a row; where both do not fit, the right one goes."""
    gap = width - left.cell_length - right.cell_length
    return Content.assemble(left, " " * gap, right) if gap >= 1 else left


def clauses(text: str, width: int) -> str:
    """As much of some advice as fits: what stands in brackets goes first, then the last parts, then the first sentence.

    Of several brackets the last goes first. Parts end in a semicolon or ` - `. Of one part of one sentence that does
    not fit, what stands behind its last commas and colons goes, and nothing from within a call's brackets; what is
    then still too long is given whole.
    """
    told = plain(text)
    shorter = [told]
    for aside in reversed([*_ASIDE.finditer(told)]):
        told = told[: aside.start()] + told[aside.end() :]
        shorter.append(told)
    parts = [told[: end.start()] for end in reversed([*_PART.finditer(told)])]
    newest = (parts[-1] if parts else told).rpartition(". ")[2]
    within = [newest[: end.start()] for end in reversed([*_WITHIN.finditer(newest)])]
    within = [words for words in within if words.count("(") == words.count(")")]
    return next((words for words in (*shorter, *parts, newest, *within) if cell_len(words) <= width), shorter[0])


def fit(parts: Sequence[tuple[int, Content]], width: int, gap: str = "  ") -> Content:
    """The pieces in a row, those with the highest rank dropped until the rest fits."""
    kept = list(parts)
    while len(kept) > 1 and sum(part.cell_length + len(gap) for _, part in kept) - len(gap) > width:
        kept.remove(max(kept, key=lambda piece: piece[0]))
    return Content(gap).join([part for _, part in kept])

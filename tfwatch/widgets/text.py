"""Text for the screen: other people's words made harmless, and rows of a given width."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from textual.content import Content

if TYPE_CHECKING:
    from collections.abc import Sequence

#: What terminals obey: colours, cursor moves, titles.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.?)")
_HARMLESS = re.compile(r"[\x20-\x7e]*")
_LONGEST = 4000
_ASIDE = re.compile(r" \([^()]*\)(?=;|$)")
_PART = re.compile("; | - ")

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
    return "".join(char if _is_shown(char) else "?" for char in text)


def _is_shown(char: str) -> bool:
    return unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def row(*parts: Part | str) -> Content:
    """A row of styled pieces; the text is data, never markup."""
    return Content.assemble(*parts)


def spread(left: Content, right: Content, width: int) -> Content:
    """Left and right at the two ends of a row; where both do not fit, the right one goes."""
    gap = width - left.cell_length - right.cell_length
    return Content.assemble(left, " " * gap, right) if gap >= 1 else left


def clauses(text: str, width: int) -> str:
    """As much of some advice as fits: what stands in brackets goes first, then the last parts, then the first sentence.

    Parts end in a semicolon or ` - `. What does not fit by one part of one sentence is given whole.
    """
    told = _ASIDE.sub("", text)
    parts = [told[: end.start()] for end in reversed([*_PART.finditer(told)])]
    newest = (parts[-1] if parts else told).rpartition(". ")[2]
    shorter = (text, told, *parts, newest)
    return next((words for words in shorter if len(words) <= width), text)


def fit(parts: Sequence[tuple[int, Content]], width: int, gap: str = "  ") -> Content:
    """The pieces in a row, those with the highest rank dropped until the rest fits."""
    kept = list(parts)
    while len(kept) > 1 and sum(part.cell_length + len(gap) for _, part in kept) - len(gap) > width:
        kept.remove(max(kept, key=lambda piece: piece[0]))
    return Content(gap).join([part for _, part in kept])

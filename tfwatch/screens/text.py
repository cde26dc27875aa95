"""Text for the screen: its colours, sanitized text from outside, rows of a given width, the time of
day."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from typing import TYPE_CHECKING

from rich.cells import cell_len, chop_cells, set_cell_size
from textual.content import Content

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.runs.snapshot import Snapshot

#: Colour roles as theme variables: they work with dark and light themes.
WAIT_COLOUR = "$warning"
STALL_COLOUR = "$error"
COMPUTE_COLOUR = "$primary"
HOST_COLOUR = "$foreground 45%"
MUTED_COLOUR = "$foreground 20%"
QUIET_COLOUR = "$foreground 65%"

#: Terminal control sequences: colours, cursor moves, titles.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.?)")
#: ASCII and the characters of the panes.
_HARMLESS = re.compile(r"[\x20-\x7e°·…←-⇿─-◿]*")
#: Variation selectors: terminals disagree on the width of the character before them.
_SELECTORS = re.compile("[\ufe00-\ufe0f]")
#: The categories of characters that control, or that no font has.
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
_LONGEST = 4000
#: The folders before a line of a file.
_FOLDERS = re.compile(r"[^\s/]*/(?:[^\s/]+/)*(?=[^\s/]+\.py:\d)")
_ASIDE = re.compile(r" \([^()]*\)(?=[;,]|$)")
_PART = re.compile("; | - ")
#: The comma in `map(load), batch(16)`, a stage of two, ends no phrase.
_WITHIN = re.compile(r", (?!\w+\(|(?:batch|repeat)\b)|: ")

#: One styled piece of a row: its text and a style, e.g. `$warning bold`.
Part = tuple[str, str]


def plain(text: str) -> str:
    """Return text from outside in one line, without terminal control sequences.

    A line that overwrites itself, such as a progress bar, keeps its last state.
    """
    text = text[:_LONGEST]
    if _HARMLESS.fullmatch(text):
        return text
    text = _ESCAPES.sub("", text).expandtabs(8).rstrip("\r\n\b")
    text = re.sub(r"\s*\n\s*", " ", text)
    text = re.split(r"\r|\x08{2,}", text)[-1]
    text = _SELECTORS.sub("", text)
    return "".join("?" if unicodedata.category(char) in _UNSEEN else char for char in text)


def row(*parts: Part | str) -> Content:
    """Return a row of styled pieces; the text is never markup and contains no control sequences."""
    return Content.assemble(
        *(plain(part) if isinstance(part, str) else (plain(part[0]), part[1]) for part in parts)
    )


def column(text: str, width: int, end: str = "") -> str:
    """Return the text in exactly `width` cells: padded with blanks, or cut and ended by `end`."""
    text = plain(text)
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, width - len(end)) + end


def shorten(text: str, width: int) -> str:
    """Return the text; cut it with dots at the end where it is wider than `width`."""
    text = plain(text)
    return text if cell_len(text) <= width else column(text, width, "...")


def cut_row(line: Content, width: int) -> Content:
    """Cut a row that is wider than `width` cells between words, within one of half the row."""
    if line.cell_length <= width:
        return line
    head = line.truncate(max(width - 1, 0))
    at = len(head) if line.plain[len(head) :].startswith(" ") else head.plain.rfind(" ") + 1
    return head[: at if 2 * at >= width else len(head)] + "…"


def single_width(text: str) -> str:
    """Return the text with one cell per character; a character of another width becomes a question
    mark."""
    known = plain(text)[: len(text)]
    return (
        known
        if _HARMLESS.fullmatch(known)
        else "".join(char if cell_len(char) == 1 else "?" for char in known)
    )


def wrap_text(text: str, width: int, indent: str = "") -> list[str]:
    """Wrap the text between words, and within words wider than a row; indent all rows but the
    first."""
    width = max(width, 2)
    lines = textwrap.wrap(plain(text), width, subsequent_indent=indent)
    return [piece for line in lines for piece in chop_cells(line, width)]


def spread(left: Content, right: Content, width: int) -> Content:
    """Put left and right at the ends of a row; drop the right one where both do not fit."""
    gap = width - left.cell_length - right.cell_length
    return Content.assemble(left, " " * gap, right) if gap >= 1 else left


def shorten_clauses(text: str, width: int) -> str:
    """Shorten a text to `width` cells: drop the folders of files, then the brackets from the last,
    then the last parts, then the first sentence.

    Parts end in a semicolon or ` - `. A single part that is still too long loses its ends from the
    last comma or colon outside a call's brackets on. A text that cannot be shortened to fit is
    returned whole.
    """
    whole = plain(text)
    remaining = _FOLDERS.sub("", whole)
    shorter = [whole, remaining]
    for aside in reversed([*_ASIDE.finditer(remaining)]):
        remaining = remaining[: aside.start()] + remaining[aside.end() :]
        shorter.append(remaining)
    parts = [remaining[: end.start()] for end in reversed([*_PART.finditer(remaining)])]
    newest = (parts[-1] if parts else remaining).rpartition(". ")[2]
    within = [newest[: end.start()] for end in reversed([*_WITHIN.finditer(newest)])]
    within = [words for words in within if words.count("(") == words.count(")")]
    return next(
        (words for words in (*shorter, *parts, newest, *within) if cell_len(words) <= width),
        shorter[0],
    )


def fit(parts: Sequence[tuple[int, Content]], width: int, gap: str = "  ") -> Content:
    """Join the pieces to a row; drop the highest rank until the rest fits."""
    kept = list(parts)
    while len(kept) > 1 and sum(part.cell_length + len(gap) for _, part in kept) - len(gap) > width:
        kept.remove(max(kept, key=lambda piece: piece[0]))
    return Content(gap).join([part for _, part in kept])


def clock(snapshot: Snapshot, at_s: float) -> str:
    """Return the local time of a moment of the run: 10:18:31."""
    return snapshot.local_time(at_s).strftime("%H:%M:%S")

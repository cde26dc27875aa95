"""A line of clickable keys: the footer, and the tabs of a small screen.

Textual's `Footer` has a widget a key, which costs a frame 0.05 ms each, and cuts the last keys off.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from textual.content import Content
from textual.message import Message
from textual.reactive import reactive

from tfwatch.screens.pane import Pane
from tfwatch.screens.text import row

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from textual import events


@dataclass(frozen=True, slots=True)
class Key:
    """A key with its label and a word for its action."""

    key: str
    label: str
    word: str
    #: Where room is short, the line drops the highest rank first.
    rank: int = 0
    #: Marks the tab that shows.
    chosen: bool = False
    #: Follows the word where all keys have room with it.
    more: str = ""

    @property
    def text(self) -> str:
        """The label and the word."""
        return f"{self.label} {self.word}".rstrip()


@dataclass
class Pressed(Message):
    """A key was clicked."""

    key: str


class KeyLine(Pane):
    """As many keys in a row as fit; posts `Pressed` with the key that was clicked."""

    DEFAULT_CSS = """
    KeyLine { height: 1; padding: 0 1; background: $panel; }
    """

    #: From left to right.
    keys: reactive[tuple[Key, ...]] = reactive((), repaint=False)

    watch_keys = Pane.repaint_rows

    def rows(self, width: int, height: int) -> Sequence[Content]:
        line = Content()
        for first, key in self._placed(width):
            line += Content(" " * (first - line.cell_length))
            if key.chosen:
                line += row((key.text, "bold reverse"))
            else:
                line += row((key.label, "$accent bold"), key.text[len(key.label) :])
        return [line]

    def _placed(self, width: int) -> Iterator[tuple[int, Key]]:
        keys, gap = [replace(key, word=f"{key.word}{key.more}") for key in self.keys], 2
        if sum(len(key.text) + gap for key in keys) - gap > width:
            keys = list(self.keys)
        while len(keys) > 1 and sum(len(key.text) + gap for key in keys) - gap > width:
            if gap == 1:
                keys.remove(max(keys, key=lambda key: key.rank))
            gap = 1
        at = 0
        for key in keys:
            yield at, key
            at += len(key.text) + gap

    def on_click(self, event: events.Click) -> None:
        at = event.get_content_offset(self)
        for first, key in self._placed(self.content_size.width) if at else ():
            if at and first <= at.x < first + len(key.text):
                self.post_message(Pressed(key.key))

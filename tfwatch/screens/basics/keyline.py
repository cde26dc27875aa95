"""A line of clickable keys: the footer, and the tabs of a small screen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from textual.content import Content
from textual.message import Message
from textual.reactive import reactive

from tfwatch.screens.basics.pane import Pane
from tfwatch.screens.basics.text import row, spread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from textual import events


#: The line shortens its words before it drops a key of this rank or less.
ESSENTIAL_RANK = 4


@dataclass(frozen=True, slots=True)
class Key:
    """A key with its label and a word for its action."""

    key: str
    label: str
    word: str
    #: The key has an effect now.
    enabled: bool = True
    #: Marks the tab that shows.
    chosen: bool = False
    #: Where room is short, the line drops disabled keys first, then the highest rank.
    rank: int = 0
    #: A shorter word, used before a key of `ESSENTIAL_RANK` is dropped; empty: there is none.
    brief: str = ""

    @property
    def width(self) -> int:
        """The width in cells."""
        return len(f"{self.label} {self.word}".rstrip())


@dataclass
class Pressed(Message):
    """A key was clicked, or selected in a list of keys."""

    key: str


class KeyLine(Pane):
    """As many keys in a row as fit; posts `Pressed` with the key that was clicked."""

    DEFAULT_CSS = """
    KeyLine { height: 1; padding: 0 1; background: $panel; }
    """

    #: From left to right.
    keys: reactive[tuple[Key, ...]] = reactive((), repaint=False)
    #: The text at the right end.
    note: reactive[str] = reactive("", repaint=False)

    watch_keys = watch_note = Pane.repaint_rows

    def rows(self, width: int, height: int) -> Sequence[Content]:
        line = Content()
        for first, _, key in self._placed(width):
            line = Content.assemble(line, " " * (first - line.cell_length), self._piece(key))
        return [spread(line, row((self.note, "$foreground 65%")), width)]

    def _piece(self, key: Key) -> Content:
        words = f"{key.label} {key.word}".rstrip()
        if key.chosen:
            return row((words, "bold reverse"))
        if not key.enabled:
            return row((words, "$foreground 65%"))
        return row((key.label, "$accent bold"), words[len(key.label) :])

    def _placed(self, width: int) -> Iterator[tuple[int, int, Key]]:
        """Yield (first column, column after the last, key) for each key that fits beside the
        note."""
        room = width - (len(self.note) + 2 if self.note else 0)
        keys, gap = list(self.keys), 2
        while keys and sum(key.width + gap for key in keys) - gap > room:
            if gap > 1:
                gap = 1
                continue
            last = max(keys, key=lambda key: (not key.enabled, key.rank))
            long = max((key for key in keys if key.brief), key=lambda key: key.rank, default=None)
            if long and last.enabled and last.rank <= ESSENTIAL_RANK:
                keys[keys.index(long)] = replace(long, word=long.brief, brief="")
            else:
                keys.remove(last)
        at = 0
        for key in keys:
            yield at, at + key.width, key
            at += key.width + gap

    def on_click(self, event: events.Click) -> None:
        at = event.get_content_offset(self)
        if at is None:
            return
        for first, end, key in self._placed(self.content_size.width):
            if first <= at.x < end:
                self.post_message(Pressed(key.key))

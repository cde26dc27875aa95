"""What happened: the run's rare facts, newest first; choosing one looks at its moment."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.message import Message
from textual.reactive import reactive

from tfwatch.widgets.rowlist import RowList
from tfwatch.widgets.text import row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.binding import BindingType
    from textual.content import Content


@dataclass(frozen=True, slots=True)
class Happening:
    """One row: when (seconds since the clock origin, and the wall time in words), a letter, and a sentence."""

    at_s: float
    time: str
    mark: str
    text: str
    style: str = ""


class HappeningsPane(RowList):
    """Rows of `Happening`; `Chosen` tells the moment of the one that was clicked, entered or stepped to."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "row up", show=False),
        Binding("down", "move(1)", "row down", show=False),
        Binding("pageup", "move(-10)", "page up", show=False),
        Binding("pagedown", "move(10)", "page down", show=False),
        Binding("enter", "choose", "look at that moment", show=False),
    ]

    #: Oldest first.
    happenings: reactive[Sequence[Happening]] = reactive((), repaint=False)
    #: Rows from the newest; -1 where none is chosen.
    cursor: reactive[int] = reactive(-1, repaint=False)

    @dataclass
    class Chosen(Message):
        """Somebody wants to look at a moment of the run, seconds since its clock origin."""

        at_s: float

    def on_mount(self) -> None:
        self.entitle("what happened", "enter jumps  [ ] next")

    def count(self) -> int:
        """How many things happened."""
        return len(self.happenings)

    def row_at(self, index: int, width: int) -> Content:
        """The `index`-th newest."""
        what = self.happenings[-1 - index]
        here = "reverse" if index == self.cursor else ""
        return row(
            (f"{what.time} ", f"$foreground 65% {here}".strip()),
            (f"{what.mark} ", "$accent bold"),
            (what.text, f"{what.style} {here}".strip()),
        )

    def watch_happenings(self, old: Sequence[Happening], new: Sequence[Happening]) -> None:
        if 0 <= self.cursor < len(old):
            at = _place(old[-1 - self.cursor], new)
            self.cursor = self.cursor if at is None else len(new) - 1 - at
        self.rows_changed()

    def watch_cursor(self) -> None:
        if self.cursor >= 0:
            self.scroll_to(y=max(0, self.cursor - self.size.height // 2), animate=False)
        self.repaint_rows()

    def action_move(self, rows: int) -> None:
        """Move the cursor, to older ones where positive."""
        self.cursor = min(max(self.cursor + rows, 0), self.count() - 1)

    def action_choose(self) -> None:
        """Look at the moment under the cursor."""
        if 0 <= self.cursor < self.count():
            self.post_message(self.Chosen(self.happenings[-1 - self.cursor].at_s))

    def follow(self) -> None:
        """Choose none any more, and show the newest as they come."""
        self.cursor = -1
        self.scroll_to(y=0, animate=False)

    def step(self, rows: int) -> bool:
        """Move the cursor and look there; False where there is no such row."""
        before = self.cursor
        self.action_move(rows)
        self.action_choose()
        return self.cursor != before

    def on_click(self, event: events.Click) -> None:
        at = event.get_content_offset(self)
        if at is not None and at.y + self.scroll_offset.y < self.count():
            self.cursor = at.y + self.scroll_offset.y
            self.action_choose()


def _place(what: Happening, rows: Sequence[Happening]) -> int | None:
    """Where a row stands among rows in the order of their times; None where it is not there any more."""
    at = bisect_left(rows, what.at_s, key=attrgetter("at_s"))
    while at < len(rows) and rows[at].at_s == what.at_s:
        if rows[at] == what:
            return at
        at += 1
    return None

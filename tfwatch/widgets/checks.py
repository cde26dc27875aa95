"""The checks of a check-up: a row each, and the one under the cursor in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import Static

from tfwatch.doctor.check import Check, Status
from tfwatch.widgets.rowlist import RowList
from tfwatch.widgets.text import row

if TYPE_CHECKING:
    from textual import events
    from textual.binding import BindingType

STYLES = {
    Status.FAIL: "$text-error bold",
    Status.WARN: "$text-warning bold",
    Status.OK: "$text-success",
    Status.NA: "$foreground 60%",
}
_ID_CELLS = 17


class ChecksPane(RowList):
    """A row a check; `Moved` tells the one that the cursor stands on."""

    DEFAULT_CSS = """
    ChecksPane.-plain { scrollbar-size-vertical: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "row up", show=False),
        Binding("down", "move(1)", "row down", show=False),
        Binding("pageup", "move(-10)", "page up", show=False),
        Binding("pagedown", "move(10)", "page down", show=False),
        Binding("home", "move(-1000)", "first row", show=False),
        Binding("end", "move(1000)", "last row", show=False),
    ]

    checks: reactive[tuple[Check, ...]] = reactive(())
    cursor: reactive[int] = reactive(0)

    class Moved(Message):
        """The cursor stands on another check."""

        def __init__(self, check: Check) -> None:
            super().__init__()
            self.check = check

    def count(self) -> int:
        """How many checks there are."""
        return len(self.checks)

    def row_at(self, index: int, width: int) -> Content:
        """Its status, its id and as much of what was found as there is room for."""
        check = self.checks[index]
        here = " reverse" if index == self.cursor else ""
        quiet = STYLES[Status.NA] if check.status is Status.NA else ""
        return row(
            (f"{check.status.word:<4}", STYLES[check.status]),
            "  ",
            (f"{check.id:<{_ID_CELLS}}", (quiet + here).strip()),
            (check.found, (quiet + here).strip()),
        )

    @property
    def chosen(self) -> Check | None:
        """The check under the cursor."""
        return self.checks[self.cursor] if 0 <= self.cursor < self.count() else None

    def watch_checks(self) -> None:
        self.cursor = min(self.cursor, max(self.count() - 1, 0))
        self.rows_changed()
        self._tell()

    def watch_cursor(self) -> None:
        room = max(self.scrollable_content_region.height, 1)
        if not self.scroll_offset.y <= self.cursor < self.scroll_offset.y + room:
            self.scroll_to(y=max(0, self.cursor - room // 2), animate=False)
        self.refresh()
        self._tell()

    def action_move(self, rows: int) -> None:
        """Move the cursor, down where positive."""
        self.cursor = min(max(self.cursor + rows, 0), max(self.count() - 1, 0))

    def on_click(self, event: events.Click) -> None:
        at = event.get_content_offset(self)
        if at is not None and at.y + self.scroll_offset.y < self.count():
            self.cursor = at.y + self.scroll_offset.y

    def _tell(self) -> None:
        if self.chosen:
            self.post_message(self.Moved(self.chosen))


class CheckPane(Static):
    """One check in full."""

    DEFAULT_CSS = """
    CheckPane {
        padding: 0 1;
        border: round $foreground 30%;
        border-title-color: $foreground 80%;
        border-title-style: bold;
        &.-plain { border: ascii $foreground 30%; }
    }
    """

    def show(self, check: Check, to: str) -> None:
        """Show it; `to` stands before what to do."""
        self.border_title = row((check.id, ""), "  ", (check.status.word, STYLES[check.status]))
        todo = row((f"{to} ", "$accent bold"), (check.todo, "bold")) if check.todo else Content()
        self.update(Content("\n").join([row(check.found), todo]))

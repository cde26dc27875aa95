"""The checks of a check-up: a row each, and the check under the cursor in full."""

from __future__ import annotations

from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import Static

from tfwatch.doctor.check import Check, Status
from tfwatch.widgets.basics.row_list import CursorList
from tfwatch.widgets.basics.text import column, row

STYLES = {
    Status.FAIL: "$text-error bold",
    Status.WARN: "$text-warning bold",
    Status.OK: "$text-success",
    Status.NA: "$foreground 65%",
}
_ID_CELLS = 17


class ChecksPane(CursorList):
    """One row per check; posts `Moved` with the check under the cursor."""

    checks: reactive[tuple[Check, ...]] = reactive(())

    class Moved(Message):
        """The cursor moved to another check."""

        def __init__(self, check: Check) -> None:
            super().__init__()
            self.check = check

    def count(self) -> int:
        """Return the number of checks."""
        return len(self.checks)

    def row_at(self, index: int, width: int) -> Content:
        """Return the check's status, its id and as much of its result as fits."""
        check = self.checks[index]
        here = " reverse" if index == self.cursor else ""
        quiet = STYLES[Status.NA] if check.status is Status.NA else ""
        return row(
            (f"{check.status.word:<4}", STYLES[check.status]),
            "  ",
            (column(check.id, _ID_CELLS), (quiet + here).strip()),
            (check.found, (quiet + here).strip()),
        )

    @property
    def chosen(self) -> Check | None:
        """The check under the cursor."""
        return self.checks[self.cursor] if 0 <= self.cursor < self.count() else None

    def watch_checks(self) -> None:
        self.rows_replaced()

    def moved(self) -> None:
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
        """Show a check; `to` is the arrow before the fix."""
        self.border_title = row((check.id, ""), "  ", (check.status.word, STYLES[check.status]))
        todo = row((f"{to} ", "$accent bold"), (check.todo, "bold")) if check.todo else Content()
        self.update(Content("\n").join([row(check.found), todo]))

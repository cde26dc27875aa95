"""The check-up over the live screen: a thread runs the checks, and a text lists the rows of
`tfwatch doctor`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeAlias

from textual import on
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from tfwatch.core.errors import fails_open
from tfwatch.doctor.checks import Check, CheckUp, Status, counted, worst
from tfwatch.screens.overlays import TextScreen
from tfwatch.screens.text import row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STYLES = {
    Status.FAIL: "$text-error bold",
    Status.WARN: "$text-warning bold",
    Status.OK: "$text-success",
    Status.NA: "$foreground 65%",
}
#: Runs the check-up. Arguments: True skips checks that slow a training down; a callback gets the
#: name of each check.
RunCheckup: TypeAlias = "Callable[[bool, Callable[[str], None]], CheckUp]"


class DoctorScreen(TextScreen):
    """Run the checks when the screen opens.

    gently: skip checks that would slow a running training down.
    found: the result; None before it.
    """

    class Found(Message):
        """A check started, or the check-up is done."""

        def __init__(self, found: CheckUp | None, doing: str = "") -> None:
            super().__init__()
            self.found = found
            self.doing = doing

    def __init__(self, look: RunCheckup, *, gently: bool) -> None:
        super().__init__([], "tfwatch doctor")
        self.found: CheckUp | None = None
        self._run_checkup = look
        self._gently = gently

    def on_mount(self) -> None:
        threading.Thread(target=self._run, daemon=True, name="tfwatch-doctor").start()

    def _run(self) -> None:
        def notify(name: str) -> None:
            self.post_message(self.Found(None, f"checking {name}"))

        with fails_open(self._fail):
            self.post_message(self.Found(self._run_checkup(self._gently, notify)))

    def _fail(self, why: str) -> None:
        failed = Check("check-up", Status.FAIL, f"the check-up failed: {why}", "d runs it again")
        self.post_message(self.Found(CheckUp("", (failed,))))

    @on(Found)
    def _show(self, message: Found) -> None:
        state = (message.doing, "$accent")
        if message.found:
            self.found = message.found
            state = (counted(message.found.checks), STYLES[worst(message.found.checks)])
            self.query_one("#lines", Static).update(Content("\n").join(_lines(message.found)))
        self.query_one("#text").border_title = row("tfwatch doctor: ", state)


def _lines(checkup: CheckUp) -> Iterator[Content]:
    yield row((checkup.machine, "bold"))
    for check in checkup.checks:
        yield Content()
        yield row((f"{check.status.word:<6}", STYLES[check.status]), (check.id, "bold"))
        yield row(check.found)
        if check.todo:
            yield row(("→ ", "$accent bold"), (check.todo, "bold"))

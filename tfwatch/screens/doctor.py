"""The check-up over the live screen: a thread runs the checks, and a text lists the rows of
`tfwatch doctor`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from textual import on
from textual.binding import Binding
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from tfwatch.core.errors import fails_open
from tfwatch.doctor.checks import Check, CheckUp, Status, counted, worst
from tfwatch.screens.basics.text import row
from tfwatch.screens.overlays import TextScreen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from textual.binding import BindingType

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
    """Run the checks when the screen opens, and again on a key.

    gently: the first check-up skips checks that would slow a running training down.
    found: the newest result; None before the first.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "again", "run all checks again", show=False)
    ]
    HINT = "t runs all checks again  up down scroll  escape closes"

    class Found(Message):
        """A check started, or the check-up is done."""

        def __init__(self, found: CheckUp | None, doing: str = "") -> None:
            super().__init__()
            self.found = found
            self.doing = doing

    def __init__(self, look: RunCheckup, *, gently: bool, unicode: bool) -> None:
        super().__init__([], "tfwatch doctor", unicode)
        self.found: CheckUp | None = None
        self._run_checkup = look
        self._gently = gently
        self._thread: threading.Thread | None = None

    def on_mount(self) -> None:
        self._begin(self._gently)

    def _begin(self, gently: bool) -> None:
        self._thread = threading.Thread(
            target=self._run, args=(gently,), daemon=True, name="tfwatch-doctor"
        )
        self._thread.start()

    def _run(self, gently: bool) -> None:
        def notify(name: str) -> None:
            self.post_message(self.Found(None, f"checking {name}"))

        with fails_open(self._fail):
            self.post_message(self.Found(self._run_checkup(gently, notify)))

    def _fail(self, why: str) -> None:
        failed = Check("check-up", Status.FAIL, f"the check-up failed: {why}", "t runs it again")
        self.post_message(self.Found(CheckUp("", (failed,))))

    @on(Found)
    def _show(self, message: Found) -> None:
        state = (message.doing, "$accent")
        if message.found:
            self.found = message.found
            state = (counted(message.found.checks), STYLES[worst(message.found.checks)])
            self.query_one("#lines", Static).update(Content("\n").join(_lines(message.found)))
        self.query_one("#text").border_title = row("tfwatch doctor: ", state)

    def action_again(self) -> None:
        """Run all checks, also those that slow a running training down."""
        if self._thread and self._thread.is_alive():
            self.notify("the check-up is still running: press t after it")
        else:
            self._begin(gently=False)


def _lines(checkup: CheckUp) -> Iterator[Content]:
    """Yield the machine, and each check with its result and its remedy."""
    yield row((checkup.machine, "bold"))
    for check in checkup.checks:
        yield Content()
        yield row((f"{check.status.word:<6}", STYLES[check.status]), (check.id, "bold"))
        yield row(check.found)
        if check.todo:
            yield row(("→ ", "$accent bold"), (check.todo, "bold"))

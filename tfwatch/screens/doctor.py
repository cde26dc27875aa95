"""The check-up screen: a thread runs the checks, and the screen lists the rows of `tfwatch
doctor`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from textual import getters, on
from textual.binding import Binding
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Static

from tfwatch.core.errors import fails_open
from tfwatch.doctor.checks import Check, CheckUp, Status, counted, worst
from tfwatch.screens.basics.glyphs import choose_glyphs
from tfwatch.screens.basics.keyline import Key, KeyLine
from tfwatch.screens.basics.pane import apply_glyphs
from tfwatch.screens.basics.text import row

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import ComposeResult
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


class CheckRow(Horizontal):
    """One check: its status and name, and beside them the result and the remedy."""

    DEFAULT_CSS = """
    CheckRow { height: auto; padding: 0 1; }
    CheckRow .name { width: 20; height: auto; }
    CheckRow .result { width: 1fr; height: auto; }
    """

    def __init__(self, check: Check, to: str) -> None:
        super().__init__()
        self._check = check
        self._to = to

    def compose(self) -> ComposeResult:
        status = row((f"{self._check.status.word:<6}", STYLES[self._check.status]), self._check.id)
        result = [row(self._check.found)]
        if self._check.todo:
            result.append(row((f"{self._to} ", "$accent bold"), (self._check.todo, "bold")))
        yield Static(status, classes="name")
        yield Static(Content("\n").join(result), classes="result")


class DoctorScreen(Screen[None]):
    """Run the checks when the screen opens, and again on a key.

    gently: the first check-up skips checks that would slow a running training down.
    found: the newest result; None before the first.
    """

    DEFAULT_CSS = """
    DoctorScreen { layout: vertical; background: $background; }
    DoctorScreen #machine { height: 1; padding: 0 1; background: $panel; text-wrap: nowrap; }
    """
    AUTO_FOCUS = "VerticalScroll"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "again", "run all checks again"),
        Binding("escape,q", "dismiss", "back"),
    ]

    machine = getters.query_one("#machine", Static)
    rows = getters.query_one(VerticalScroll)
    keys = getters.query_one(KeyLine)

    class Found(Message):
        """A check started, or the check-up is done."""

        def __init__(self, found: CheckUp | None, doing: str = "") -> None:
            super().__init__()
            self.found = found
            self.doing = doing

    def __init__(self, look: RunCheckup, *, gently: bool, colour: bool, unicode: bool) -> None:
        super().__init__()
        self.found: CheckUp | None = None
        self._run_checkup = look
        self._gently = gently
        self._glyphs = choose_glyphs(colour, unicode)
        self._thread: threading.Thread | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="machine")
        yield VerticalScroll()
        yield KeyLine()

    def on_mount(self) -> None:
        apply_glyphs(self, self._glyphs)
        self.keys.keys = (Key("t", "t", "run again"), Key("escape", "escape", "back"))
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
        checkup = message.found or self.found
        state = (message.doing, "$accent")
        if message.found:
            self.found = message.found
            state = (counted(message.found.checks), STYLES[worst(message.found.checks)])
            self.rows.remove_children()
            self.rows.mount_all(CheckRow(check, self._glyphs.to) for check in message.found.checks)
        machine = f"  {checkup.machine}" if checkup else ""
        self.machine.update(row(("tfwatch doctor", "$accent bold"), "  ", state, machine))

    def action_again(self) -> None:
        """Run all checks, also those that slow a running training down."""
        if self._thread and self._thread.is_alive():
            self.notify("the check-up is still running: press t after it")
        else:
            self._begin(gently=False)

"""The check-up screen: a thread runs the checks, and the screen lists their results."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from textual import getters, on
from textual.binding import Binding
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.screen import Screen
from textual.widgets import Static

from tfwatch.core.errors import fails_open
from tfwatch.doctor.check import Check, CheckUp, Status, counted, failed, worst
from tfwatch.screens.basics.glyphs import choose_glyphs
from tfwatch.screens.basics.keyline import Key, KeyLine
from tfwatch.screens.basics.pane import Pane, apply_glyphs
from tfwatch.screens.basics.row_list import CursorList
from tfwatch.screens.basics.text import column, row, spread
from tfwatch.screens.keys import TALL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

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


#: Runs the check-up. Arguments: True skips checks that slow a training down; a callback gets each check's name.
RunCheckup: TypeAlias = "Callable[[bool, Callable[[str], None]], CheckUp]"
#: Below this many rows only the list shows; below these columns and rows only the first line does.
_LOW = 16
_LEAST = (20, 6)


class DoctorHeader(Pane):
    """The first line: the machine, and a summary of the checks.

    Attributes:
        found: the newest result; None before the first. doing: the check that runs now; empty where none does.
    """

    DEFAULT_CSS = """
    DoctorHeader { height: 1; padding: 0 1; background: $panel; color: $foreground; }
    """

    found: reactive[CheckUp | None] = reactive(None)
    doing: reactive[str] = reactive("")

    def rows(self, width: int, height: int) -> Sequence[Content]:
        name, state = row(("tfwatch doctor", "$accent bold")), self._state(is_narrow=width < 60)
        machine = row("  ", self.found.machine) if self.found else Content()
        room = width - name.cell_length - state.cell_length - 2
        left = Content.assemble(name, machine.truncate(max(room, 0), ellipsis=self.glyphs.unicode))
        return [spread(left, state, width)]

    def _state(self, is_narrow: bool) -> Content:
        if self.doing:
            return row((self.doing, "$accent"))
        if self.found is None:
            return Content()
        words = (failed if is_narrow else counted)(self.found.checks)
        return row((words, STYLES[worst(self.found.checks)]))


class DoctorScreen(Screen[None]):
    """Run the checks when the screen opens, and again on a key.

    gently: the first check-up skips checks that would slow a running training down.
    found: the newest result; None before the first.
    """

    CSS_PATH = "doctor.tcss"
    AUTO_FOCUS = "ChecksPane"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "again", "run all checks again", id="doctor.again"),
        Binding("y", "copy", "copy the check", id="doctor.copy"),
        Binding("escape,q", "back", "back", id="doctor.back"),
        Binding(
            "colon", "app.command_palette", "search all commands", show=False, id="doctor.palette"
        ),
    ]

    header = getters.query_one(DoctorHeader)
    checks = getters.query_one(ChecksPane)
    check = getters.query_one(CheckPane)
    keys = getters.query_one(KeyLine)

    class Started(Message):
        """A check started."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    class Found(Message):
        """The check-up is done."""

        def __init__(self, found: CheckUp) -> None:
            super().__init__()
            self.found = found

    class Failed(Message):
        """The check-up itself failed."""

        def __init__(self, reason: str) -> None:
            super().__init__()
            self.reason = reason

    def __init__(self, look: RunCheckup, *, gently: bool, colour: bool, unicode: bool) -> None:
        super().__init__()
        self.found: CheckUp | None = None
        self._run_checkup = look
        self._gently = gently
        self._glyphs = choose_glyphs(colour, unicode)
        self._thread: threading.Thread | None = None

    def compose(self) -> ComposeResult:
        yield DoctorHeader()
        yield ChecksPane()
        yield CheckPane(markup=False)
        yield KeyLine()

    def on_mount(self) -> None:
        apply_glyphs(self, self._glyphs)
        self.checks.set_titles("is the installation right?")
        self.keys.keys = (
            Key("down", "up down", "choose", rank=1),
            Key("t", "t", "run again"),
            Key("y", "y", "copy"),
            Key("escape", "escape", "quit" if self.is_alone else "back"),
        )
        self._begin(self._gently)

    def on_resize(self) -> None:
        size = self.app.size
        self.set_class(size.width < _LEAST[0] or size.height < _LEAST[1], "-least")
        self.set_class(size.height < _LOW, "-low")
        self.set_class(size.height >= TALL, "-tall")

    @property
    def is_alone(self) -> bool:
        """True where no other screen lies below this one."""
        return len(self.app.screen_stack) <= 2

    # -- running the checks -------------------------------------------------------------------------

    def _begin(self, gently: bool) -> None:
        self.header.doing = "checking"
        self._thread = threading.Thread(
            target=self._run, args=(gently,), daemon=True, name="tfwatch-doctor"
        )
        self._thread.start()

    def _run(self, gently: bool) -> None:
        def notify(name: str) -> None:
            self.post_message(self.Started(name))

        with fails_open(lambda why: self.post_message(self.Failed(why))):
            self.post_message(self.Found(self._run_checkup(gently, notify)))

    @on(Started)
    def _show_started(self, message: Started) -> None:
        self.header.doing = f"checking {message.name}"

    @on(Found)
    def _take(self, message: Found) -> None:
        self._show(message.found)

    @on(Failed)
    def _fail(self, message: Failed) -> None:
        """List the failure as a check, before the results of an earlier check-up."""
        failed = Check(
            "check-up", Status.FAIL, f"the check-up failed: {message.reason}", "t runs it again"
        )
        machine, before = (self.found.machine, self.found.checks) if self.found else ("", ())
        self._show(
            CheckUp(machine, (failed, *(check for check in before if check.id != failed.id)))
        )

    def _show(self, found: CheckUp) -> None:
        self.header.doing = ""
        self.found = self.header.found = found
        self.checks.checks = found.checks

    @on(ChecksPane.Moved)
    def _show_in_full(self, message: ChecksPane.Moved) -> None:
        self.check.show(message.check, self._glyphs.to)

    # -- keys ---------------------------------------------------------------------------------------

    def action_again(self) -> None:
        """Run all checks, also those that slow a running training down."""
        if self._thread and self._thread.is_alive():
            self.notify("the check-up is still running: press t after it")
        else:
            self._begin(gently=False)

    def action_copy(self) -> None:
        """Copy the chosen check."""
        if chosen := self.checks.chosen:
            todo = f"\n{chosen.todo}" if chosen.todo else ""
            self.app.copy_to_clipboard(f"{chosen.id}: {chosen.status.value}: {chosen.found}{todo}")
        self.notify("copied" if chosen else "nothing to copy yet")

    async def action_back(self) -> None:
        """Go back to the screen below, or quit where there is none."""
        if self.is_alone:
            await self.run_action("app.quit")
        else:
            self.dismiss()

"""The check-up as a screen: it looks in a thread of its own, and shows what it finds."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from textual import getters, on
from textual.binding import Binding
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.screen import Screen

from tfwatch.core.errors import fails_open
from tfwatch.doctor.check import Check, CheckUp, Status, counted, failed, worst
from tfwatch.screens.keys import TALL
from tfwatch.widgets.basics.glyphs import choose_glyphs
from tfwatch.widgets.basics.keyline import Key, KeyLine
from tfwatch.widgets.basics.pane import Pane, dress
from tfwatch.widgets.basics.text import row, spread
from tfwatch.widgets.checks import STYLES, CheckPane, ChecksPane

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

#: Looks at everything, or only at what a training beside it does not notice; hears a function that is told what is
#: looked at.
Look: TypeAlias = "Callable[[bool, Callable[[str], None]], CheckUp]"
#: Below so many rows the list alone is shown; below so many columns and rows nothing but the first line.
_LOW = 16
_LEAST = (20, 6)


class DoctorHeader(Pane):
    """The first line: the machine, and what came of it.

    Attributes:
        found: None before there is anything. doing: what is looked at; empty where nothing is.
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
    """Looks when it is shown, and again when it is asked to.

    gently: a training runs beside it, so the first look leaves out what would slow it down.
    found: what was found last; None before there is anything.
    """

    CSS_PATH = "doctor.tcss"
    AUTO_FOCUS = "ChecksPane"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "again", "try everything again", id="doctor.again"),
        Binding("y", "copy", "copy the check", id="doctor.copy"),
        Binding("escape,q", "back", "back", id="doctor.back"),
        Binding("colon", "app.command_palette", "everything by name", show=False, id="doctor.palette"),
    ]

    header = getters.query_one(DoctorHeader)
    checks = getters.query_one(ChecksPane)
    check = getters.query_one(CheckPane)
    keys = getters.query_one(KeyLine)

    class Told(Message):
        """What is looked at now."""

        def __init__(self, what: str) -> None:
            super().__init__()
            self.what = what

    class Found(Message):
        """What came of it."""

        def __init__(self, found: CheckUp) -> None:
            super().__init__()
            self.found = found

    class Failed(Message):
        """Looking failed."""

        def __init__(self, reason: str) -> None:
            super().__init__()
            self.reason = reason

    def __init__(self, look: Look, *, gently: bool, colour: bool, unicode: bool) -> None:
        super().__init__()
        self.found: CheckUp | None = None
        self._look = look
        self._gently = gently
        self._glyphs = choose_glyphs(colour, unicode)
        self._looking: threading.Thread | None = None

    def compose(self) -> ComposeResult:
        yield DoctorHeader()
        yield ChecksPane()
        yield CheckPane(markup=False)
        yield KeyLine()

    def on_mount(self) -> None:
        dress(self, self._glyphs)
        self.checks.entitle("is the installation right?")
        self.keys.keys = (
            Key("down", "up down", "choose", rank=1),
            Key("t", "t", "try again"),
            Key("y", "y", "copy"),
            Key("escape", "escape", "leave" if self.is_alone else "back"),
        )
        self._begin(self._gently)

    def on_resize(self) -> None:
        size = self.app.size
        self.set_class(size.width < _LEAST[0] or size.height < _LEAST[1], "-least")
        self.set_class(size.height < _LOW, "-low")
        self.set_class(size.height >= TALL, "-tall")

    @property
    def is_alone(self) -> bool:
        """Whether no run stands behind it."""
        return len(self.app.screen_stack) <= 2

    # -- looking ------------------------------------------------------------------------------------

    def _begin(self, gently: bool) -> None:
        self.header.doing = "looking"
        self._looking = threading.Thread(target=self._run, args=(gently,), daemon=True, name="tfwatch-doctor")
        self._looking.start()

    def _run(self, gently: bool) -> None:
        def told(what: str) -> None:
            self.post_message(self.Told(what))

        with fails_open(lambda why: self.post_message(self.Failed(why))):
            self.post_message(self.Found(self._look(gently, told)))

    @on(Told)
    def _tell(self, message: Told) -> None:
        self.header.doing = f"looking at {message.what}"

    @on(Found)
    def _take(self, message: Found) -> None:
        self._show(message.found)

    @on(Failed)
    def _fail(self, message: Failed) -> None:
        """A check of its own, before what an earlier look found."""
        failed = Check("check-up", Status.FAIL, f"it broke off: {message.reason}", "t tries again")
        machine, before = (self.found.machine, self.found.checks) if self.found else ("", ())
        self._show(CheckUp(machine, (failed, *(check for check in before if check.id != failed.id))))

    def _show(self, found: CheckUp) -> None:
        self.header.doing = ""
        self.found = self.header.found = found
        self.checks.checks = found.checks

    @on(ChecksPane.Moved)
    def _show_in_full(self, message: ChecksPane.Moved) -> None:
        self.check.show(message.check, self._glyphs.to)

    # -- keys ---------------------------------------------------------------------------------------

    def action_again(self) -> None:
        """Look at everything, also at what a training beside it would notice."""
        if self._looking and self._looking.is_alive():
            self.notify("it looks already: t again after that")
        else:
            self._begin(gently=False)

    def action_copy(self) -> None:
        """Copy the chosen check."""
        if chosen := self.checks.chosen:
            todo = f"\n{chosen.todo}" if chosen.todo else ""
            self.app.copy_to_clipboard(f"{chosen.id}: {chosen.status.value}: {chosen.found}{todo}")
        self.notify("copied" if chosen else "nothing to copy yet")

    async def action_back(self) -> None:
        """Go back to the run, or leave where there is none."""
        if self.is_alone:
            await self.run_action("app.quit")
        else:
            self.dismiss()

"""The restart form, which asks for start knobs, and the question for a line of text: a folder, a file, a number."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from textual import getters, on
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from tfwatch.screens.basics.keyline import Key, KeyLine
from tfwatch.screens.basics.pane import apply_glyphs
from tfwatch.screens.basics.row_list import ChoiceList
from tfwatch.screens.basics.text import row
from tfwatch.screens.start_knobs import StartPane

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import App, ComposeResult
    from textual.binding import BindingType

    from tfwatch.core.start_knobs import StartKnob, Value
    from tfwatch.screens.basics.glyphs import Glyphs

T = TypeVar("T")


class AskScreen(ModalScreen["T | None"], Generic[T]):
    """Asks for a line of text; returns the value that `read` makes of it, None where the user cancels.

    read: raises ValueError with the reason, which the screen shows.
    """

    CSS_PATH = "question.tcss"
    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "back", show=False, id="ask.back")
    ]

    def __init__(self, question: str, read: Callable[[str], T]) -> None:
        super().__init__()
        self._question = question
        self._read = read

    def compose(self) -> ComposeResult:
        with Vertical(id="question"):
            yield Static(row(self._question), id="words")
            yield Input(id="line", compact=True)
            yield Static("", id="trouble", markup=False)

    @on(Input.Submitted)
    def take(self, message: Input.Submitted) -> None:
        """Return the value, or show the reason why it is invalid."""
        try:
            found = self._read(message.value)
        except ValueError as error:
            self.query_one("#trouble", Static).update(row((str(error), "$text-error")))
        else:
            self.dismiss(found)

    @on(Input.Changed)
    def change(self) -> None:
        """Clear the reason: the new text may be valid."""
        self.query_one("#trouble", Static).update("")


def ask_value(app: App[object], pane: StartPane, knob: StartKnob) -> None:
    """Ask for a value of a start knob, and set it."""
    if knob.read is None:
        return

    def take(value: Value | None) -> None:
        if value:
            pane.take(knob, value)

    app.push_screen(AskScreen(f"{knob.name}: {knob.note}", knob.read), take)


#: Rows below the list of knobs.
_BELOW = 3


class RestartScreen(ModalScreen["tuple[str, ...] | None"]):
    """Asks for the start knobs; returns command-line arguments, None where the user cancels.

    how: describes what the restart does to the current run.
    """

    CSS_PATH = "restart.tcss"
    AUTO_FOCUS = "StartPane"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,r", "dismiss", "stay", show=False, id="restart.stay")
    ]

    start = getters.query_one(StartPane)
    keys = getters.query_one(KeyLine)

    def __init__(self, knobs: tuple[StartKnob, ...], how: str, glyphs: Glyphs) -> None:
        super().__init__()
        self._knobs = knobs
        self._how = how
        self._glyphs = glyphs

    def compose(self) -> ComposeResult:
        with Vertical(id="restart"):
            yield StartPane()
            yield Static(id="outcome", markup=False)
            yield KeyLine()

    def on_mount(self) -> None:
        apply_glyphs(self, self._glyphs)
        self.start.show("", self._knobs)
        self.start.styles.height = len(self._knobs) + 2
        self.call_after_refresh(self._show_choice)

    def on_resize(self) -> None:
        self.start.styles.max_height = max(self.app.size.height - _BELOW, 3)
        self.call_after_refresh(self._show_choice)

    @on(ChoiceList.Moved)
    def _show_choice(self) -> None:
        start = self.start
        start.set_titles("restart with", start.hidden_note)
        if start.trouble:
            words = row((start.trouble, "$text-error"))
        elif changes := start.describe_changes(self._glyphs.to):
            words = row((changes, "$accent bold"))
        else:
            words = row((f"no changes yet; {self._how}", "$foreground 65%"))
        self.query_one("#outcome", Static).update(words)
        self.keys.keys = (
            Key("enter", "enter", "restart", not start.trouble),
            Key("right", "< >", "change", rank=1),
            Key("e", "e", "type", bool(start.chosen and start.chosen.read), rank=2),
            Key("escape", "escape", "cancel"),
        )

    @on(StartPane.Typing)
    def _type(self, message: StartPane.Typing) -> None:
        ask_value(self.app, self.start, message.knob)

    @on(ChoiceList.Entered)
    def _entered(self) -> None:
        if not self.start.trouble:
            self.dismiss(self.start.words)

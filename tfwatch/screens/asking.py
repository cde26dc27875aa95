"""Asks for a line of text: a folder, a file, a number."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from textual import on
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from tfwatch.widgets.text import row

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import App, ComposeResult
    from textual.binding import BindingType

    from tfwatch.core.startknobs import StartKnob, Value
    from tfwatch.widgets.startknobs import StartPane

T = TypeVar("T")


class AskScreen(ModalScreen["T | None"], Generic[T]):
    """Gives what `read` makes of the text; None where nothing is wanted.

    read: raises ValueError with a sentence, which is shown.
    """

    CSS_PATH = "question.tcss"
    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "back", show=False, id="ask.back")]

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
        """Give it, or say what is wrong with it."""
        try:
            found = self._read(message.value)
        except ValueError as error:
            self.query_one("#trouble", Static).update(row((str(error), "$text-error")))
        else:
            self.dismiss(found)

    @on(Input.Changed)
    def change(self) -> None:
        """What was wrong may be right now."""
        self.query_one("#trouble", Static).update("")


def ask_value(app: App[object], pane: StartPane, knob: StartKnob) -> None:
    """Ask for a value of a start knob, and turn it to that."""
    if knob.read is None:
        return

    def take(value: Value | None) -> None:
        if value:
            pane.take(knob, value)

    app.push_screen(AskScreen(f"{knob.name}: {knob.note}", knob.read), take)

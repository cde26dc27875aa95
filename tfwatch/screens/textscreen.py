"""A text over the screen, which any of the usual keys closes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType


class TextScreen(ModalScreen[None]):
    """Shows a text under a title."""

    CSS_PATH = "text_screens.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "dismiss", "close", id="text.close"),
        Binding("up", "scroll(-1)", "up", show=False),
        Binding("down", "scroll(1)", "down", show=False),
    ]

    def __init__(self, text: Content, title: str, unicode: bool) -> None:
        super().__init__(classes="" if unicode else "-plain")
        self._text, self._title = text, title

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="text", can_focus=True) as box:
            box.border_title = Content(self._title)
            box.border_subtitle = Content("up down scroll  escape closes")
            yield Static(self._text)

    def on_click(self) -> None:
        self.dismiss()

    def action_scroll(self, rows: int) -> None:
        """Scroll the text."""
        self.query_one("#text", VerticalScroll).scroll_relative(y=rows, animate=False)

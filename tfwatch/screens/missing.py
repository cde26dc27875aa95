"""What is n/a on this machine: why, and how to get it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tfwatch.analysis.machine import missing_sensors
from tfwatch.core.events import GpuFound, SensorMissing
from tfwatch.widgets.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tfwatch.screens.situation import RunView

_NONE = "every sensor that this machine has gives its figures"
_VERDICT = "The verdict comes from step times and needs none of them."


def missing(view: RunView) -> list[SensorMissing]:
    """The sensors that give nothing, each with its newest word."""
    return missing_sensors(view.snapshot.events.of(GpuFound, SensorMissing))


class MissingScreen(ModalScreen[None]):
    """Lists sensors, reasons and fixes."""

    CSS_PATH = "help.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "dismiss", "close", id="missing.close"),
        Binding("up", "scroll(-1)", "up", show=False),
        Binding("down", "scroll(1)", "down", show=False),
    ]

    def __init__(self, listed: Sequence[SensorMissing]) -> None:
        super().__init__()
        self._listed = list(listed)

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="help", can_focus=True):
            yield Static(self._text())

    def on_mount(self) -> None:
        self.query_one("#help").border_title = Content("what is n/a, and how to get it")
        self.query_one("#help").border_subtitle = Content("escape closes")

    def on_click(self) -> None:
        self.dismiss()

    def action_scroll(self, rows: int) -> None:
        """Scroll the text."""
        self.query_one("#help", VerticalScroll).scroll_relative(y=rows, animate=False)

    def _text(self) -> Content:
        lines: list[Content] = []
        for event in self._listed:
            lines.append(Content.styled(plain(event.sensor), "$accent bold"))
            lines.append(Content(f"  {plain(event.reason)}"))
            lines.append(Content.styled(f"  {plain(event.fix)}", "$text-success") if event.fix else Content())
        lines.append(Content(_VERDICT if self._listed else _NONE))
        return Content("\n").join(lines)

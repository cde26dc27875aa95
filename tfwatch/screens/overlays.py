"""A screen over the others: keys, terms and missing figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tfwatch.core.knobs import CACHE
from tfwatch.screens.basics.text import row

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tfwatch.core.events import SensorMissing

_ACCENT = "$accent bold"


class TextScreen(ModalScreen[None]):
    """Shows a text with a title; escape, q, enter and ? close it."""

    DEFAULT_CSS = """
    TextScreen { align: center middle; background: $background 60%; }
    TextScreen #text {
        width: 84; max-width: 100%; height: auto; max-height: 100%; padding: 0 2;
        background: $surface; border: round $accent;
        scrollbar-size-vertical: 1; scrollbar-background: $surface;
        scrollbar-color: $foreground 30%;
    }
    TextScreen.-plain #text { border: ascii $accent; scrollbar-size-vertical: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "dismiss", "close", show=False),
        Binding("up", "scroll(-1)", "up", show=False),
        Binding("down", "scroll(1)", "down", show=False),
    ]
    HINT = "up down scroll  escape closes"

    def __init__(self, lines: Iterable[Content], title: str, unicode: bool) -> None:
        super().__init__(classes="" if unicode else "-plain")
        self.text, self._title = Content("\n").join(lines), title

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="text", can_focus=True) as box:
            box.border_title = row(self._title)
            box.border_subtitle = Content(self.HINT)
            yield Static(self.text, id="lines")

    def on_click(self, _event: events.Click) -> None:
        self.dismiss()

    def action_scroll(self, rows: int) -> None:
        self.query_one("#text", VerticalScroll).scroll_relative(y=rows, animate=False)


_TERMS = [
    ("host", "time until the next fetch: callbacks, Python, logging"),
    ("starving", "data wait as a share of step time"),
    ("of the time", "since the last switch or filled cache, without first traces"),
    ("verdict", "NOT < 5 %, MODERATELY 5 to 20 %, HIGHLY >= 20 % input-bound"),
    (CACHE, "keeps examples as they are before random ops, from one epoch on"),
    ("red", "in the chart: one data wait beyond the top of the axis, a stall; dim: a compile"),
]
_KEY_CELLS = 13


def help_screen(
    bindings: Iterable[Binding], lacks: Sequence[SensorMissing], unicode: bool
) -> TextScreen:
    """Return the screen with the key bindings by group, the terms, and the figures that this
    machine lacks, with the reason and the remedy."""
    lines: list[Content] = []
    group = ""
    for binding in bindings:
        name = binding.group.description if binding.group else ""
        lines += [*([Content()] if lines else []), row((name, _ACCENT))] if name != group else []
        group = name
        lines.append(_entry(binding.key_display or binding.key, binding.tooltip))
    absent = [(one.sensor, "; ".join(filter(None, (one.reason, one.fix)))) for one in lacks]
    for name, entries in (("terms", _TERMS), ("figures that this machine lacks", absent)):
        if entries:
            lines += [Content(), row((name, _ACCENT)), *(_entry(*entry) for entry in entries)]
    return TextScreen(lines, "keys and terms", unicode)


def _entry(word: str, meaning: str) -> Content:
    """Return a row whose meaning stays in its column; a long word takes no room from it."""
    return row((f"  {word:<{_KEY_CELLS}} ", "bold"), meaning)

"""A text over the screen, which any of the usual keys closes.

Every key, and what the words on the screen mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tfwatch.widgets.basics.text import row

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tfwatch.core.events import SensorMissing


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


_WORDS = (
    ("data wait", "blocked fetching the batch: the time that the device starves"),
    ("compute", "from the batch in hand to the metrics on the host"),
    ("host", "all else until the next fetch: callbacks, Python, logging"),
    ("starving", "data wait as a share of step time"),
    ("verdict", "NOT < 5 %, MODERATELY 5 to 20 %, HIGHLY >= 20 % input-bound"),
    ("bound", "by input, host, launching (on a GPU, longer than its work) or compute"),
    ("cache", "what was made of each example before anything random: kept while an epoch passes, then served"),
    ("ms/batch", "what a batch costs in one stage, summed over its workers: as many as it does at a time"),
    ("forecast", "the step after a key, from what was measured here; 9 of 10 come within its range"),
    ("stall", "a wait that lasts many times a step"),
    ("settled", "60 steady steps after a switch"),
    ("why", "E epoch, EV validation, C compile, S stall, H heat, M swapping, Z asleep, X failed"),
    ("GPU", "how busy its counter says it is: evidence beside the step times, which decide"),
    ("others", "the GPU's time that other programs use"),
    ("energy", "of the device that trains; in short steps the starving part is an upper bound"),
)


class HelpScreen(TextScreen):
    """Lists bindings by group, from the bindings themselves."""

    def __init__(self, bindings: Iterable[Binding], unicode: bool) -> None:
        super().__init__(_text(bindings), "keys and words", unicode)


def _text(bindings: Iterable[Binding]) -> Content:
    lines: list[Content] = []
    group = ""
    for binding in bindings:
        name = binding.group.description if binding.group else ""
        if name != group:
            group = name
            lines.extend(
                [Content(), Content.styled(name, "$accent bold")] if lines else [Content.styled(name, "$accent bold")]
            )
        shown = binding.key_display or binding.key
        lines.append(Content.assemble((f"  {shown:<12}", "bold"), binding.tooltip or binding.description))
    lines.extend([Content(), Content.styled("words", "$accent bold")])
    lines.extend(Content.assemble((f"  {word:<10}", "bold"), meaning) for word, meaning in _WORDS)
    return Content("\n").join(lines)


_NONE = "every sensor that this machine has gives its figures"
_VERDICT = "The verdict comes from step times and needs none of them."


class MissingScreen(TextScreen):
    """Lists sensors, reasons and fixes."""

    def __init__(self, listed: Sequence[SensorMissing], unicode: bool) -> None:
        super().__init__(_missing_text(listed), "what is n/a, and how to get it", unicode)


def _missing_text(listed: Sequence[SensorMissing]) -> Content:
    lines: list[Content] = []
    for event in listed:
        lines.append(row((event.sensor, "$accent bold")))
        lines.append(row(f"  {event.reason}"))
        lines.append(row((f"  {event.fix}", "$text-success")) if event.fix else Content())
    lines.append(Content(_VERDICT if listed else _NONE))
    return Content("\n").join(lines)

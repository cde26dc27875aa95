"""The questions before something ends: leave the screen, stop the training."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tfwatch.widgets.basics.keyline import Key, KeyLine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType


class Leave(Enum):
    """How the screen was left.

    STOP: training was stopped. DETACH: it trains on without a screen. LEFT: there was nothing to decide.
    NOW: at once, without waiting for the batch in flight.
    """

    STOP = "stop"
    DETACH = "detach"
    LEFT = "left"
    NOW = "now"


class Question(ModalScreen["Leave | None"]):
    """A question with lettered answers; None is to stay. Enter does nothing."""

    CSS_PATH = "question.tcss"
    AUTO_FOCUS = ""
    #: In a small window the answers stay, and of the words the first line.
    HORIZONTAL_BREAKPOINTS: list[tuple[int, str]] | None = [(0, "-narrow"), (66, "-usual")]  # noqa: RUF012 - so Textual declares it
    VERTICAL_BREAKPOINTS: list[tuple[int, str]] | None = [(0, "-low"), (13, "-high")]  # noqa: RUF012
    WORDS: ClassVar[tuple[str, ...]] = ()
    KEYS: ClassVar[tuple[Key, ...]] = ()

    def compose(self) -> ComposeResult:
        with Vertical(id="question"):
            yield Static(Content("\n".join(self.words())), id="words")
            yield KeyLine(id="answers")

    def on_mount(self) -> None:
        self.query_one("#answers", KeyLine).keys = self.KEYS

    def words(self) -> Sequence[str]:
        """The question."""
        return self.WORDS

    def action_answer(self, leave: str) -> None:
        """Answer with a `Leave` by its value; an empty one stays."""
        self.dismiss(Leave(leave) if leave else None)


class LeaveScreen(Question):
    """Asked by q, ctrl+q, ctrl+c and the palette's Quit while training runs."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer('stop')", "stop training and leave", id="leave.stop"),
        Binding("d", "answer('detach')", "train on without a screen", id="leave.detach"),
        Binding("n,escape", "answer('')", "stay", id="leave.stay"),
    ]
    WORDS = (
        "Leave the screen?",
        "",
        "y  stop training at the next batch, and leave",
        "d  leave, and train on without a screen",
        "n  stay",
        "",
        "y once more leaves at once, in the middle of a batch.",
    )
    KEYS = (Key("y", "y", "stop and leave"), Key("d", "d", "train on"), Key("n", "n", "stay"))


class StopScreen(Question):
    """Asked by s."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer('stop')", "stop training", id="stop.yes"),
        Binding("n,escape", "answer('')", "go on", id="stop.no"),
    ]
    WORDS = ("Stop the training?", "", "It ends at the next batch and stays on this screen.")
    KEYS = (Key("y", "y", "stop training"), Key("n", "n", "go on"))

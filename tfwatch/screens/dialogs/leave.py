"""The questions before the screen closes or the training stops."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tfwatch.screens.basics.keyline import Key, KeyLine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType


class Leave(Enum):
    """The way the user left the screen.

    STOP: the training stops. DETACH: the training continues without a screen. LEFT: no training was
    running.
    NOW: quit without waiting for the current batch.
    """

    STOP = "stop"
    DETACH = "detach"
    LEFT = "left"
    NOW = "now"


class Question(ModalScreen["Leave | None"]):
    """A question with lettered answers; None stays. Enter does nothing."""

    CSS_PATH = "question.tcss"
    AUTO_FOCUS = ""
    #: A small window shows the answers, and only the first line of the question.
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
        return self.WORDS

    def action_answer(self, leave: str) -> None:
        """Answer with the value of a `Leave`; an empty string stays."""
        self.dismiss(Leave(leave) if leave else None)


class LeaveScreen(Question):
    """The question of q, ctrl+q, ctrl+c and the palette's Quit while the training runs."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer('stop')", "stop training and quit", id="leave.stop"),
        Binding("d", "answer('detach')", "quit the screen, keep training", id="leave.detach"),
        Binding("n,escape", "answer('')", "stay", id="leave.stay"),
    ]
    WORDS: ClassVar[tuple[str, ...]] = (
        "Quit?",
        "",
        "y  stop training at the next batch, and quit",
        "d  quit the screen; training continues without it,",
        "   and the shell is back when it ends",
        "n  stay",
        "",
        "y again quits without waiting for the current batch.",
    )
    KEYS = (
        Key("y", "y", "stop and quit"),
        Key("d", "d", "keep training", brief="continue"),
        Key("n", "n", "stay"),
    )


class LeaveScriptScreen(LeaveScreen):
    """The same question while a script of `tfwatch run` runs."""

    WORDS = (
        "Quit?",
        "",
        "y  stop the script, as ctrl+c does, and quit",
        "d  quit the screen; the script runs on and writes to",
        "   this terminal, and the shell is back when it ends",
        "n  stay",
        "",
        "y again ends the script with SIGTERM.",
    )


class DetachScreen(LeaveScreen):
    """The question of q where another process trains."""

    WORDS = (
        "Quit?",
        "",
        "d  quit this screen; the training goes on where it runs",
        "y  stop training at the next batch, and quit",
        "n  stay",
    )


class StopScreen(Question):
    """The question of s."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer('stop')", "stop training", id="stop.yes"),
        Binding("n,escape", "answer('')", "keep training", id="stop.no"),
    ]
    WORDS = ("Stop the training?", "", "It stops at the next batch; this screen stays open.")
    KEYS = (Key("y", "y", "stop training"), Key("n", "n", "keep training"))


class StopScriptScreen(StopScreen):
    """The same question about a script of `tfwatch run`."""

    WORDS = ("Stop the script?", "", "It gets a SIGINT, as by ctrl+c; this screen stays open.")

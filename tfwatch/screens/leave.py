"""The questions before the screen closes or the training stops."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from tfwatch.screens.basics.keyline import Key, KeyLine

if TYPE_CHECKING:
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


_ANSWERS = {"y": Leave.STOP, "d": Leave.DETACH, "n": None}


class Question(ModalScreen["Leave | None"]):
    """A question with an answer in each line, by its letter or a click; n and escape stay. Enter
    does nothing.

    answers: the words of each letter. note: stands below them.
    """

    DEFAULT_CSS = """
    Question { align: center middle; background: $background 60%; }
    Question #question {
        width: 66; max-width: 100%; height: auto; max-height: 100%; padding: 0 1;
        background: $surface; border: round $accent;
    }
    Question Static { padding: 0 1; }
    Question KeyLine { background: $surface; }
    .-plain Question #question, Question.-plain #question { border: ascii $accent; }
    """
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"answer({key!r})", show=False) for key in _ANSWERS),
        Binding("escape", "answer('n')", show=False),
    ]

    def __init__(self, question: str, note: str, **answers: str) -> None:
        super().__init__()
        self.question, self._note, self._answers = question, note, answers

    def compose(self) -> ComposeResult:
        with Vertical(id="question"):
            yield Static(self.question)
            for key, words in self._answers.items():
                line = KeyLine()
                line.keys = (Key(key, key, words),)
                yield line
            yield Static(self._note)

    def action_answer(self, key: str) -> None:
        """Answer with a letter; one that the question does not offer does nothing."""
        if key in self._answers:
            self.dismiss(_ANSWERS[key])


def leave_question(*, is_attached: bool) -> Question:
    """Return the question of q, ctrl+q, ctrl+c and the palette's Quit while the training runs.

    is_attached: the training was begun elsewhere, not by this screen.
    """
    if is_attached:
        on = "quit; the training goes on where it runs"
        return Question("Quit?", "", d=on, y="stop it, and quit", n="stay")
    return Question(
        "Quit?",
        "The shell is back when it ends. y again ends it at once.",
        y="stop the script, and quit",
        d="quit the screen; the script runs on",
        n="stay",
    )


def stop_question(*, is_attached: bool) -> Question:
    """Return the question of s."""
    what, how = "script", "It stops as by ctrl+c; this screen stays open."
    if is_attached:
        what, how = "training", "It stops at the next batch; this screen stays open."
    return Question(f"Stop the {what}?", how, y=f"stop the {what}", n="go on")

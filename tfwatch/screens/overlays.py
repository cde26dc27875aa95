"""The screens over the others: the questions before the training stops or the screen closes, and
the keys, terms and missing figures."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tfwatch.core.knobs import CACHE, DEFAULT
from tfwatch.screens.text import row, wrap_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tfwatch.core.events import SensorMissing

_ACCENT = "$accent bold"


class TextScreen(ModalScreen[None]):
    """Shows a text with a title; escape, q, enter and ? close it."""

    #: The most cells of a row, with its frame.
    CELLS = 84
    DEFAULT_CSS = """
    TextScreen { align: center middle; background: $background 60%; }
    TextScreen #text {
        width: 84; max-width: 100%; height: auto; max-height: 100%; padding: 0 2;
        background: $surface; border: round $accent;
        scrollbar-size-vertical: 1; scrollbar-background: $surface;
        scrollbar-color: $foreground 30%;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "dismiss", "close", show=False),
    ]

    def __init__(self, lines: Iterable[Content], title: str) -> None:
        super().__init__()
        self.text, self._title = Content("\n").join(lines), title

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="text", can_focus=True) as box:
            box.border_title = row(self._title)
            box.border_subtitle = Content("up down scroll  escape closes")
            yield Static(self.text, id="lines")


class PatchScreen(TextScreen, inherit_bindings=False):
    """Shows a patch of the user's files; enter writes it, as no switch has that key. The key that
    opens it, held down, does nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark", "dismiss", "close", show=False),
        Binding("enter", "write", "write", show=False),
    ]

    def __init__(self, diff: str, names: str, write: Callable[[], object]) -> None:
        lines = map(_diff_line, diff.splitlines())
        super().__init__(lines, f"proved faster: enter writes it into {names}")
        self._write = write

    def action_write(self) -> None:
        """Close, and write the files."""
        self.dismiss()
        self._write()


def _diff_line(line: str) -> Content:
    is_change = line[:1] in "+-" and line[:3] not in ("+++", "---")
    return row((line, "$text-success" if line[:1] == "+" else "$text-error") if is_change else line)


_TERMS = [
    ("host", "time until the next fetch: callbacks, Python, logging"),
    ("starving", "data wait as a share of the time; red from 20 % on"),
    ("of the time", "since the last switch or filled cache, without first traces"),
    (DEFAULT, "as in the script: TensorFlow adds a prefetch, and makes most maps parallel"),
    (CACHE, "keeps examples as they are before random ops, from one epoch on"),
    ("red", "in the chart: one data wait beyond the top of the axis, a stall; dim: a compile"),
]
_MARKS = [
    ("p w c ...", "a switch, by its key"),
    ("A F", "an A/B test, the autopilot"),
    ("E C", "an epoch ended; a step was compiled, which is not counted"),
    ("S", "a stall: no batch for half a second or more"),
    ("H M Z", "slowed by heat, slowed by swapping, asleep"),
    ("X ! ✓", "failed; not recorded; finished"),
]
#: The cells of a key, and of what stands around the text of its screen.
_KEY_CELLS, _FRAME_CELLS = 13, 7


def help_screen(
    bindings: Iterable[Binding], lacks: Sequence[SensorMissing], columns: int
) -> TextScreen:
    """Return the screen with the key bindings by group, the marks, the terms, and the figures that
    this machine lacks, with the reason and the remedy. columns: of the window."""
    sections: dict[str, list[tuple[str, str]]] = {}
    for one in bindings:
        entries = sections.setdefault(one.group.description if one.group else "", [])
        entries.append((one.key_display or one.key, one.tooltip))
    sections |= {"marks below the chart": _MARKS, "terms": _TERMS}
    sections["figures that this machine lacks"] = [
        (one.sensor, "; ".join(filter(None, (one.reason, one.fix)))) for one in lacks
    ]
    width = min(columns, TextScreen.CELLS) - _FRAME_CELLS
    lines: list[Content] = []
    for name, entries in sections.items():
        if entries:
            lines += [Content()] * bool(lines) + [row((name, _ACCENT))]
            lines += [line for word, text in entries for line in _entry(word, text, width)]
    return TextScreen(lines, "keys and terms")


def _entry(word: str, meaning: str, width: int) -> Iterator[Content]:
    """Yield rows whose meaning stays in its column; a long word takes no room from it."""
    for text in wrap_text(meaning, width - _KEY_CELLS - 3) or [""]:
        yield row((f"  {word:<{_KEY_CELLS}} ", "bold"), text)
        word = ""


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
    """A question with an answer in each line, by its letter; n and escape stay. Enter does nothing.

    answers: the words of each letter. note: stands below them.
    """

    DEFAULT_CSS = """
    Question { align: center middle; background: $background 60%; }
    Question #question {
        width: 66; max-width: 100%; height: auto; max-height: 100%; padding: 0 1;
        background: $surface; border: round $accent;
    }
    Question Static { padding: 0 1; }
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
        lines = [row((key, _ACCENT), f" {words}") for key, words in self._answers.items()]
        with Vertical(id="question"):
            yield Static(self.question)
            yield Static(Content("\n").join(lines))
            yield Static(self._note, id="note")

    def note_end(self) -> None:
        """Say that the run has ended: an answer closes the question, and quits where it asks."""
        self.query_one("#note", Static).update("The run has ended meanwhile.")

    def action_answer(self, key: str) -> None:
        """Answer with a letter; one that the question does not offer does nothing."""
        if key in self._answers:
            self.dismiss(_ANSWERS[key])


def leave_question(*, is_attached: bool) -> Question:
    """Return the question of q, ctrl+q and ctrl+c while the training runs.

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


def consent_question(random_map: str) -> Question:
    """Return the question before a switch that changes random draws. random_map: the map, and what
    it does."""
    return Question(
        f"{random_map}. In parallel it draws others from here on, as with the same line in your"
        " script: your results are no longer those of the plain run.",
        "The run records the step. It is asked once.",
        y="switch: other random draws",
        n="stay",
    )


def stop_question(*, is_attached: bool) -> Question:
    """Return the question of s."""
    what, how = "script", "It stops as by ctrl+c; this screen stays open."
    if is_attached:
        what, how = "training", "It stops at the next batch; this screen stays open."
    return Question(f"Stop the {what}?", how, y=f"stop the {what}", n="go on")

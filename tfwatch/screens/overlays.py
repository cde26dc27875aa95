"""Screens over the live screen: keys and terms, the missing sensors, and the stalls."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tfwatch.core import units
from tfwatch.core.knobs import CACHE, KNOBS, PY_DATASET_ONLY, knob_name
from tfwatch.judge.findings.situation import reading_text
from tfwatch.screens.basics.glyphs import QUIET_COLOUR
from tfwatch.screens.basics.text import clock, column, row

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tfwatch.core.events import SensorMissing
    from tfwatch.judge.steps.stalls import Stall
    from tfwatch.judge.view import RunView
    from tfwatch.screens.basics.keyline import Key

_ACCENT = "$accent bold"


class TextScreen(ModalScreen[float | None]):
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


#: The letters of the marks and of the events, beside those of the knobs.
MARKS = (
    ("E", "end of an epoch"),
    ("EV V", "validation"),
    ("C", "compile: its step is not counted"),
    ("S", "stall, or a shuffle buffer that fills"),
    ("H M", "heat lowers the clocks; memory is swapped"),
    ("Z", "the machine was asleep"),
    ("A F", "A/B test; autopilot"),
    *(
        (" ".join(KNOBS[one].key for one in knobs), f"switch of {', '.join(map(knob_name, knobs))}")
        for knobs in ([knob for knob in KNOBS if knob not in PY_DATASET_ONLY], PY_DATASET_ONLY)
    ),
    ("X !", "failed, or ended; recording or the loss is in trouble"),
    (".", "anything else: a note, a pause, a line of the log"),
)
_TERMS = (
    ("host", "time until the next fetch: callbacks, Python, logging"),
    ("starving", "data wait as a share of step time"),
    ("verdict", "NOT < 5 %, MODERATELY 5 to 20 %, HIGHLY >= 20 % input-bound"),
    (CACHE, "keeps examples as they are before random ops, from one epoch on"),
    ("red", "in the chart: one data wait beyond the top of the axis, a stall; dim: a compile"),
)
_KEY_CELLS = 13


def help_screen(bindings: Iterable[Binding], unicode: bool) -> TextScreen:
    """Return the screen with the key bindings by group, then the marks and terms."""
    lines: list[Content] = []
    group = ""
    for binding in bindings:
        name = binding.group.description if binding.group else ""
        lines += [*([Content()] if lines else []), row((name, _ACCENT))] if name != group else []
        group = name
        lines.append(_entry(binding.key_display or binding.key, binding.tooltip))
    for name, entries in (("marks below the chart, and of the events", MARKS), ("terms", _TERMS)):
        lines += [Content(), row((name, _ACCENT)), *(_entry(*entry) for entry in entries)]
    return TextScreen(lines, "keys and terms", unicode)


def keys_screen(keys: Iterable[Key], unicode: bool) -> TextScreen:
    """Return the screen with the keys of a screen that has no terms to explain."""
    lines = [*(_entry(key.label, key.word) for key in keys), _entry(":", "search all commands")]
    return TextScreen(lines, "keys", unicode)


def _entry(word: str, meaning: str) -> Content:
    """Return a row whose meaning stays in its column; a long word takes no room from it."""
    return row((f"  {word:<{_KEY_CELLS}} ", "bold"), meaning)


_NONE = "all sensors of this machine work"
_VERDICT = "The verdict comes from step times and needs no sensor."


def missing_screen(listed: Sequence[SensorMissing], unicode: bool) -> TextScreen:
    """Return the screen with the missing sensors, their reasons and fixes."""
    lines: list[Content] = []
    for event in listed:
        lines.append(row((event.sensor, _ACCENT)))
        lines.append(row(f"  {event.reason}"))
        lines.append(row((f"  {event.fix}", "$text-success")) if event.fix else Content())
    lines.append(Content(_VERDICT if listed else _NONE))
    return TextScreen(lines, "missing sensors, and how to get them", unicode)


#: The keys of the rows; q closes.
_LETTERS = "abcdefghijklmnoprstuvwxyz"
_HEADING = "   at        step          cost   cause"


class StallsScreen(TextScreen):
    """The worst stalls, a letter each.

    The result is the moment to jump to, seconds since the clock origin, or None.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("S,upper_s", "dismiss", "close", show=False),
        *(Binding(letter, f"choose({at})", show=False) for at, letter in enumerate(_LETTERS)),
    ]
    HINT = "a letter jumps  escape closes"

    def __init__(self, view: RunView, unicode: bool) -> None:
        self._view = view
        stalls = sorted(view.stalls, key=attrgetter("lost_ms"), reverse=True)
        self._rows = stalls[: len(_LETTERS)]
        lines = [row((_HEADING, QUIET_COLOUR)), *map(self._line, _LETTERS, self._rows)]
        super().__init__(lines, _title(view), unicode)

    def action_choose(self, at: int) -> None:
        """Jump to the stall of a row."""
        if at < len(self._rows):
            self.dismiss(self._rows[at].start_ns / 1e9)

    def on_click(self, event: events.Click) -> None:
        """Choose the row below the pointer; a click beside the rows closes the list."""
        region = self.query_one("#lines", Static).region
        at = event.screen_y - region.y - 1
        if region.contains(event.screen_x, event.screen_y) and 0 <= at < len(self._rows):
            self.action_choose(at)
        else:
            self.dismiss(None)

    def _line(self, letter: str, stall: Stall) -> Content:
        at = clock(self._view.snapshot, stall.start_ns / 1e9)
        cost = column(units.seconds(stall.lost_ms / 1e3), 7)
        return row(
            (f"{letter}  ", _ACCENT), f"{at}  {units.count(stall.step):<12}{cost}{stall.cause}"
        )


def _title(view: RunView) -> str:
    lost_s, run_s = sum(stall.lost_ms for stall in view.stalls) / 1e3, view.snapshot.now_s
    share = f", {units.percent(lost_s / run_s)} of the run" if run_s > 0 else ""
    text = f"{units.counted(len(view.stalls), 'stall')} cost {units.seconds(lost_s)}{share}"
    searched = view.situation.searched
    return text if searched is None else f"{text}, {reading_text(searched)}"

"""Screens over the live screen: keys and terms, the missing sensors, and the stalls."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tfwatch.core import units
from tfwatch.core.knobs import CACHE, KNOBS, PY_DATASET_ONLY, knob_name
from tfwatch.judge.findings.situation import reading_text
from tfwatch.judge.steps.stalls import StallGroup, arrange, arrange_group, period_text
from tfwatch.screens.basics.glyphs import QUIET_COLOUR
from tfwatch.screens.basics.text import clock, column, row

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tfwatch.core.events import SensorMissing
    from tfwatch.judge.steps.stalls import Row, Stall
    from tfwatch.judge.view import RunView
    from tfwatch.screens.basics.keyline import Key


class TextScreen(ModalScreen[None]):
    """Shows a text with a title; escape, q, enter and ? close it."""

    CSS_PATH = "overlays.tcss"
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
        (
            " ".join(KNOBS[knob].key for knob in knobs),
            f"switch of {', '.join(map(knob_name, knobs))}",
        )
        for knobs in ([knob for knob in KNOBS if knob not in PY_DATASET_ONLY], PY_DATASET_ONLY)
    ),
    ("X !", "failed, or ended; recording or the loss is in trouble"),
    (".", "anything else: a note, a pause, a line of TensorFlow's log"),
)
_TERMS = (
    ("host", "time until the next fetch: callbacks, Python, logging"),
    ("starving", "data wait as a share of step time"),
    ("verdict", "NOT < 5 %, MODERATELY 5 to 20 %, HIGHLY >= 20 % input-bound"),
    (CACHE, "keeps examples as they are before random ops, from one epoch on"),
    ("run", "the whole run in a line; [ ] is the window of the chart: a click or a drag moves it"),
    ("why", "marks below the chart, and letters of the events:"),
    *MARKS,
    ("red", "in the chart: one data wait beyond the top of the axis, a stall; dim: a compile"),
)


class HelpScreen(TextScreen):
    """Lists the key bindings by group, then the terms of the screen."""

    def __init__(self, bindings: Iterable[Binding], unicode: bool) -> None:
        super().__init__(_text(bindings), "keys and terms", unicode)


def _text(bindings: Iterable[Binding]) -> Content:
    lines: list[Content] = []
    group = ""
    for binding in bindings:
        name = binding.group.description if binding.group else ""
        if name != group:
            group = name
            lines.extend(
                [Content(), Content.styled(name, "$accent bold")]
                if lines
                else [Content.styled(name, "$accent bold")]
            )
        shown = binding.key_display or binding.key
        lines.append(
            Content.assemble((f"  {shown:<13}", "bold"), binding.tooltip or binding.description)
        )
    lines.extend([Content(), Content.styled("terms", "$accent bold")])
    lines.extend(Content.assemble((f"  {word:<13}", "bold"), meaning) for word, meaning in _TERMS)
    return Content("\n").join(lines)


class KeysScreen(TextScreen):
    """Lists the keys of a screen that has no terms to explain."""

    def __init__(self, keys: Iterable[Key], unicode: bool) -> None:
        listed = [*((key.label, key.word) for key in keys), _PALETTE]
        lines = [Content.assemble((f"  {label:<13}", "bold"), word) for label, word in listed]
        super().__init__(Content("\n").join(lines), "keys", unicode)


_PALETTE = (":", "search all commands")
_NONE = "all sensors of this machine work"
_VERDICT = "The verdict comes from step times and needs no sensor."


class MissingScreen(TextScreen):
    """Lists the missing sensors with reasons and fixes."""

    def __init__(self, listed: Sequence[SensorMissing], unicode: bool) -> None:
        super().__init__(_missing_text(listed), "missing sensors, and how to get them", unicode)


def _missing_text(listed: Sequence[SensorMissing]) -> Content:
    lines: list[Content] = []
    for event in listed:
        lines.append(row((event.sensor, "$accent bold")))
        lines.append(row(f"  {event.reason}"))
        lines.append(row((f"  {event.fix}", "$text-success")) if event.fix else Content())
    lines.append(Content(_VERDICT if listed else _NONE))
    return Content("\n").join(lines)


#: The keys of the rows; q closes.
_LETTERS = "abcdefghijklmnoprstuvwxyz"
#: Rows of a window beside those of the stalls: frame, heading.
_OTHER_ROWS = 4
_LEAST_ROOM = 6
_HEADING = "   at        step          cost   cause"


class StallsScreen(ModalScreen["float | None"]):
    """Rows with a letter each; the result is the moment to jump to, seconds since the clock origin,
    or None.

    height: of the window: at most so many rows show, so that each stall is reached by two letters.
    """

    CSS_PATH = "overlays.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "back", id="stalls.back"),
        Binding("q,question_mark,S,upper_s", "dismiss", "close", id="stalls.close"),
        *(Binding(letter, f"choose({at})", show=False) for at, letter in enumerate(_LETTERS)),
    ]

    def __init__(self, view: RunView, height: int, unicode: bool) -> None:
        super().__init__(classes="" if unicode else "-plain")
        self._view = view
        self._room = min(max(height - _OTHER_ROWS, _LEAST_ROOM), len(_LETTERS))
        self._levels: list[Sequence[Row]] = [arrange(view.stalls, self._room)]

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="text", can_focus=False) as box:
            box.border_title = Content(_title(self._view))
            box.border_subtitle = Content("a letter jumps  escape back")
            yield Static(self._text(), id="stalls")

    def action_choose(self, at: int) -> None:
        """Jump to the stall of a row, or open its group."""
        rows = self._levels[-1]
        if at >= len(rows):
            return
        chosen = rows[at]
        if not isinstance(chosen, StallGroup):
            self.dismiss(chosen.start_ns / 1e9)
            return
        self._levels.append(arrange_group(chosen, self._room))
        self._update()

    def action_back(self) -> None:
        """Close the group, or the list."""
        if len(self._levels) == 1:
            self.dismiss(None)
            return
        self._levels.pop()
        self._update()

    def on_click(self, event: events.Click) -> None:
        """Choose the row below the pointer; a click beside the rows closes the list."""
        text = self.query_one("#stalls", Static)
        at = event.screen_y - text.region.y - 1
        if text.region.contains(event.screen_x, event.screen_y) and at >= 0:
            self.action_choose(at)
        else:
            self.dismiss(None)

    def _update(self) -> None:
        self.query_one("#stalls", Static).update(self._text())

    def _text(self) -> Content:
        lines = [row((_HEADING, QUIET_COLOUR))]
        for letter, what in zip(_LETTERS, self._levels[-1], strict=False):
            text = (
                self._group_text(what) if isinstance(what, StallGroup) else self._stall_text(what)
            )
            lines.append(Content.assemble((f"{letter}  ", "$accent bold"), row(text)))
        return Content("\n").join(lines)

    def _stall_text(self, stall: Stall) -> str:
        at = clock(self._view.snapshot, stall.start_ns / 1e9)
        cost = units.seconds(stall.lost_ms / 1e3)
        return f"{at}  {units.count(stall.step):<12}{column(cost, 7)}{stall.cause}"

    def _group_text(self, group: StallGroup) -> str:
        stalls, cost = group.stalls, units.seconds(group.lost_ms / 1e3)
        at = clock(self._view.snapshot, group.start_ns / 1e9)
        if group.period:
            every = period_text(group.period, self._view.snapshot.manifest.steps_per_epoch)
            return (
                f"{at}  {f'+ {len(stalls) - 1} more':<12}{column(cost, 7)}{stalls[0].cause},"
                f" {every}"
            )
        until = clock(self._view.snapshot, stalls[-1].start_ns / 1e9)
        return f"{at}  {f'to {until}':<12}{column(cost, 7)}{units.counted(len(stalls), 'stall')}"


def _title(view: RunView) -> str:
    lost_s, run_s = sum(stall.lost_ms for stall in view.stalls) / 1e3, view.snapshot.now_s
    share = f", {units.percent(lost_s / run_s)} of the run" if run_s > 0 else ""
    text = f"{units.counted(len(view.stalls), 'stall')} cost {units.seconds(lost_s)}{share}"
    searched = view.situation.searched
    return text if searched is None else f"{text}, {reading_text(searched)}"

"""The live screen's keys, and how its panes stand in a window.

The live screen's keys. Each undoes itself, or only looks, or asks.

How the live screen's panes stand in a window.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from textual.binding import Binding

from tfwatch.widgets.knobs import KNOB_KEYS
from tfwatch.widgets.timeline.style import KEYS, LOOK

if TYPE_CHECKING:
    from textual.geometry import Size

SWITCH = Binding.Group("switch the input pipeline")
RUN = Binding.Group("the run")
ROWS = Binding.Group("in the pane that has the keys")


def _key(keys: str, action: str, shown: str, does: str, group: Binding.Group, id: str) -> Binding:
    return Binding(keys, action, does, key_display=shown, tooltip=does, group=group, id=id, show=False)


_OF_TIMELINE = [replace(binding, action=f"timeline({binding.action!r})") for binding in KEYS]
_OF_KNOBS = [_key(one.key, f"turn({one.knob!r})", one.key, one.does, SWITCH, f"switch.{one.name}") for one in KNOB_KEYS]
LIVE_BINDINGS = [
    *_OF_KNOBS,
    _key("plus,equals_sign", "deepen(1)", "+ =", "twice the prefetch depth", SWITCH, "switch.deeper"),
    _key("minus,underscore", "deepen(-1)", "- _", "half the prefetch depth", SWITCH, "switch.shallower"),
    _key("a", "experiment", "a", "which is faster? of the chosen knob, or prefetch", SWITCH, "switch.experiment"),
    _key("f", "autopilot", "f", "feed the device: the best setting by itself", SWITCH, "switch.autopilot"),
    _key("u", "undo", "u", "undo the last switch", SWITCH, "switch.undo"),
    *_OF_TIMELINE,
    _key("left_square_bracket", "step(1)", "[", "look at the event before", LOOK, "look.older"),
    _key("right_square_bracket", "step(-1)", "]", "look at the event after", LOOK, "look.newer"),
    _key("enter", "open", "enter", "look at the chosen event, turn the chosen knob", LOOK, "look.open"),
    _key("n", "explain", "n", "what is n/a, and how to get it", LOOK, "look.missing"),
    _key("1", "pane(1)", "1", "the knobs", LOOK, "pane.switch"),
    _key("2", "pane(2)", "2", "the input pipeline, stage by stage", LOOK, "pane.stages"),
    _key("3", "pane(3)", "3", "what happened", LOOK, "pane.events"),
    _key("4", "pane(4)", "4", "the machine", LOOK, "pane.machine"),
    _key("5", "pane(5)", "5", "the log; in a large window in place of the events", LOOK, "pane.log"),
    _key("6", "pane(6)", "6", "did it help?", LOOK, "pane.proof"),
    _key("tab", "next_pane(1)", "tab", "the next pane", LOOK, "pane.next"),
    _key("shift+tab", "next_pane(-1)", "shift+tab", "the pane before", LOOK, "pane.before"),
    _key("slash", "filter", "/", "show only the log's lines that hold a word", LOOK, "look.filter"),
    _key("escape", "back", "escape", "leave a filter or a pane", LOOK, "look.escape"),
    _key("y", "copy", "y", "copy the lines to paste (while it stops: leave now)", LOOK, "look.copy"),
    _key("d", "app.doctor", "d", "doctor: is the installation right?", LOOK, "look.doctor"),
    _key("question_mark", "help", "?", "keys and words", LOOK, "look.help"),
    _key("colon", "app.command_palette", ":", "everything by name (also ctrl+p)", LOOK, "look.palette"),
    _key("s", "app.ask_stop", "s", "stop the training and stay; asks", RUN, "run.stop"),
    _key("r", "app.ask_restart", "r", "restart with other start knobs; asks", RUN, "run.restart"),
    _key("q", "app.quit", "q", "leave; asks while training runs (also ctrl+q, ctrl+c)", RUN, "run.leave"),
    _key("ctrl+z", "no_suspend", "ctrl+z", "off: it would suspend the training too", RUN, "run.suspend"),
]
#: What help names besides: the panes' own.
OF_PANES = [
    _key("up,down", "", "up down", "the row above, below", ROWS, "rows.by_one"),
    _key(
        "pageup,pagedown",
        "",
        "pageup",
        "many rows up (pagedown: down), in the events and the log",
        ROWS,
        "rows.by_many",
    ),
]


#: Columns and rows below which nothing is shown but that, and from which all panes stand side by side.
SMALLEST = (60, 18)
ROOMY = (100, 36)
#: Below so many rows the first tab holds the knobs alone, and from so many on a tab is larger.
LOW, TALL = 24, 32


class Layout(Enum):
    """How the panes stand: not at all, one at a time, side by side."""

    TOO_SMALL = "-too-small"
    TABS = "-tabs"
    PANES = "-panes"


def layout_for(size: Size) -> Layout:
    """The layout for a window."""
    if size.width < SMALLEST[0] or size.height < SMALLEST[1]:
        return Layout.TOO_SMALL
    roomy = size.width >= ROOMY[0] and size.height >= ROOMY[1]
    return Layout.PANES if roomy else Layout.TABS


def panes_shown(layout: Layout, rows: int, chosen: int) -> set[int]:
    """Which of the panes 1 to 6 show in a window of so many rows when `chosen` was asked for.

    On a small screen one, the comparison below the knobs where there is room; else all, the log in place of
    the events.
    """
    if layout is Layout.TABS:
        return {1, 6} if chosen == 1 and rows >= LOW else {chosen}
    return {1, 2, 4, 5 if chosen == 5 else 3, 6}

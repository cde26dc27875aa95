"""The live screen's key bindings, and its layouts for small and large windows.

Each key undoes itself, or changes only the view, or asks first.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from textual.binding import Binding

from tfwatch.core.knobs import KNOBS
from tfwatch.screens.live.timeline.widget import KEYS, LOOK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.geometry import Size

SWITCH = Binding.Group("switch the input pipeline")
RUN = Binding.Group("the run")
ROWS = Binding.Group("in the focused pane")


def _keys(group: Binding.Group, *rows: tuple[str, str, str, str]) -> list[Binding]:
    """Make bindings of rows: the keys, the action, the keys on the screen, what they do."""
    return [
        Binding(keys, action, does, key_display=shown, tooltip=does, group=group, show=False)
        for keys, action, shown, does in rows
    ]


_DOCTOR = "doctor: is the installation right?"
LIVE_BINDINGS = [
    *_keys(
        SWITCH,
        *((knob.key, f"switch({name!r})", knob.key, knob.action) for name, knob in KNOBS.items()),
        ("plus,equals_sign", "deepen(1)", "+ =", "double the prefetch depth"),
        ("minus,underscore", "deepen(-1)", "- _", "halve the prefetch depth"),
        ("a", "experiment", "a", "A/B test of the selected knob, else prefetch: which is faster?"),
        ("f", "autopilot", "f", "autopilot: find the fastest settings by itself"),
        ("u", "undo", "u", "undo the last switch"),
    ),
    *(replace(binding, action=f"timeline({binding.action!r})") for binding in KEYS),
    *_keys(
        LOOK,
        ("left_square_bracket", "step(1)", "[", "jump to the previous event"),
        ("right_square_bracket", "step(-1)", "]", "jump to the next event"),
        ("enter", "open", "enter", "jump to the selected event, switch the selected knob"),
        ("n", "explain", "n", "missing sensors, and how to get them"),
        ("1", "pane(1)", "1", "the settings"),
        ("2", "pane(2)", "2", "the input pipeline, stage by stage"),
        ("3", "pane(3)", "3", "the events"),
        ("4", "pane(4)", "4", "the machine"),
        ("5", "pane(5)", "5", "the log"),
        ("6", "pane(6)", "6", "the effect of each switch"),
        ("7", "pane(7)", "7", "the learning curves"),
        ("S,upper_s", "stalls", "S", "the stalls, the worst first: a letter jumps to each"),
        ("tab", "next_pane(1)", "tab", "the next pane"),
        ("shift+tab", "next_pane(-1)", "shift+tab", "the previous pane"),
        ("slash", "filter", "/", "filter the events, or the log where it shows"),
        ("escape", "back", "escape", "close the filter, or leave the pane"),
        ("y", "copy", "y", "copy the code suggestion (while the training stops: quit now)"),
        ("d,D,upper_d", "app.doctor", "d D", _DOCTOR),
        ("question_mark", "help", "?", "keys and terms"),
        ("colon", "app.command_palette", ":", "search all commands (also ctrl+p)"),
    ),
    *_keys(
        RUN,
        ("s", "app.ask_stop", "s", "stop the training, keep the screen; asks first"),
        ("q", "app.quit", "q", "quit; asks while training runs (also ctrl+q, ctrl+c)"),
        ("ctrl+z", "no_suspend", "ctrl+z", "disabled: it would suspend the training too"),
    ),
]
#: The keys where another process trains: d leaves, and D alone is the doctor's.
ATTACHED_BINDINGS = [
    *(binding for binding in LIVE_BINDINGS if binding.action != "app.doctor"),
    *_keys(LOOK, ("D,upper_d", "app.doctor", "D", _DOCTOR)),
    *_keys(RUN, ("d", "app.detach", "d", "leave the screen; the training goes on")),
]
#: The panes' own keys, which the help lists too.
PANE_BINDINGS = _keys(
    ROWS,
    ("up,down", "", "up down", "move up or down a row"),
    ("pageup,pagedown", "", "pageup", "move up many rows (pagedown: down), in events and log"),
)


#: Columns and rows below which the screen shows no pane, and from which it shows all panes side by
#: side.
SMALLEST = (60, 18)
ROOMY = (100, 36)
#: Below LOW rows the first tab holds the settings alone; from TALL rows on a tab is larger. From
#: HUGE rows on the chart grows no more, and the lists do.
LOW, TALL, HUGE = 24, 32, 80


class Layout(Enum):
    """The arrangement of the panes: none, one in tabs, or all side by side."""

    TOO_SMALL = "-too-small"
    TABS = "-tabs"
    PANES = "-panes"


def layout_for(size: Size) -> Layout:
    """Return the layout for a window."""
    if size.width < SMALLEST[0] or size.height < SMALLEST[1]:
        return Layout.TOO_SMALL
    roomy = size.width >= ROOMY[0] and size.height >= ROOMY[1]
    return Layout.PANES if roomy else Layout.TABS


#: Panes that show in turn in a large window: events, machine, log or learning curves.
_LOWER = (3, 4, 5, 7)


def panes_shown(layout: Layout, size: Size, chosen: int, recent: Sequence[int]) -> set[int]:
    """Return the numbers of the panes that a window shows where `chosen` is selected.

    A small screen shows one pane, and the comparison below the settings where there is room. A
    large one shows the settings, the pipeline, the effect, and the lower pane that was chosen last.
    recent: all that were chosen, the newest last.
    """
    if layout is Layout.TABS:
        return {1, 6} if chosen == 1 and size.height >= LOW else {chosen}
    return {1, 2, 6, next((pane for pane in reversed(recent) if pane in _LOWER), _LOWER[0])}

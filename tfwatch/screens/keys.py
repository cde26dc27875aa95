"""The live screen's keys, those of them that the footer has room for, and its layouts for small and
large windows.

Each key undoes itself, or changes only the view, or asks first.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from textual.binding import Binding

from tfwatch.core.events import PipelineSwitched
from tfwatch.core.knobs import KNOBS, PREFETCH, knob_name
from tfwatch.judge.effects import knob_state
from tfwatch.screens.basics.keyline import ESSENTIAL_RANK, Key
from tfwatch.screens.live.header import header_view
from tfwatch.screens.live.timeline.widget import KEYS, LOOK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from textual.geometry import Size

    from tfwatch.judge.view import RunView

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
        ("a", "experiment", "a", "A/B test: is the selected knob, else prefetch, faster?"),
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


def footer_keys(
    view: RunView,
    live: bool,
    frozen: bool,
    stopping: bool,
    is_attached: bool = False,
    goes_back: bool = False,
) -> tuple[Key, ...]:
    """The footer's keys, from left to right; keys without effect now are disabled.

    A recorded run and a followed run have no keys that switch. is_attached: another process trains.
    goes_back: quitting shows the list that the run was opened from.
    """
    copies = stopping or bool(view.finding.edit)
    return (
        *(_switch_keys(view, stopping) if live and not view.is_over else ()),
        Key("space", "space", _space_word(view, frozen), chosen=frozen, rank=0 if frozen else 5),
        Key("z", "z", "zoom", rank=8),
        *((Key("S", "S", "stalls", rank=7),) if view.stalls else ()),
        Key("y", "y", "quit now" if stopping else "copy", copies, rank=0 if stopping else 9),
        *((Key("d", "d", "leave"),) if is_attached and not view.is_over else ()),
        Key("question_mark", "?", "keys"),
        Key("q", "q", "back" if goes_back else "quit"),
    )


def _switch_keys(view: RunView, stopping: bool) -> Iterator[Key]:
    can_switch = not stopping
    if not view.snapshot.manifest.switchable and not view.awaits_fit:
        return
    can_tune = can_switch and not view.awaits_fit
    yield from _knob_keys(view, can_switch)
    yield Key("f", "f", "autopilot", can_tune, rank=1, brief="auto")
    yield Key("a", "a", "A/B test", can_tune, rank=3, brief="A/B")
    yield Key("u", "u", "undo", can_switch, rank=ESSENTIAL_RANK)


def _knob_keys(view: RunView, can_switch: bool) -> Iterator[Key]:
    for knob in KNOBS.values():
        if not knob.in_footer or knob.name not in view.snapshot.manifest.knobs:
            continue
        is_enabled = not view.refusal(knob.name, can_switch)
        yield Key(knob.key, knob.key, knob.label, is_enabled, rank=knob.rank, brief=knob.brief)
        if knob.name == PREFETCH:
            yield Key("minus", "-", "", is_enabled, rank=8)
            yield Key("plus", "+", "depth", is_enabled, rank=6)


def _space_word(view: RunView, frozen: bool) -> str:
    if not frozen:
        return "freeze"
    return "end" if view.is_over else "live"


def banner_note(view: RunView, live: bool) -> str:
    """The note at the right of the banner: a key that helps now."""
    if view.is_over:
        return "y copies the code" if view.finding.edit else ""
    if not live:
        return "" if view.awaits_fit else "read only"
    if view.situation.experiment or view.situation.autopilot_run:
        return ""  # those switches are not the user's to undo
    undo = knob_state.find_undo(view.knobs, view.snapshot.events.of(PipelineSwitched))
    return f"u undo: {knob_name(undo[0])} back to {undo[1]}" if undo else ""


def too_small_text(view: RunView | None, width: int, height: int) -> str:
    """The text of a window that is too small for the panes."""
    text = f"{width}x{height}, needs {SMALLEST[0]}x{SMALLEST[1]}"
    if view is None:
        return text
    going = "run over" if view.is_over else "training goes on"
    facts = ", ".join(part for part in (header_view(view).epoch, view.finding.word) if part)
    return f"{text} - {going}: {facts}"


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


_LOG = 5
#: Panes that show in turn in a large window: events, machine, log or learning curves.
_LOWER = (3, 4, 5, 7)


def panes_shown(
    layout: Layout, size: Size, chosen: int, recent: Sequence[int], has_steps: bool
) -> set[int]:
    """Return the numbers of the panes that a window shows where `chosen` is selected.

    Before the first step the log has all the room, unless the user chooses another pane.

    A small screen shows one pane, and the comparison below the settings where there is room. A
    large one shows the settings, the pipeline, the effect, and the lower pane that was chosen last.
    recent: all that were chosen, the newest last.
    """
    if not has_steps and not recent:
        return {_LOG}
    if layout is Layout.TABS:
        return {1, 6} if chosen == 1 and size.height >= LOW else {chosen}
    return {1, 2, 6, next((pane for pane in reversed(recent) if pane in _LOWER), _LOWER[0])}

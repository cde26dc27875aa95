"""The live screen's keys, those of them that the footer has room for, and its layouts for small and
large windows.

Each key undoes itself, or changes only the view, or asks first.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from textual.binding import Binding

from tfwatch.core.knobs import KNOBS, PREFETCH, knob_name
from tfwatch.judge.profile.profiling import IN_COMPUTE
from tfwatch.screens.keyline import Key
from tfwatch.screens.live.header import epoch_text
from tfwatch.screens.live.knobs import find_testable_switch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.geometry import Size

    from tfwatch.judge.view import RunView

#: The numbers of the panes.
SETTINGS, STAGES, EVENTS, MACHINE, LOG, LOSS = range(1, 7)

SWITCH = Binding.Group("switch the input pipeline")
LOOK = Binding.Group("view")
RUN = Binding.Group("the run")
ROWS = Binding.Group("in the focused pane")


def _keys(group: Binding.Group, *rows: tuple[str, str, str, str]) -> list[Binding]:
    return [
        Binding(keys, action, does, key_display=shown, tooltip=does, group=group, show=False)
        for keys, action, shown, does in rows
    ]


def toggle_action(knob: str) -> str:
    """Return the action that switches a knob off, or back on."""
    return f"ask('toggle', {knob!r})"


LIVE_BINDINGS = [
    *_keys(
        SWITCH,
        *((knob.key, toggle_action(name), knob.key, knob.action) for name, knob in KNOBS.items()),
        ("plus,equals_sign", "ask('deepen', 1)", "+ =", "double the prefetch depth"),
        ("minus,underscore", "ask('deepen', -1)", "- _", "halve the prefetch depth"),
        ("a", "ask('toggle_experiment')", "a", "A/B test of the newest switch, else prefetch"),
        ("f", "ask('toggle_autopilot')", "f", "autopilot: find the fastest settings by itself"),
        ("k", "ask('switch_to_kept')", "k", "what the autopilot found for this script before"),
        ("u", "ask('undo')", "u", "undo the last switch"),
    ),
    *_keys(
        LOOK,
        ("space", "timeline('freeze')", "space", "freeze the charts, or follow again"),
        ("left", "timeline('look(-1)')", "left", "move back by half a window"),
        ("right", "timeline('look(1)')", "right", "move forward by half a window"),
        ("end", "timeline('live')", "end", "follow the run again"),
        (
            "z",
            "timeline('zoom')",
            "z",
            "zoom out, up to the whole run; then to the seconds again",
        ),
        ("e", "explain", "e", "profile a few steps: which layer, metric or optimizer takes them?"),
        ("1", "pane(1)", "1", "the settings, and the effect of the newest switch"),
        ("2", "pane(2)", "2", "the input pipeline, stage by stage"),
        ("3", "pane(3)", "3", "the events"),
        ("4", "pane(4)", "4", "the machine"),
        ("5", "pane(5)", "5", "the log"),
        ("6", "pane(6)", "6", "the learning curves"),
        ("escape", "back", "escape", "leave the pane"),
        (
            "y",
            "copy",
            "y",
            "show and copy the proved patch, or the suggestion (stopping: quit now)",
        ),
        ("d", "app.doctor", "d", "doctor: is the installation right?"),
        ("question_mark", "help", "?", "keys, terms, and what is n/a here"),
    ),
    *_keys(
        RUN,
        ("s", "app.ask_stop", "s", "stop the training, keep the screen; asks first"),
        ("q", "app.quit", "q", "quit; asks while training runs (also ctrl+q, ctrl+c)"),
        ("ctrl+z", "app.no_suspend", "ctrl+z", "disabled: it would suspend the training too"),
    ),
]
#: The panes' own keys, which the help lists too.
PANE_BINDINGS = _keys(
    ROWS,
    ("up,down", "", "up down", "move up or down a row; the charts show its event"),
    ("pageup,pagedown", "", "pageup", "move up many rows (pagedown: down), in events and log"),
    ("enter", "", "enter", "the whole sentence of an event"),
)


#: The keys of a list that has the focus.
_IN_LIST = (
    Key("up", "↑", ""),
    Key("down", "↓", "rows"),
    Key("pagedown", "pagedown", "more rows", 6),
)
_BACK = Key("escape", "escape", "back")


def footer_keys(
    view: RunView,
    live: bool,
    frozen: bool,
    stopping: bool,
    *,
    focus: int = 0,
    all_settings: bool = True,
) -> tuple[Key, ...]:
    """The footer's keys that have an effect now, from left to right: those of the pane that has the
    focus, else the advised switch, or with all settings each.

    A recorded run and a followed run have no keys that switch. focus: the number of the pane.
    """
    switches = live and not view.is_over and not stopping
    space = "freeze" if not frozen else "end" if view.is_over else "live"
    copies = "patch" if view.has_patch else "copy"
    copy = Key("y", "y", "quit now" if stopping else copies, 0 if stopping else 7)
    if focus in (EVENTS, LOG):
        whole = (Key("enter", "enter", "the whole sentence", 4),) if focus == EVENTS else ()
        own = (*_IN_LIST, *whole, _BACK)
    else:
        own = tuple(_switch_keys(view, all_settings=all_settings) if switches else ())
    look = (Key("left", "←", ""), Key("right", "→", "look", 4)) if frozen else ()
    return (
        *own,
        Key("space", "space", space, 0 if frozen else 5, chosen=frozen),
        *look,
        Key("z", "z", "zoom", 8),
        *((Key("e", "e", "layers", 5),) if _is_for_layers(view, switches) else ()),
        *((copy,) if stopping or view.has_patch or view.finding.code else ()),
        Key("question_mark", "?", "keys"),
        Key("q", "q", "quit"),
    )


def _is_for_layers(view: RunView, switches: bool) -> bool:
    """Return whether a profile is worth a key: it is there, or compute is the limit."""
    limit = view.losses[0].kind if view.losses else ""
    return view.situation.profile is not None or (switches and limit in IN_COMPUTE)


def _switch_keys(view: RunView, *, all_settings: bool) -> Iterator[Key]:
    for knob in KNOBS.values():
        manifest = view.snapshot.manifest
        is_offered = not view.refusal(knob.name, live=True) or manifest.needs_consent(knob.name)
        is_shown = all_settings or view.finding.advises(knob)
        if knob.name in manifest.knobs and is_offered and is_shown:
            yield Key(knob.key, knob.key, knob.label, knob.rank)
            if key := _depth_key(view, knob.name):
                yield Key("plus" if key == "+" else "minus", key, "depth", knob.rank)
    if not all_settings:
        yield Key("1", "1", "settings", 2)
    if view.snapshot.manifest.switchable and not view.run_refusal(live=True):
        yield Key("f", "f", "autopilot", 3)
        if all_settings:
            switch = find_testable_switch(view)
            tested = knob_name(switch.knob if switch else PREFETCH)
            yield Key("a", "a", "A/B test", 6, more=f" of {tested}")
        if view.comparisons:
            yield Key("u", "u", "undo", 4)


def _depth_key(view: RunView, knob: str) -> str:
    """Return `+` or `-` where the advice begins with it: the footer has each key that the banner
    names."""
    key, _, rest = view.finding.advice.partition(" ")
    return key if knob == PREFETCH and rest and key in ("+", "-") else ""


def too_small_text(view: RunView, width: int, height: int) -> str:
    """The text of a window that is too small for the panes."""
    text = f"{width}x{height}, needs {SMALLEST[0]}x{SMALLEST[1]}"
    going = "run over" if view.is_over else "training goes on"
    facts = ", ".join(part for part in (epoch_text(view), view.finding.word) if part)
    return f"{text} - {going}: {facts}"


#: Columns and rows below which the screen shows no pane, and from which it shows all panes side by
#: side.
SMALLEST = (60, 18)
ROOMY = (100, 36)


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


#: Panes that show in turn in a large window.
LOWER = (EVENTS, MACHINE, LOG, LOSS)


def panes_shown(size: Size, chosen: int, lower: int, has_steps: bool) -> set[int]:
    """Return the numbers of the panes that a window shows where `chosen` is selected; 0: none was.

    Before the first step the log has all the room, unless the user chose another pane. A small
    screen shows one pane, a large one the settings, the pipeline, and the lower pane that was
    chosen last.
    """
    if not has_steps and not chosen:
        return {LOG}
    if layout_for(size) is Layout.PANES:
        return {SETTINGS, STAGES, lower}
    return {chosen or SETTINGS}

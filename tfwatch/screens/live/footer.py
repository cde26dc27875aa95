"""The footer's keys, the note in the banner, and the text of a window that is too small."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core.events import PipelineSwitched
from tfwatch.core.knobs import KNOBS, PREFETCH, knob_name
from tfwatch.judge.effects import knob_state
from tfwatch.screens.basics.keyline import ESSENTIAL_RANK, Key
from tfwatch.screens.keys import SMALLEST
from tfwatch.screens.live.header import header_view

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfwatch.judge.view import RunView


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

"""What is told at the screen's edges: the footer's keys, the one beside the finding, a window too small."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.analysis import turns
from tfwatch.core.events import PipelineSwitched
from tfwatch.core.knobs import knob_name
from tfwatch.screens import views
from tfwatch.screens.knobkeys import KNOB_KEYS, PREFETCH
from tfwatch.screens.layout import SMALLEST
from tfwatch.screens.refusals import has_knob, refusal
from tfwatch.widgets.keyline import LAST_TO_GO, Key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfwatch.live.view import RunView
    from tfwatch.screens.meter import OwnCost

#: Columns from which there is room for what tfwatch costs in words, and for what it left out.
_USUAL, _WIDE = 120, 160


def footer_keys(view: RunView, live: bool, frozen: bool, stopping: bool) -> tuple[Key, ...]:
    """The footer's keys, from left to right; those that do nothing now are greyed.

    Where nothing obeys them, in a record and where a run is followed, keys that turn or restart do not stand there.
    """
    copies = stopping or bool(view.finding.edit)
    return (
        *(_turning(view, stopping) if live and not view.is_over else ()),
        Key("space", "space", _space(view, frozen), chosen=frozen, rank=0 if frozen else 5),
        Key("z", "z", "zoom", rank=8),
        Key("y", "y", "leave now" if stopping else "copy", copies, rank=0 if stopping else 9),
        *((Key("r", "r", "restart", not stopping, rank=6),) if live else ()),
        Key("question_mark", "?", "keys"),
        Key("q", "q", "leave"),
    )


def cost_note(cost: OwnCost | None, width: int) -> str:
    """What tfwatch itself costs, shorter where the line is short; empty before that is known."""
    if cost is None:
        return ""
    if width >= _WIDE:
        return cost.words
    if width >= _USUAL:
        return cost.brief
    return cost.share if cost.is_whole else f"screen {cost.share}"


def _turning(view: RunView, stopping: bool) -> Iterator[Key]:
    obeyed = not stopping
    turns = obeyed and bool(view.snapshot.manifest.switchable)
    yield from _knobs(view, obeyed)
    yield Key("f", "f", "feed", turns, rank=1)
    yield Key("a", "a", "prove", turns, rank=3)
    yield Key("u", "u", "undo", obeyed, rank=LAST_TO_GO)


def _knobs(view: RunView, obeyed: bool) -> Iterator[Key]:
    for one in KNOB_KEYS:
        if not one.in_footer or not has_knob(view.snapshot, one.knob):
            continue
        turns_it = not refusal(view.snapshot, one.knob, obeyed)
        yield Key(one.key, one.key, one.name, turns_it, rank=one.rank, brief=one.brief)
        if one is PREFETCH:
            yield Key("minus", "-", "", turns_it, rank=8)
            yield Key("plus", "+", "depth", turns_it, rank=6)


def _space(view: RunView, frozen: bool) -> str:
    if not frozen:
        return "freeze"
    return "its end" if view.is_over else "live"


def help_now(view: RunView, live: bool) -> str:
    """What stands beside the finding's word."""
    if view.is_over:
        return "y copies the lines" if view.finding.edit else ""
    if not live:
        return "read only"
    if view.situation.experiment or view.situation.flight:
        return ""  # its own switches: the key that ends it stands below
    undo = turns.undone(view.knobs, view.snapshot.events.of(PipelineSwitched))
    return f"u undoes: {knob_name(undo[0])} back to {undo[1]}" if undo else ""


def too_small(view: RunView | None, width: int, height: int) -> str:
    """What a window says that is too small for anything else."""
    text = f"{width}x{height}, needs {SMALLEST[0]}x{SMALLEST[1]}"
    if view is None:
        return text
    going = "run over" if view.is_over else "training goes on"
    facts = ", ".join(part for part in (views.header_view(view).epoch, view.finding.word) if part)
    return f"{text} - {going}: {facts}"

"""The keys that turn a knob: said once, for the bindings, the footer, the knobs' pane and what undoes a press."""

from __future__ import annotations

from dataclasses import dataclass

from tfwatch.core.knobs import KEYS


@dataclass(frozen=True, slots=True)
class KnobKey:
    """A key, as Textual names it, that turns a knob off and on again.

    name: of the knob, in a word. does: what the key does, for the help. purpose: what the knob is; empty where the run
    itself says that. rank: the highest goes first where room is short, in the footer and among the pane's rows.
    in_footer: it stands there too. brief: its name where the footer is short; empty where that is short enough.
    """

    key: str
    knob: str
    name: str
    does: str
    purpose: str
    rank: int
    in_footer: bool = True
    brief: str = ""


PREFETCH = KnobKey(
    KEYS["prefetch"], "prefetch", "prefetch", "prefetch off, or back on", "made while a step runs", 0, brief="pre"
)
#: Each has a row in the knobs' pane; that of prefetch is followed by its depth.
KNOB_KEYS = (
    PREFETCH,
    KnobKey(KEYS["workers"], "workers", "workers", "workers off, or back on", "maps on several cores", 1, brief="work"),
    KnobKey(KEYS["cache"], "cache", "cache", "cache what was made of each example, or forget it", "", 2),
    KnobKey(KEYS["fast_form"], "fast_form", "form", "the pipeline's fast form, or the slow one again", "", 2),
    KnobKey(
        KEYS["latency_ms"], "latency_ms", "latency", "simulated latency off, or back on", "simulated, each batch", 7
    ),
    KnobKey(
        KEYS["shuffle"],
        "shuffle",
        "shuffle",
        "shuffle off, or back on, from the next epoch on",
        "examples in its buffer",
        8,
        False,
    ),
)


def undoes(knob: str) -> str:
    """The key that takes a knob's switch back: its own."""
    return next(one.key for one in KNOB_KEYS if one.knob == knob)

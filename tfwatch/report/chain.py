"""A restart and its gain, in words and for the JSON object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.analysis import comparing
from tfwatch.analysis.restarts import changes
from tfwatch.core import units
from tfwatch.core.knobs import spelt
from tfwatch.live.restart import start_of

if TYPE_CHECKING:
    from tfwatch.analysis.restarts import Earlier, Restart
    from tfwatch.runs.format import Manifest


def beginning(earlier: Earlier, manifest: Manifest) -> str:
    """What a run says of the restart that it begins with."""
    return f"restarted after {earlier.run}: {comparing.turned(changes(earlier.start, start_of(manifest)))}"


def restart_words(gave: Restart | None) -> str:
    """What the restart gave that began a run, in a line; empty where none did."""
    if gave is None:
        return ""
    turned = f"restarted, {comparing.turned(gave.changes)}"
    if gave.ratio is None or gave.before is None or gave.after is None:
        return f"{turned}: too few steps to compare"
    sides = " to ".join(comparing.duration(gave, gave.typical(side.step)) for side in (gave.before, gave.after))
    return f"{turned}: {comparing.gave(gave, gave.ratio)}, {sides} over {units.count(gave.after.steps)} steps"


def restart_json(gave: Restart | None) -> dict[str, Any] | None:
    """The restart that began a run, as `--json` prints it."""
    if gave is None:
        return None
    return {
        "after": gave.run,
        "changes": [{"knob": spelt(one.knob), "from": one.old, "to": one.new} for one in gave.changes],
        "of": "image" if gave.per_image else "step",
        "before_ms": gave.typical(gave.before.step) if gave.before else None,
        "after_ms": gave.typical(gave.after.step) if gave.after else None,
    }

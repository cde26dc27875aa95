"""A run and the run that was restarted as it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.analysis import comparing
from tfwatch.analysis.restarts import Earlier, Restart, Start, changes, earlier_run, restart
from tfwatch.core import units
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.knobs import spelt
from tfwatch.runs.earlier import find_earlier

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.runs.format import Manifest
    from tfwatch.runs.opened import Run


def earlier_of(manifest: Manifest, folder: Path | None, clock: Clock = SYSTEM) -> Earlier | None:
    """What the run before a restart comes to; None where there is none, or it cannot be read any more."""
    run = find_earlier(manifest, folder, clock)
    return earlier_run(run.manifest.run, start_of(run.manifest), run.steps, run.events) if run else None


def start_of(manifest: Manifest) -> Start:
    """What a run trained with at its start."""
    return Start(manifest.settings, manifest.knobs, manifest.batch_size)


def beginning(earlier: Earlier, manifest: Manifest) -> str:
    """What a run says of the restart that it begins with."""
    return f"restarted after {earlier.run}: {comparing.turned(changes(earlier.start, start_of(manifest)))}"


def restart_of(run: Run) -> Restart | None:
    """What the restart gave that began a run; None where it is not known from what."""
    earlier = earlier_of(run.manifest, run.path)
    if earlier is None:
        return None
    start, count = start_of(run.manifest), len(run.steps)
    return restart(earlier, start, run.events, count, lambda first, last: run.steps[first - 1 : last])


def restart_words(run: Run) -> str:
    """What the restart gave that began a run, in a line; empty where none did."""
    gave = restart_of(run)
    if gave is None:
        return ""
    turned = f"restarted, {comparing.turned(gave.changes)}"
    if gave.ratio is None or gave.before is None or gave.after is None:
        return f"{turned}: too few steps to compare"
    sides = " to ".join(comparing.duration(gave, gave.typical(side.step)) for side in (gave.before, gave.after))
    return f"{turned}: {comparing.gave(gave, gave.ratio)}, {sides} over {units.count(gave.after.steps)} steps"


def restart_json(run: Run) -> dict[str, Any] | None:
    """The restart that began a run, as `--json` prints it."""
    gave = restart_of(run)
    if gave is None:
        return None
    return {
        "after": gave.run,
        "changes": [{"knob": spelt(one.knob), "from": one.old, "to": one.new} for one in gave.changes],
        "of": "image" if gave.per_image else "step",
        "before_ms": gave.typical(gave.before.step) if gave.before else None,
        "after_ms": gave.typical(gave.after.step) if gave.after else None,
    }

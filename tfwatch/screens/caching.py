"""What the cache needs, against what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.knobs import CACHE_SHARE

if TYPE_CHECKING:
    from tfwatch.analysis.turns import KnobState
    from tfwatch.runs.reader import Snapshot


def note(snapshot: Snapshot, state: KnobState) -> str:
    """`needs 338 MB of 16.2 GB`, or `keeps 338 MB` where it is on; empty before the data set is known."""
    needs = snapshot.manifest.cache_bytes
    if needs is None:
        return ""
    if state.coming == "on":
        return f"keeps {units.memory(needs)}"
    return f"needs {units.memory(needs)} of {units.memory(_available(snapshot))}"


def short(snapshot: Snapshot, state: KnobState) -> str:
    """`, 338 MB`: what it needs, behind its forecast; empty where that is not known, or it is on."""
    needs = snapshot.manifest.cache_bytes
    return "" if needs is None or state.coming == "on" else f", {units.memory(needs)}"


def refused(snapshot: Snapshot, state: KnobState) -> str:
    """`needs 4.1 GB, 6.2 GB are free`: why it cannot be turned on; empty where it can."""
    needs, free = snapshot.manifest.cache_bytes, _available(snapshot)
    if state.coming == "on" or needs is None or free is None or needs <= CACHE_SHARE * free:
        return ""
    return f"needs {units.memory(needs)}, {units.memory(free)} are free"


def _available(snapshot: Snapshot) -> float | None:
    return float(snapshot.samples[-1]["memory_available_bytes"]) if len(snapshot.samples) else None

"""What the cache needs, against what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units

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
    return f"needs {units.memory(needs)} of {units.memory(available_bytes(snapshot))}"


def short(snapshot: Snapshot, state: KnobState) -> str:
    """`, 338 MB`: what it needs, behind its forecast; empty where that is not known, or it is on."""
    needs = snapshot.manifest.cache_bytes
    return "" if needs is None or state.coming == "on" else f", {units.memory(needs)}"


def available_bytes(snapshot: Snapshot) -> float | None:
    """The memory that is free, by the newest sample; None before there is one."""
    return float(snapshot.samples[-1]["memory_available_bytes"]) if len(snapshot.samples) else None

"""Which knobs a run has, and why one is not turned now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core.refusals import LACKING, NoRoom, Refusal, no_room
from tfwatch.runs.reader import Life
from tfwatch.screens.caching import available_bytes

if TYPE_CHECKING:
    from tfwatch.analysis.turns import KnobState
    from tfwatch.runs.reader import Snapshot


def has_latency(snapshot: Snapshot) -> bool:
    """Whether simulated storage latency was asked for at the run's start."""
    asked = snapshot.manifest.settings.get("storage_latency_ms")
    return bool(asked) or snapshot.manifest.knobs.get("latency_ms", "off") != "off"


def has_knob(snapshot: Snapshot, knob: str) -> bool:
    """Whether a run has a knob; simulated latency only where it was asked for."""
    return knob in snapshot.manifest.knobs and (knob != "latency_ms" or has_latency(snapshot))


def lacking(snapshot: Snapshot, knob: str) -> Refusal | None:
    """Why a run's workload lacks a knob; None where it does not, or its pipeline is a script's own."""
    if knob == "latency_ms" and not has_latency(snapshot):
        return Refusal.NO_LATENCY
    return LACKING.get(knob) if knob in ("fast_form", "cache") and not has_knob(snapshot, knob) else None


def refusal(snapshot: Snapshot, knob: str, live: bool, ending: bool = False) -> Refusal | None:
    """Why a knob is not turned; None where it can be. live: keys are obeyed; ending: a stop was asked for."""
    if snapshot.ended or snapshot.life is Life.KILLED:
        return Refusal.RUN_IS_OVER
    if ending:
        return Refusal.RUN_IS_ENDING
    if not live:
        return Refusal.READ_ONLY
    return None if knob in snapshot.manifest.switchable else Refusal.FIXED


def cache_refusal(snapshot: Snapshot, state: KnobState) -> NoRoom | None:
    """Why a cache is not turned on for want of memory; None where it can be, or is on already."""
    return None if state.coming == "on" else no_room(snapshot.manifest.cache_bytes, available_bytes(snapshot))

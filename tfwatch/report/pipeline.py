"""The input pipeline from inside, as the JSON object and the summary tell it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tfwatch.analysis.machine import PIPELINE
from tfwatch.core.events import SensorMissing, StallLocated

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tfwatch.analysis.stages import Bottleneck, Stage, StageTable
    from tfwatch.analysis.stalls import Stall
    from tfwatch.core.events import Event

_FIGURES = ("busy_ms", "parallelism", "buffered", "buffer_size", "buffered_bytes")


def pipeline_json(table: StageTable | None, events: Iterable[Event]) -> dict[str, Any]:
    """A run's last table for `--json`; without a figure in it `missing` says why, where that is known."""
    reasons = [event.reason for event in events if isinstance(event, SensorMissing) and event.sensor == PIPELINE]
    missing = reasons[-1] if reasons else None
    if table is None:
        return {"stages": [], "all_ms": None, "bottleneck": None, "missing": missing}
    return {
        "stages": [_stage(stage) for stage in table.stages],
        "all_ms": table.all_ms,
        "bottleneck": _bottleneck(table, table.bottleneck) if table.bottleneck else None,
        "missing": missing if math.isnan(table.all_ms) else None,
    }


def stood_words(stall: Stall, events: Iterable[Event]) -> str:
    """`, in map(read), feed.py:41 in rows`: where a stall stood; empty where nobody looked."""
    steps = range(stall.step, stall.step + stall.steps)
    told = next((event for event in events if isinstance(event, StallLocated) and event.step in steps), None)
    if told is None:
        return ""
    place = told.place if told.thread == "generator" or not told.stage else ""
    return "".join(f", in {words}" for words in (told.stage,) if words) + (f", at {place}" if place else "")


def _bottleneck(table: StageTable, place: Bottleneck) -> dict[str, Any]:
    return {"stage": table.stages[place.stage].name, "reason": place.reason, "sentence": place.sentence}


def _stage(stage: Stage) -> dict[str, Any]:
    return {"name": stage.name, "kind": stage.kind, **{name: getattr(stage, name) for name in _FIGURES}}

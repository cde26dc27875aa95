"""Cheap maps over single elements: their calls cost more than their work.

Remedy: `.batch(n)` before the map, with a function of whole batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core.knobs import WORKERS
from tfwatch.judge.findings.finding import Finding
from tfwatch.judge.findings.stalls import stepped_s, waited_s

if TYPE_CHECKING:
    from tfwatch.judge.findings.situation import Situation
    from tfwatch.judge.stages import Stage, StageTable

#: tf.data takes about so long to call a map's function, for an example as for a batch: 22 us on one
#: of two cores.
_CALL_MS = 0.02
#: The calls are worth saving where they are this share of the time that a map takes for an example.
_LEAST_CALL = 0.3
#: Of smaller batches the calls are few.
LEAST_BATCH = 8


def find(now: Situation) -> Finding | None:
    """Find the data wait for the calls of cheap maps before the batch."""
    table = now.stages
    size = batch_size(table, now.manifest.batch_size)
    if table is None or size is None or not (maps := cheap_maps(table, size)):
        return None
    supply_ms = sum(stage.batch_ms for stage in table.stages if stage.batch_ms > 0)
    share = min(1.0, sum(stage.batch_ms for stage in maps) / supply_ms) if supply_ms > 0 else 0.0
    lost_s = waited_s(now) * share
    named = dict.fromkeys(stage.name.partition(",")[0] for stage in maps)
    names = " and ".join(named) if len(named) == len(maps) else f"{len(maps)} maps"
    place, its = _place(now, table), "its" if len(maps) == 1 else "their"
    at = f" at {place}" if place else ""
    brief = f"each example takes {1e3 * sum(stage.busy_ms for stage in maps) / size:.0f} us"
    return Finding(
        "cheap-maps",
        now.label("STARVING", lost_s, stepped_s(now)),
        f"{brief}: {names}{at}, most of it for {its} calls",
        f".batch({size}) before the map, with a function of whole batches (vectorized):"
        f" {size} calls a batch become one",
        f"# {place or names}:\n# .batch({size}) before the map, whose function gets whole batches",
        brief=brief,
        where=place or maps[0].name,
        claims={"data_wait_s": lost_s},
    )


def _place(now: Situation, table: StageTable) -> str:
    """Return the script's line with the first map, `train.py:24`; empty where it is not known, or
    some maps come after the batch."""
    names = [stage.name for stage in table.stages]
    at = next(n for n, name in enumerate(names) if "batch" in name)
    if any("map" in name for name in names[at + 1 :]):
        return ""
    maps = [one for one in now.manifest.code if one.knob == WORKERS and ".map(" in one.text]
    first = min(maps, key=lambda one: one.line, default=None)
    return first.place if first and len({one.file for one in maps}) == 1 else ""


def batch_size(table: StageTable | None, known: int | None) -> int | None:
    """Return the elements in a batch: of the manifest, else the number in the stage's name."""
    names = [part for stage in (table.stages if table else ()) for part in stage.name.split(", ")]
    sizes = (name[len("batch(") : -1] for name in names if name.startswith("batch("))
    return known or next((int(size) for size in sizes if size.isdigit()), None)


def cheap_maps(table: StageTable, size: int) -> list[Stage]:
    """Return the maps before the batch whose calls cost a good part of their time."""
    at = next((n for n, stage in enumerate(table.stages) if "batch" in stage.name), None)
    if size < LEAST_BATCH or at is None:
        return []
    return [
        stage
        for stage in table.stages[: at + 1]
        if stage.name.startswith("map")
        and not (stage.calls_python or stage.reads_files)
        and 0 < stage.busy_ms <= _CALL_MS * size / _LEAST_CALL
    ]

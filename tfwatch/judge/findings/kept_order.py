"""A slow element holds up the ones behind it: a parallel map keeps their order.

Remedy: `deterministic=False` on the map: the same elements in another order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.findings.finding import Finding
from tfwatch.judge.findings.stalls import stepped_s, waited_s
from tfwatch.judge.forecasts.evidence import cores_of

if TYPE_CHECKING:
    from tfwatch.judge.findings.situation import Situation
    from tfwatch.judge.stages import Stage, StageTable

#: The map's calls would supply batches in at most this share of a step, if none held up another.
_FAST_ENOUGH = 0.4
#: The mean step over the median one, from which on single elements hold up the others; a busy
#: machine makes it up to 1.8.
_HELD_UP = 2.5
_ADVICE = (
    "deterministic=False on the map: batches then come in another order, with the same elements"
)
_CODE = (
    "dataset = dataset.map(function, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False)"
    "  # changes the order"
)


def find(now: Situation) -> Finding | None:
    """Find the data wait for single slow elements."""
    part, slow = now.split, _slowest_map(now.stages)
    if part is None or slow is None or part.step.mean < _HELD_UP * part.step.median:
        return None
    # Calls of a map need a thread each.
    threads = now.manifest.pipeline_threads or cores_of(now.manifest)
    workers = max(min(slow.parallelism, threads), 1.0)
    supply_ms = max(slow.busy_ms / workers, part.work_mean_ms)
    if not supply_ms <= _FAST_ENOUGH * part.step.mean:
        return None
    lost_s = waited_s(now) * (part.step.mean - supply_ms) / part.wait.mean
    mean, typical = units.in_one_unit(part.step.mean, part.step.median)
    brief = f"some elements of {slow.name} take long, and others wait for them"
    return Finding(
        "kept-order",
        now.label("STARVING", lost_s, stepped_s(now)),
        f"{brief}: a step takes {mean} in the mean, {typical} in the median",
        _ADVICE,
        _CODE,
        brief=brief,
        where=slow.name,
        claims={"data_wait_s": lost_s},
    )


def _slowest_map(table: StageTable | None) -> Stage | None:
    """Return the parallel map that takes most; None without one."""
    maps = [
        stage
        for stage in (table.stages if table else ())
        if "Map" in stage.kind and stage.is_parallel and stage.busy_ms > 0
    ]
    return max(maps, key=lambda stage: stage.batch_ms, default=None)

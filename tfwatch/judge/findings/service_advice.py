"""The workers of a tf.data service that a run needs whose work exceeds this machine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.core.stage_kinds import code_kinds, count_moving, why_not_moving
from tfwatch.judge.effects.switch_text import best
from tfwatch.judge.findings.situation import SourceKind
from tfwatch.judge.steps.verdict import Bound

if TYPE_CHECKING:
    from tfwatch.judge.findings.bottleneck import Stage, StageTable
    from tfwatch.judge.findings.situation import Situation
    from tfwatch.judge.steps.verdict import Breakdown

#: The work of a batch in a worker over that in the training's process: least, expected, most.
_WORK = (0.9, 1.05, 1.3)
#: In which a worker sends an element: 0.5 ms on two busy cores, of 1 B as of 150 kB.
_SENDING_MS = (0.1, 0.4, 0.8)
#: Of a core, in which the training takes an element: 0.25 to 0.35 ms on two busy cores.
_TAKING_MS = 0.25
#: The elements of a batch of unknown size, as in a forecast of a switch.
_BATCH = 32
_SOURCE = "Source"


@dataclass(frozen=True, slots=True)
class WorkerCount:
    """The workers that end the starving."""

    likely: int
    #: The 90 % prediction interval.
    low: int
    high: int

    @property
    def words(self) -> str:
        """`3 (2 to 4) workers`; without the interval where that is one number."""
        interval = f" ({self.low} to {self.high})" if self.low < self.high else ""
        return f"{self.likely}{interval} worker{'s' * (self.high != 1)}"


def forecast_workers(supply_ms: float, rest_ms: float, batch_size: int) -> WorkerCount | None:
    """Return the forecast; None where the step does not wait, or a time is not known.

    supply_ms: in which a machine like this one makes a batch.
    rest_ms: compute and host time of a step.
    """
    if not (0 < rest_ms < supply_ms < math.inf):
        return None
    costs = (
        supply_ms * work + batch_size * sending
        for work, sending in zip(_WORK, _SENDING_MS, strict=True)
    )
    low, likely, high = (math.ceil(cost / rest_ms) for cost in costs)
    return WorkerCount(likely, low, high)


def service_workers(now: Situation) -> WorkerCount | None:
    """Return the workers on other machines that a run needs; None where this one can do more."""
    part, table = now.setting.judgement.breakdown, now.setting.stages
    if part is None or table is None or now.setting.judgement.bound is not Bound.INPUT:
        return None
    if not _can_move(now, table) or _has_order_kept(now, table, part):
        return None
    # Behind a buffer the pipeline works all of a step.
    supply_ms, size = part.step.mean, now.manifest.batch_size or _BATCH
    if not _exceeds_machine(now, table, supply_ms, part.work_mean_ms, size):
        return None
    return forecast_workers(supply_ms, part.work_mean_ms, size)


def _can_move(now: Situation, table: StageTable) -> bool:
    """Return whether the pipeline can run in workers."""
    is_fit = not now.has_own_loop and len(now.manifest.replicas) <= 1
    is_tf_data = now.origin.kind in (SourceKind.TF_DATA, SourceKind.UNKNOWN)
    is_served = any(stage.is_service for stage in table.stages)
    return is_fit and is_tf_data and not is_served and _stages_move(table.stages)


def _stages_move(stages: tuple[Stage, ...]) -> bool:
    kinds = [code_kinds(stage.kind.partition(" ")[0]) for stage in stages]
    moving = count_moving(kinds)
    return any("Map" in part for part in kinds[:moving]) and not any(
        stage.calls_python or any(map(why_not_moving, _below_batch(part)))
        for stage, part in zip(stages[:moving], kinds, strict=False)
    )


def _below_batch(kinds: tuple[str, ...]) -> tuple[str, ...]:
    """Return the kinds that move: no batch fused with a map, no source without stages."""
    if kinds == (_SOURCE,):
        return ()
    return kinds[:1] if kinds[-1:] == ("Batch",) else kinds


def _has_order_kept(now: Situation, table: StageTable, part: Breakdown) -> bool:
    """Return whether a change that keeps the order comes first, or no stage explains the wait."""
    place = table.bottleneck
    return (
        place is None
        or place.reason == "storage"
        or table.is_ahead(part.work_mean_ms)
        or not _overlaps(table)
        or best(now.setting.forecasts.values()) is not None
    )


def _exceeds_machine(
    now: Situation, table: StageTable, supply_ms: float, rest_ms: float, size: int
) -> bool:
    """Return whether a batch is more work than all cores do in a step, and worth the sending."""
    own = table.wait_cores if table.wait_cores > 0 else table.all_ms / table.rate_ms
    cores, work_ms = own + now.setting.cores_free, own * supply_ms
    is_worth_sending = work_ms > size * (_SENDING_MS[1] + _TAKING_MS)
    can_take = size * _TAKING_MS < max(cores, 1.0) * rest_ms
    return work_ms > cores * rest_ms and is_worth_sending and can_take


def _overlaps(table: StageTable) -> bool:
    return table.is_prefetched or table.stages[-1].is_parallel

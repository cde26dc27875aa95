"""The cores that steps and the preparation of batches share: what a remedy gives back that frees
some of them, or that uses idle ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tfwatch.judge.forecasts.evidence import cores_of
from tfwatch.judge.forecasts.predict import PARALLEL_LOSS
from tfwatch.judge.stages import FETCH_MS

if TYPE_CHECKING:
    from tfwatch.judge.findings.situation import Situation
    from tfwatch.judge.steps.steady_steps import Breakdown

#: The share of a serial stage's work that other cores take over where it computes and the idle ones
#: are not known: on two cores 0.9 in three maps, on two threads of one core half or two thirds.
_SHARED = 0.75
#: The least share that they save: a wait does not read as compute.
_LEAST_SHARED = 0.1


def compute_beside(now: Situation) -> float:
    """Return the seconds of compute on the CPU that batches have in the prefetch work: where steps
    find no batch, it never pauses. 0.0 where it pauses, or where that is not known."""
    part, table = now.split, now.stages
    waits = part is not None and part.wait.median > FETCH_MS
    works = waits and table is not None and table.is_prefetched and not now.manifest.accelerated
    return now.regime.spent.compute_s if works else 0.0


def saved_by_cores(now: Situation, part: Breakdown, cores: int) -> float:
    """Return the share of a step that all cores save of a serial stage which computes: the work
    stays the same, so no more than their idle share, by the machine's figures and by those of the
    step. Other programs leave some of theirs."""
    if math.isnan(now.cores_free) or now.others.matters:
        idle = _SHARED * (1 - 1 / cores)
    else:
        idle = 1 - PARALLEL_LOSS * (1 - min(now.cores_free / cores, 1.0))
    of_map_ms = PARALLEL_LOSS * now.stages.all_ms if now.stages else 0.0
    of_step_ms = 0.0 if now.manifest.accelerated else part.work_mean_ms
    return max(_LEAST_SHARED, min(idle, 1 - (of_map_ms + of_step_ms) / (cores * part.step.mean)))


def share_of_workers(now: Situation) -> float:
    """Return the share of the cores that the workers of the stages take from steps which use them
    all.

    On two cores with two workers it is half; of five runs there, a kept cache, which leaves them no
    work, gave back 0.4 to 0.7 of compute.
    """
    stages, cores = now.stages.stages if now.stages else (), cores_of(now.manifest)
    workers = min(cores, max((stage.workers for stage in stages), default=0.0))
    return workers / (workers + cores)


def hidden_beside_steps(now: Situation) -> float:
    """Return the share of a step's own work that would run beside the steps, on cores that are
    free. Two trainings that used both cores took 1.2 and 1.5 times as long with a map."""
    return 0.0 if math.isnan(now.cores_free) else min(1.0, now.cores_free)

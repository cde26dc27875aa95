"""Steps of more than one setting: a switch, and the blocks of an A/B test."""

from __future__ import annotations

import numpy as np

from tests.judge.step_rows import make_steps, restart
from tfwatch.core.events import (
    Event,
    ExperimentBegan,
    ExperimentBlock,
    ExperimentEnded,
    PipelineSwitched,
)
from tfwatch.core.rows import Flag, Rows

#: wait, compute and host of a step, ms.
COMPUTE_BOUND, HALF_FED, STARVING = (0.1, 12.0, 0.5), (1.5, 12.0, 0.5), (9.0, 12.0, 0.5)
#: Steps before an A/B test, of each of its blocks, and after it.
_BEFORE, _BLOCK, _AFTER = 40, 12, 5


def of(count: int, split: tuple[float, float, float]) -> Rows:
    wait, compute, host = split
    return make_steps(np.full(count, wait), compute=compute, host=host)


def starving_then(split: tuple[float, float, float]) -> Rows:
    """100 starving steps, and 100 of another setting."""
    rows = np.concatenate([of(100, STARVING), of(100, split)])
    rows["step"] = np.arange(1, 201)
    rows["flags"][100] = Flag.SWITCH
    return restart(rows)


def alternating(values: list[str], kept: str) -> tuple[Rows, list[Event]]:
    """40 steps without prefetch, an A/B test's blocks of 12 steps, and 5 with the setting that it
    keeps."""
    lasts = [*values, kept]
    counts = [*[_BLOCK] * len(values), _AFTER]
    parts = [
        of(n, STARVING if value == "off" else COMPUTE_BOUND)
        for n, value in zip(counts, lasts, strict=True)
    ]
    rows = np.concatenate([of(_BEFORE, STARVING), *parts])
    rows["step"] = np.arange(1, len(rows) + 1)
    rows = restart(rows)
    events: list[Event] = [
        ExperimentBegan(int(rows["start_ns"][_BEFORE - 1]), "prefetch", ("off", "4"), 40, 600, 0)
    ]
    stood = "off"
    for n, value in enumerate(lasts):
        first = _BEFORE + 1 + _BLOCK * n
        at_ns = int(rows["start_ns"][min(first + _BLOCK, len(rows)) - 1])
        if n == len(values):
            steps = (_BEFORE, first - 1, "clear", "faster", 6, 132, kept, 1.7)
            events.append(
                ExperimentEnded(int(rows["start_ns"][first - 1]), "prefetch", ("off", "4"), *steps)
            )
        if value != stood:
            rows["flags"][first - 1] = Flag.SWITCH
            events.append(
                PipelineSwitched(at_ns, "prefetch", stood, value, first, first, 1.0, "experiment")
            )
            stood = value
        if n < len(values):
            block = (n + 1, n // 2 + 1, value, first + 1, first + _BLOCK - 1, _BLOCK - 1, 12.5)
            events.append(ExperimentBlock(at_ns, *block))
    return rows, events

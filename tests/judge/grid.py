"""A labelled grid of data against compute time: what the verdict has to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tests.judge.step_rows import make_steps
from tfwatch.judge.steps.steady_steps import HIGHLY_FROM, MODERATELY_FROM, verdict_of

if TYPE_CHECKING:
    from tfwatch.core.rows import Rows
    from tfwatch.judge.steps.steady_steps import Verdict

#: Data time over that of compute and host. The first three are of a fast pipeline without prefetch.
RATIOS = (
    *(0.01, 0.02, 0.03, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    *(1.0, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.4, 1.5, 1.75, 2.0, 2.5, 3.0),
)
#: Shares nearer to a threshold than this have no expected verdict.
NEAR = 0.02


def starving(data: float, work: float, *, prefetch: bool) -> float:
    """The share of a step that waits, given what a batch takes and what is done in a step."""
    return max(0.0, data - work) / max(data, work) if prefetch else data / (data + work)


def label_of(share: float) -> Verdict | None:
    """Return the label of a cell; None where it is too near to a threshold."""
    if min(abs(share - line) for line in (MODERATELY_FROM, HIGHLY_FROM)) <= NEAR:
        return None
    return verdict_of(share)


def simulated(
    data_ms: float,
    compute_ms: float,
    host_ms: float,
    *,
    depth: int,
    jitter: float,
    steps: int,
    seed: int,
) -> Rows:
    """Steps over a pipeline that works ahead by `depth` batches (0: not at all); times vary by a
    share, `jitter`."""
    rng = np.random.default_rng(seed)
    data, compute, host = (
        np.maximum(rng.normal(mean, jitter * mean, steps), 0.1 * mean)
        for mean in (data_ms, compute_ms, host_ms)
    )
    if not depth:
        return make_steps(data, compute=compute, host=host)
    waits, ready, taken = np.zeros(steps), np.zeros(steps), np.zeros(steps)
    asked = 0.0
    for n in range(steps):
        # The next batch is begun when the last one is done and there is room for it.
        begun = max(ready[n - 1] if n else 0.0, taken[n - depth] if n >= depth else 0.0)
        ready[n] = begun + data[n]
        taken[n] = max(asked, ready[n])
        waits[n] = taken[n] - asked
        asked = taken[n] + compute[n] + host[n]
    return make_steps(waits, compute=compute, host=host)

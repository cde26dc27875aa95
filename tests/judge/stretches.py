"""Steps of two settings."""

from __future__ import annotations

import numpy as np

from tests.judge.step_rows import make_steps, restart
from tfwatch.core.rows import Flag, Rows

#: wait, compute and host of a step, ms.
COMPUTE_BOUND, HALF_FED, STARVING = (0.1, 12.0, 0.5), (1.5, 12.0, 0.5), (9.0, 12.0, 0.5)


def of(count: int, split: tuple[float, float, float]) -> Rows:
    wait, compute, host = split
    return make_steps(np.full(count, wait), compute=compute, host=host)


def starving_then(split: tuple[float, float, float]) -> Rows:
    """100 starving steps, and 100 of another setting."""
    rows = np.concatenate([of(100, STARVING), of(100, split)])
    rows["step"] = np.arange(1, 201)
    rows["flags"][100] = Flag.SWITCH
    return restart(rows)

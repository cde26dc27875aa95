"""The verdict is right in every cell of the grid, on steps as a pipeline with and without prefetch would make them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.analysis.grid import RATIOS, simulated, starving, verdict_of
from tests.analysis.step_rows import restart
from tfwatch.analysis.steps.summary import summarise
from tfwatch.analysis.steps.verdict import Verdict, judge
from tfwatch.core.rows import Flag

COMPUTE_MS, HOST_MS = 18.0, 2.0
WORK_MS = COMPUTE_MS + HOST_MS


def labelled(*depths: int) -> list[tuple[float, int]]:
    """The cells that lie near no line, with prefetch of these depths."""
    return [
        (ratio, depth) for depth in depths for ratio in RATIOS if verdict_of(starving(ratio, 1.0, prefetch=depth > 0))
    ]


@pytest.mark.parametrize(("ratio", "depth"), labelled(0, 1, 2, 4, 16))
def test_the_verdict_of_steady_times(ratio: float, depth: int) -> None:
    label = verdict_of(starving(ratio, 1.0, prefetch=depth > 0))
    rows = simulated(ratio * WORK_MS, COMPUTE_MS, HOST_MS, depth=depth, jitter=0.0, steps=300, seed=0)

    assert judge(rows).verdict is label
    assert summarise(rows, ()).verdict is label


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("jitter", [0.05, 0.1])
@pytest.mark.parametrize(("ratio", "depth"), labelled(0, 4))
def test_the_verdict_of_times_that_vary(ratio: float, depth: int, jitter: float, seed: int) -> None:
    """Variations show as data wait where data and work take the same time; a buffer of four evens out a tenth."""
    label = verdict_of(starving(ratio, 1.0, prefetch=depth > 0))
    rows = simulated(ratio * WORK_MS, COMPUTE_MS, HOST_MS, depth=depth, jitter=jitter, steps=600, seed=seed)

    assert summarise(rows, ()).verdict is label


@pytest.mark.parametrize(("ratio", "after"), labelled(0, 4))
def test_after_a_switch_the_new_setting_is_judged(ratio: float, after: int) -> None:
    before = 4 - after
    label = verdict_of(starving(ratio, 1.0, prefetch=after > 0))
    old, new = (
        simulated(ratio * WORK_MS, COMPUTE_MS, HOST_MS, depth=depth, jitter=0.0, steps=200, seed=0)
        for depth in (before, after)
    )
    new["flags"][0] = Flag.SWITCH
    rows = restart(np.concatenate([old, new]))

    assert judge(rows).verdict is label


def test_the_grid_has_cells_of_every_kind_on_both_sides() -> None:
    labels = {
        prefetch: {verdict_of(starving(ratio, 1.0, prefetch=prefetch)) for ratio in RATIOS}
        for prefetch in (False, True)
    }

    assert labels[False] == labels[True] == {None, Verdict.NOT, Verdict.MODERATELY, Verdict.HIGHLY}
    assert (min(RATIOS) <= 0.1, max(RATIOS)) == (True, 3.0)

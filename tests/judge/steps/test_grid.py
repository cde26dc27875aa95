"""The verdict is right in every cell of the grid, on steps as a pipeline with and without prefetch
would make them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.judge.grid import RATIOS, label_of, simulated, starving
from tests.judge.step_rows import restart
from tfwatch.core.rows import Flag
from tfwatch.judge.steps.steady_steps import Breakdown, SteadySteps, Verdict, judge

COMPUTE_MS, HOST_MS = 18.0, 2.0
WORK_MS = COMPUTE_MS + HOST_MS


def labelled(*depths: int) -> list[tuple[float, int]]:
    """The cells that lie near no line, with prefetch of these depths."""
    return [
        (ratio, depth)
        for depth in depths
        for ratio in RATIOS
        if label_of(starving(ratio, 1.0, prefetch=depth > 0))
    ]


def verdict_of(split: Breakdown | None) -> Verdict | None:
    return split.verdict if split else None


def test_the_label_of_steady_times() -> None:
    for ratio, depth in labelled(0, 1, 2, 4, 16):
        label = label_of(starving(ratio, 1.0, prefetch=depth > 0))
        rows = simulated(
            ratio * WORK_MS, COMPUTE_MS, HOST_MS, depth=depth, jitter=0.0, steps=300, seed=0
        )

        assert verdict_of(judge(rows)) is label, (ratio, depth)
        assert verdict_of(SteadySteps(rows).breakdown) is label, (ratio, depth)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("jitter", [0.05, 0.1])
def test_the_label_of_times_that_vary(jitter: float, seed: int) -> None:
    """Variations show as data wait where data and work take the same time; a buffer of four evens
    out a tenth."""
    for ratio, depth in labelled(0, 4):
        label = label_of(starving(ratio, 1.0, prefetch=depth > 0))
        rows = simulated(
            ratio * WORK_MS, COMPUTE_MS, HOST_MS, depth=depth, jitter=jitter, steps=600, seed=seed
        )

        assert verdict_of(SteadySteps(rows).breakdown) is label, (ratio, depth)


def test_after_a_switch_the_new_setting_is_judged() -> None:
    for ratio, after in labelled(0, 4):
        label = label_of(starving(ratio, 1.0, prefetch=after > 0))
        old, new = (
            simulated(
                ratio * WORK_MS, COMPUTE_MS, HOST_MS, depth=depth, jitter=0.0, steps=200, seed=0
            )
            for depth in (4 - after, after)
        )
        new["flags"][0] = Flag.SWITCH
        rows = restart(np.concatenate([old, new]))

        assert verdict_of(judge(rows)) is label, (ratio, after)


def test_the_grid_has_cells_of_every_kind_on_both_sides() -> None:
    labels = {
        prefetch: {label_of(starving(ratio, 1.0, prefetch=prefetch)) for ratio in RATIOS}
        for prefetch in (False, True)
    }

    assert labels[False] == labels[True] == {None, Verdict.NOT, Verdict.MODERATELY, Verdict.HIGHLY}
    assert (min(RATIOS) <= 0.1, max(RATIOS)) == (True, 3.0)

"""The verdict is right in every cell of the grid, on steps as a pipeline with and without prefetch
would make them."""

import numpy as np
import pytest

from tests.judge.step_rows import make_steps, restart
from tfwatch.core.rows import Flag, Rows
from tfwatch.judge.steps.steady_steps import (
    HIGHLY_FROM,
    MODERATELY_FROM,
    Breakdown,
    Verdict,
    judge,
    steady_breakdown,
)

COMPUTE_MS, HOST_MS = 18.0, 2.0
WORK_MS = COMPUTE_MS + HOST_MS


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
    if share >= HIGHLY_FROM:
        return Verdict.HIGHLY
    return Verdict.MODERATELY if share >= MODERATELY_FROM else Verdict.NOT


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
        assert verdict_of(steady_breakdown(rows)) is label, (ratio, depth)


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

        assert verdict_of(steady_breakdown(rows)) is label, (ratio, depth)


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

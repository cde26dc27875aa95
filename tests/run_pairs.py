"""Simulated runs: step times with noise within a run, and a level of its own for each run."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tests.judge.step_rows import make_steps
from tests.step_noise import noisy_steps
from tfwatch.core.rows import Rows
from tfwatch.judge.comparing.compared_runs import (
    LEAST_CLAIM,
    STEP,
    difference,
    estimate_spread,
    measure_steps,
    steps_in_common,
)


@dataclass(frozen=True)
class Noise:
    """The noise of a simulated machine.

    within: a kind of `tests.step_noise.NOISE`. between: the standard deviation of a run's level, a
    share. steps: the fewest and the most of a run. warm_up: the most steps that a run begins with,
    up to twice as slow as the others.
    """

    within: str = "white 5 %"
    between: float = 0.01
    steps: tuple[int, int] = (300, 300)
    warm_up: int = 0


def simulate_run(noise: Noise, source: np.random.Generator, slower: float = 0.0) -> Rows:
    """Simulate the steady steps of a run."""
    times = noisy_steps(noise.within, int(source.integers(*noise.steps, endpoint=True)), source)
    times *= (1 + slower) * np.exp(noise.between * source.standard_normal())
    cold = int(source.integers(0, noise.warm_up, endpoint=True))
    times[:cold] *= np.linspace(2, 1, cold)
    return make_steps(0.0, compute=times, host=0.0)


def claims(sides: Sequence[Sequence[Rows]]) -> bool:
    """Return whether two sides, whose runs alternate, are claimed to differ in step time."""
    before, after = sides
    steps = steps_in_common([*before, *after])
    logs = np.log(measure_steps(steps, [1] * len(steps))[STEP])
    both = logs[: len(before)], logs[len(before) :]
    value, low, high = difference(*both, estimate_spread(*both, assumed=0.03))
    return (low > 0 or high < 0) and abs(value) >= LEAST_CLAIM


def claimed(noise: Noise, runs: int, pairs: int, slower: float = 0.0, seed: int = 0) -> int:
    """Return how many simulated pairs of sides with this many runs are claimed to differ."""
    source = np.random.default_rng(seed)
    found = 0
    for _ in range(pairs):
        sides = [
            [simulate_run(noise, source, share) for _ in range(runs)] for share in (0.0, slower)
        ]
        found += claims(sides)
    return found

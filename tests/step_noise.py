"""Step times of one setting with the noise of real machines, simulated."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Times: TypeAlias = NDArray[np.float64]

TYPICAL_MS = 20.0
#: The shortest and the longest burst, in steps, and its least and largest slow-down.
_BURST_STEPS = (30, 100)
_BURST_LOGS = (0.14, 0.59)


def noisy_steps(kind: str, count: int, source: np.random.Generator) -> Times:
    """Step times, milliseconds, with the noise of a kind of `NOISE`."""
    steps: Times = TYPICAL_MS * np.exp({**NOISE, **QUIET}[kind](count, source))
    return steps


def _correlated(count: int, source: np.random.Generator, share: float, correlation: float) -> Times:
    """An AR(1) process with this standard deviation and lag-one autocorrelation."""
    noise: Times = share * source.standard_normal(count)
    for at in range(1, count):
        noise[at] = correlation * noise[at - 1] + np.sqrt(1 - correlation**2) * noise[at]
    return noise


def _drifting(count: int, source: np.random.Generator, drift: float) -> Times:
    """A straight drift over the whole series, up or down."""
    return float(source.choice([-drift, drift])) * np.linspace(0, 1, count) + _correlated(
        count, source, 0.03, 0.3
    )


def _bursty(count: int, source: np.random.Generator, apart: float, share: float) -> Times:
    """Another program takes a core for 30 to 100 steps, on average this many steps after the last
    time."""
    logs, at = _correlated(count, source, share, 0.3), -float(source.integers(0, _BURST_STEPS[1]))
    while (at := at + source.exponential(apart)) < count:
        steps = int(source.integers(*_BURST_STEPS, endpoint=True))
        logs[max(int(at), 0) : max(int(at) + steps, 0)] += source.uniform(*_BURST_LOGS)
        at += steps
    return logs


def _random_walk(count: int, source: np.random.Generator, drift: float) -> Times:
    """A random walk that ends this far away, as a standard deviation."""
    walk: Times = np.cumsum(source.standard_normal(count)) * drift / np.sqrt(count)
    return _correlated(count, source, 0.03, 0.3) + walk


def _jumping(count: int, source: np.random.Generator, apart: float) -> Times:
    """Levels that jump by 10 % (standard deviation), on average every `apart` steps: a program
    comes or goes."""
    jumps = (source.random(count) < 1 / apart) * source.standard_normal(count)
    return _correlated(count, source, 0.03, 0.3) + 0.1 * np.cumsum(jumps)


def _long_tailed(count: int, source: np.random.Generator) -> Times:
    """One step in twelve takes 1.5 times as long or longer."""
    return _correlated(count, source, 0.05, 0.3) + (
        source.random(count) < 1 / 12
    ) * source.exponential(0.5, count)


#: Noise that resembles its neighbors and stays on one level. A difference of 10 % is to be found
#: within 300 steps.
ORDINARY: dict[str, Callable[[int, np.random.Generator], Times]] = {
    "white 5 %": lambda count, source: _correlated(count, source, 0.05, 0.0),
    "correlated 0.3": lambda count, source: _correlated(count, source, 0.05, 0.3),
    "correlated 0.5": lambda count, source: _correlated(count, source, 0.05, 0.5),
    "correlated 0.7": lambda count, source: _correlated(count, source, 0.05, 0.7),
    "long-tailed": _long_tailed,
}
#: Noise of a machine that does nothing else. A difference of 20 % is to be found within 100 steps,
#: one of 5 % within 400.
QUIET: dict[str, Callable[[int, np.random.Generator], Times]] = {
    "quiet, 2 %": lambda count, source: _correlated(count, source, 0.02, 0.3),
    "quiet, 3 %": lambda count, source: _correlated(count, source, 0.03, 0.3),
    "quiet, correlated": lambda count, source: _correlated(count, source, 0.02, 0.5),
}
#: The standard deviation is 5 % where the name has no other, and that of drifting noise 3 %.
NOISE: dict[str, Callable[[int, np.random.Generator], Times]] = {
    **ORDINARY,
    "correlated 0.3, 10 %": lambda count, source: _correlated(count, source, 0.1, 0.3),
    "correlated 0.7, 10 %": lambda count, source: _correlated(count, source, 0.1, 0.7),
    "drift 5 %": lambda count, source: _drifting(count, source, 0.05),
    "drift 10 %": lambda count, source: _drifting(count, source, 0.1),
    "drift 20 %": lambda count, source: _drifting(count, source, 0.2),
    "bursts every 150": lambda count, source: _bursty(count, source, 150, 0.05),
    "bursts every 600": lambda count, source: _bursty(count, source, 600, 0.03),
    "random walk 5 %": lambda count, source: _random_walk(count, source, 0.05),
    "random walk 15 %": lambda count, source: _random_walk(count, source, 0.15),
    "random walk 30 %": lambda count, source: _random_walk(count, source, 0.3),
    "jumps every 600": lambda count, source: _jumping(count, source, 600),
}

"""What starving costs a run: time, examples and energy.

What starving cost a run: time, the examples that it would have trained on in that time, and energy.

Energy: what the device that trains drew, for each step and while it starved.

Power is read twice a second. Between two samples it is taken as the mean of both (the trapezoid); further apart than
`GAP_S` nothing is known and nothing is counted. In steps shorter than that the wait is charged with the mean power
around it, and an idling device draws less: the energy while starving is an upper bound there.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tfwatch.core import units
from tfwatch.core.rows import plausible, step_ms

if TYPE_CHECKING:
    from tfwatch.analysis.steps.time_breakdown import TimeSpent
    from tfwatch.core.rows import Rows

#: A smaller share of a run is not worth a sentence.
_WORTH_TELLING = 0.01


@dataclass(frozen=True, slots=True)
class DataWaitCost:
    """What data wait took of a run so far.

    data_wait_s: seconds; run_s: the run's own length. examples: as many as were trained on in a second of compute and
    host, for `data_wait_s` of them; energy_j: what the device drew meanwhile. None is unknown.
    """

    data_wait_s: float
    run_s: float
    examples: float | None = None
    energy_j: float | None = None

    @property
    def share(self) -> float:
        """Of the run, 0 to 1."""
        return self.data_wait_s / self.run_s if self.run_s > 0 else 0.0

    @property
    def is_notable(self) -> bool:
        """Whether it is a hundredth of the run."""
        return self.share >= _WORTH_TELLING

    @property
    def without_s(self) -> float:
        """What the run would have taken at best: compute, host and all that is no step stay, whatever feeds them.

        It is reached where batches are made beside the steps, on cores that these leave free.
        """
        return max(self.run_s - self.data_wait_s, 0.0)


def lost(total: TimeSpent, run_s: float, examples: int | None, energy: Energy | None) -> DataWaitCost:
    """What a run lost. total: its ledger. examples: that it was trained on, None where nobody knows."""
    worked_s = total.compute_s + total.host_s
    known = examples is not None and examples > 0 and worked_s > 0
    return DataWaitCost(
        total.data_wait_s,
        run_s,
        total.data_wait_s * examples / worked_s if known and examples else None,
        energy.starving_j if energy else None,
    )


def words(found: DataWaitCost, what: str = "images") -> str:
    """`fed, it takes 3 h 8 min at best, or 312 000 images more in its time`; empty below a hundredth of the run."""
    if not found.is_notable:
        return ""
    more = found.examples is not None and round(found.examples) > 0
    instead = f", or {units.count(round(found.examples or 0))} {what} more in its time" if more else ""
    return f"{best_case_text(found)}{instead}"


def best_case_text(found: DataWaitCost) -> str:
    """`fed, it takes 3 h 8 min at best`; empty below a hundredth of the run."""
    return f"fed, it takes {units.seconds(found.without_s)} at best" if found.is_notable else ""


Floats = NDArray[np.float64]

#: Samples of power further apart than this, seconds, say nothing of what lies between: sensors read every 0.5 to 1 s.
GAP_S = 2.5
#: A step counts for the energy a step where power is known for this share of it.
_WHOLE = 0.99
#: Steps summed up at once, and kept at most while no newer sample comes.
_BLOCK = 65_536


@dataclass(frozen=True, slots=True)
class Energy:
    """Joules of the device that trains, as far as its power was read.

    known_s: seconds of the run for which it was. steps, steps_j: steps without flags that lie wholly in them, and
    their joules: a step that compiles would make the mean of a short run its own.
    starving_j: of the data wait of all steps.
    """

    joules: float = 0.0
    known_s: float = 0.0
    steps: int = 0
    steps_j: float = 0.0
    starving_j: float = 0.0

    @property
    def per_step_j(self) -> float | None:
        """Joules a step; None where no step was covered."""
        return self.steps_j / self.steps if self.steps else None

    def __add__(self, other: Energy) -> Energy:
        return Energy(
            self.joules + other.joules,
            self.known_s + other.known_s,
            self.steps + other.steps,
            self.steps_j + other.steps_j,
            self.starving_j + other.starving_j,
        )


@dataclass(frozen=True, eq=False)
class EnergyCurve:
    """What was drawn up to each of n moments, joules, and for how many seconds of the time before it that is known."""

    at_s: Floats
    joules: Floats
    known_s: Floats

    def between(self, begin_s: Floats, end_s: Floats) -> tuple[Floats, Floats]:
        """Joules, and seconds that are known, between each of two moments; nothing is known beyond the ends."""
        joules, known_s = (
            np.interp(end_s, self.at_s, curve) - np.interp(begin_s, self.at_s, curve)
            for curve in (self.joules, self.known_s)
        )
        return joules, known_s


def power_column(accelerated: bool) -> str:
    """The column of `core.rows.SAMPLE` with the power of what trains: the GPU where the steps run on one."""
    return "gpu_power_w" if accelerated else "cpu_power_w"


def drawn(at_s: Floats, power_w: Floats) -> EnergyCurve | None:
    """The energy curve of samples in the order of their time; None where less than two hold a power."""
    known = np.isfinite(power_w) & (power_w >= 0)
    at_s, power_w = at_s[known], power_w[known]
    if len(at_s) < 2:
        return None
    apart = np.diff(at_s)
    told = np.where(apart <= GAP_S, apart, 0.0)
    mean_w = (power_w[1:] + power_w[:-1]) / 2
    curves = (np.concatenate([[0.0], np.cumsum(part)]) for part in (mean_w * told, told))
    return EnergyCurve(at_s, *curves)


def energy(samples: Rows, steps: Rows, accelerated: bool) -> Energy | None:
    """The energy of a run, of rows of `core.rows.SAMPLE` and `STEP`; None where no power was read."""
    sums = RunningEnergy(accelerated)
    for first in range(0, max(len(steps), 1), _BLOCK):
        rows = steps[first : first + _BLOCK]
        sums.add(samples, rows[plausible(rows)])
    return sums.so_far(samples)


class RunningEnergy:
    """Sums a run up as it grows, at the cost of what is new."""

    def __init__(self, accelerated: bool) -> None:
        self._column = power_column(accelerated)
        self._sums = Energy()
        self._read = 0
        self._read_s = 0.0
        self._waiting: Rows | None = None

    def add(self, samples: Rows, steps: Rows) -> None:
        """Take the steps in that came since the last call; `samples` are all of the run so far."""
        self._add_samples(samples)
        waiting = self._waiting
        self._add_steps(samples, steps if waiting is None else np.concatenate([waiting, steps]))

    def so_far(self, samples: Rows, waits_since_s: float | None = None) -> Energy | None:
        """The sums; None before power was read. waits_since_s: since when the wait lasts that is still open."""
        if not self._sums.known_s:
            return None
        sums = self._sums if self._waiting is None else self._sums + self._of_steps(samples, self._waiting)
        if waits_since_s is None or waits_since_s >= self._read_s:
            return sums
        curve = self._curve(samples, waits_since_s, self._read_s)
        joules = curve.between(np.array([waits_since_s]), np.array([self._read_s]))[0] if curve else np.zeros(1)
        return sums + Energy(starving_j=float(joules[0]))

    def _curve(self, samples: Rows, begin_s: float, end_s: float) -> EnergyCurve | None:
        """The curve over a stretch of the run and a gap's length on both sides of it."""
        at_ns = samples["at_ns"]
        first = bisect_left(at_ns, (begin_s - GAP_S) * 1e9)
        seen = samples[first : bisect_right(at_ns, (end_s + GAP_S) * 1e9)]
        return drawn(seen["at_ns"] / 1e9, seen[self._column].astype(np.float64))

    def _add_samples(self, samples: Rows) -> None:
        """From the last sample with a power on: the stretch after it was not known yet."""
        new = samples[self._read :]
        at_s, power_w = new["at_ns"] / 1e9, new[self._column].astype(np.float64)
        known = np.flatnonzero(np.isfinite(power_w))
        if not len(known):
            self._read = len(samples)
            return
        self._read, self._read_s = self._read + int(known[-1]), float(at_s[known[-1]])
        if curve := drawn(at_s, power_w):
            self._sums += Energy(joules=float(curve.joules[-1]), known_s=float(curve.known_s[-1]))

    def _add_steps(self, samples: Rows, steps: Rows) -> None:
        """Sum up the steps of which all is known that will be; the others wait for the next sample."""
        newest_s = float(samples["at_ns"][-1]) / 1e9 if len(samples) else 0.0
        done = _ends_s(steps) <= max(self._read_s, newest_s - GAP_S)
        done[:-_BLOCK] = True
        self._sums += self._of_steps(samples, steps[done])
        self._waiting = None if done.all() else steps[~done]

    def _of_steps(self, samples: Rows, steps: Rows) -> Energy:
        if not len(steps):
            return Energy()
        begins_s, ends_s = steps["start_ns"] / 1e9, _ends_s(steps)
        curve = self._curve(samples, float(begins_s[0]), float(ends_s.max()))
        if curve is None:
            return Energy()
        joules, known_s = curve.between(begins_s, ends_s)
        whole = (known_s >= _WHOLE * (ends_s - begins_s)) & (steps["flags"] == 0)
        waiting, _ = curve.between(begins_s, begins_s + steps["wait_ms"] / 1e3)
        return Energy(steps=int(whole.sum()), steps_j=float(joules[whole].sum()), starving_j=float(waiting.sum()))


def _ends_s(steps: Rows) -> Floats:
    took_ms = step_ms(steps, np.float64)
    ends: Floats = steps["start_ns"] / 1e9 + took_ms / 1e3
    return ends

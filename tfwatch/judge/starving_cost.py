"""The cost of data wait: time, the examples that the run could have trained on in that time, and
energy.

The energy is that of the device that trains. Power is read twice a second; between two samples it
is the mean of both (the trapezoid), and over a gap of more than `GAP_S` it is unknown and not
counted. In steps shorter than the half second a wait is charged with the mean power around it. An
idle device draws less, so the energy while starving is an upper bound there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tfwatch.core import units
from tfwatch.core.rows import step_ms

if TYPE_CHECKING:
    from tfwatch.core.rows import Rows
    from tfwatch.judge.steps.time_breakdown import TimeSpent

#: A smaller share of a run gets no sentence.
_NOTABLE = 0.01


@dataclass(frozen=True, slots=True)
class DataWaitCost:
    """The cost of data wait in a run so far."""

    #: Seconds of data wait, and of the run.
    data_wait_s: float
    run_s: float
    #: The number that the run trains on in `data_wait_s` of compute and host.
    examples: float | None = None
    #: Energy of the device during data wait. None is unknown.
    energy_j: float | None = None

    @property
    def share(self) -> float:
        """Data wait as a share of the run, 0 to 1."""
        return self.data_wait_s / self.run_s if self.run_s > 0 else 0.0

    @property
    def is_notable(self) -> bool:
        """True from a hundredth of the run on."""
        return self.share >= _NOTABLE

    @property
    def without_s(self) -> float:
        """The length of the run without data wait, at best: compute, host and the time outside
        steps are unchanged.

        A run reaches it where batches are prepared during steps, on cores that the steps leave
        free.
        """
        return max(self.run_s - self.data_wait_s, 0.0)


def cost_of_data_wait(
    total: TimeSpent, run_s: float, examples: int | None, energy: Energy | None
) -> DataWaitCost:
    """Return the cost of data wait in a run. total: its time breakdown. examples: trained on; None
    where unknown."""
    worked_s = total.copy_s + total.compute_s + total.host_s
    known = examples is not None and examples > 0 and worked_s > 0
    return DataWaitCost(
        total.data_wait_s,
        run_s,
        total.data_wait_s * examples / worked_s if known and examples else None,
        energy.starving_j if energy else None,
    )


def cost_text(cost: DataWaitCost) -> str:
    """Return `without data wait: 3 h 8 min at best, or 312 000 more examples in the same time`;
    empty where small."""
    if not cost.is_notable:
        return ""
    more = cost.examples is not None and round(cost.examples) > 0
    instead = (
        f", or {units.count(round(cost.examples or 0))} more examples in the same time"
        if more
        else ""
    )
    return f"without data wait: {units.seconds(cost.without_s)} at best{instead}"


Floats = NDArray[np.float64]

#: Between samples further apart than this, seconds, power is unknown: sensors read every 0.5 to 1
#: s.
GAP_S = 2.5
#: A step counts for the energy per step where power is known for this share of it.
_WHOLE = 0.99
#: The number of steps in a sum.
_BLOCK = 65_536


@dataclass(frozen=True, slots=True)
class Energy:
    """The energy of the device that trains, joules, as far as its power was read."""

    joules: float = 0.0
    #: Seconds of the run with known power.
    known_s: float = 0.0
    #: The steps without flags within them, and their joules; a step that compiles would dominate
    #: the mean of a short run.
    steps: int = 0
    steps_j: float = 0.0
    #: Of the data wait of all steps.
    starving_j: float = 0.0

    @property
    def per_step_j(self) -> float | None:
        """Joules per step; None where no step was covered."""
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
    """The energy up to each of n moments, joules, and the seconds before each with known power."""

    at_s: Floats
    joules: Floats
    known_s: Floats

    def between(self, begin_s: Floats, end_s: Floats) -> tuple[Floats, Floats]:
        """Return the joules, and the seconds with known power, between two moments each; beyond the
        ends both are 0."""
        joules, known_s = (
            np.interp(end_s, self.at_s, curve) - np.interp(begin_s, self.at_s, curve)
            for curve in (self.joules, self.known_s)
        )
        return joules, known_s


def power_column(accelerated: bool) -> str:
    """Return the column of `core.rows.SAMPLE` with the power of the device that trains: the GPU's
    or the CPU's."""
    return "gpu_power_w" if accelerated else "cpu_power_w"


def energy_curve(at_s: Floats, power_w: Floats) -> EnergyCurve | None:
    """Return the energy curve of samples in the order of time; None where fewer than two hold a
    power."""
    known = np.isfinite(power_w) & (power_w >= 0)
    at_s, power_w = at_s[known], power_w[known]
    if len(at_s) < 2:
        return None
    apart = np.diff(at_s)
    known_s = np.where(apart <= GAP_S, apart, 0.0)
    mean_w = (power_w[1:] + power_w[:-1]) / 2
    curves = (np.concatenate([[0.0], np.cumsum(part)]) for part in (mean_w * known_s, known_s))
    return EnergyCurve(at_s, *curves)


def energy(samples: Rows, steps: Rows, accelerated: bool) -> Energy | None:
    """Return the energy of a run from rows of `core.rows.SAMPLE` and plausible ones of `STEP`.

    None where no power was read.
    """
    power_w = samples[power_column(accelerated)].astype(np.float64)
    curve = energy_curve(samples["at_ns"] / 1e9, power_w)
    if curve is None or not curve.known_s[-1]:
        return None
    blocks = (steps[first : first + _BLOCK] for first in range(0, len(steps), _BLOCK))
    of_run = Energy(float(curve.joules[-1]), float(curve.known_s[-1]))
    return sum((_of_steps(curve, block) for block in blocks), of_run)


def _of_steps(curve: EnergyCurve, steps: Rows) -> Energy:
    begins_s, ends_s = steps["start_ns"] / 1e9, _ends_s(steps)
    joules, known_s = curve.between(begins_s, ends_s)
    whole = (known_s >= _WHOLE * (ends_s - begins_s)) & (steps["flags"] == 0)
    waiting, _ = curve.between(begins_s, begins_s + steps["wait_ms"] / 1e3)
    return Energy(
        steps=int(whole.sum()),
        steps_j=float(joules[whole].sum()),
        starving_j=float(waiting.sum()),
    )


def _ends_s(steps: Rows) -> Floats:
    took_ms = step_ms(steps, np.float64)
    ends: Floats = steps["start_ns"] / 1e9 + took_ms / 1e3
    return ends

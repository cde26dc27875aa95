"""One configuration that `tfwatch bench` times, and how certain its figure is."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tfwatch.doctor.death import explain
from tfwatch.doctor.tensorflow_log import fell_back

if TYPE_CHECKING:
    from tfwatch.doctor.trial import Trial
    from tfwatch.training.measuring import Spec

#: A median that is less certain than this, as a share of it, is measured in more rounds, and told.
WIDE = 0.05
#: Other programs that use this many cores make figures unsteady.
BUSY_CORES = 0.25


@dataclass(slots=True)
class Row:
    """One configuration and what its rounds said.

    medians_ms: of each round's steps. first_ms: of each round's first step, which traces and compiles.
    others_cores: what other programs used of the processor in each round, as far as it is known.
    reason: why it was not measured; empty where it was. fell_back: operations that a GPU should have had.
    """

    spec: Spec
    medians_ms: list[float] = field(default_factory=list)
    first_ms: list[float] = field(default_factory=list)
    others_cores: list[float] = field(default_factory=list)
    examples: int = 0
    reason: str = ""
    fell_back: list[str] = field(default_factory=list)
    no_gpu: bool = False

    @property
    def step_ms(self) -> float | None:
        """The median of the rounds' medians; None where nothing was measured."""
        return statistics.median(self.medians_ms) if self.medians_ms else None

    @property
    def spread(self) -> float | None:
        """The width of the 95 % interval of the true median, as a share of the median; None of fewer than two rounds.

        By order statistics, without an assumption on the distribution; of fewer than six rounds all lie in it.
        """
        if len(self.medians_ms) < 2:
            return None
        ordered = sorted(self.medians_ms)
        cut = certain_from(len(ordered))
        return (ordered[-1 - cut] - ordered[cut]) / statistics.median(ordered)

    @property
    def is_unsteady(self) -> bool:
        """Whether it was measured, and its rounds lie so far apart that more are of use."""
        return self.spread is not None and self.spread > WIDE

    @property
    def examples_s(self) -> float | None:
        """Examples a second."""
        return self.examples / self.step_ms * 1e3 if self.step_ms and self.examples else None

    def take(self, trial: Trial) -> None:
        """Add a round."""
        told = trial.results.get("measured", {})
        steps_ms = told.get("steps_ms")
        if not steps_ms:
            self.no_gpu = bool(told.get("no_gpu"))
            self.reason = str(told.get("error") or explain(trial)[0])
            return
        self.medians_ms.append(statistics.median(steps_ms))
        self.first_ms.append(float(told["first_ms"]))
        if told.get("others_cores") is not None:
            self.others_cores.append(float(told["others_cores"]))
        self.examples = int(told["examples"])
        self.fell_back = list(fell_back(trial.log)) if self.spec.device == "gpu" else []


def certain_from(rounds: int) -> int:
    """How many values to leave out at either end, so that the median lies between the others 95 times of 100.

    P(k or fewer of n on one side) is binomial with 1/2; e.g. Conover, Practical Nonparametric Statistics, 3.2.
    """
    below, cut = 0.0, -1
    for fewer in range(rounds // 2):
        below += math.comb(rounds, fewer) / 2**rounds
        if 2 * below > 0.05:
            break
        cut = fewer
    return max(cut, 0)

"""Which of several settings is faster: what blocks of steps in random order prove, however often one looks.

The run alternates between settings in short blocks; a round has one block of each, in random order, and the unit of
the statistics is the round: the log of one block's step time (`figures`) less that of another's. Three things are asked
of it.

* Neighbouring steps resemble each other, so a thousand steps are not a thousand observations (Kalibera & Jones,
  "Rigorous benchmarking in reasonable time", ISMM 2013). What is slow to change is in both blocks of a round and
  cancels. The order is drawn anew for each round: where the setting changes nothing, the differences of rounds have
  random signs, so they are uncorrelated whatever the noise (Fisher, "The Design of Experiments", 1935; for settings
  that take turns in time: Bojinov, Simchi-Levi & Zhao, "Design and analysis of switchback experiments", Management
  Science 69, 2023). What a setting leaves behind for the next one is not: the steps after a switch are left out.
* Who looks after each round and stops when he likes the answer is fooled by a t-interval far more often than it says
  (Johari, Koomen, Pekelis & Walsh, "Always valid inference", Operations Research 70, 2022). `half_width` is that of a
  confidence sequence: it covers the truth at all rounds at once with the probability that it names. It may widen from
  one look to the next. To keep the narrowest of all looks would be valid for a difference that stays what it is, and
  save a round in twelve; of one that fades (10 %, gone after 6 of 17 rounds with noise of 5 %; 200 simulated runs) what
  is left held the mean of the rounds in 72 of 100, where this holds it in 99.
* The noise is unknown. The sequence is the t-test's with a normal mixture over the effect in units of the noise
  (Lai, "On confidence sequences", Annals of Statistics 4, 1976; Wang & Ramdas, "Anytime-valid t-tests and confidence
  sequences for Gaussian means with unknown variance", arXiv:2310.03722): with n rounds, S the sum of
  their differences from a supposed mean and V that of the squares, sqrt(c/(n+c)) (V / (V - S^2/(n+c)))^(n/2) exceeds
  1/alpha for any n with probability alpha at most where the supposed mean is the true one.

Where more than two settings are compared, alpha is shared out among their pairs (Bonferroni).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from tfwatch.analysis.steps.breakdown import steady
from tfwatch.core.rows import step_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tfwatch.core.rows import Rows

Answer: TypeAlias = Literal["faster", "slower", "same", "unclear"]

#: That the interval misses the truth at any time.
ALPHA = 0.05
#: `c` of the mixture: effects of about 1/sqrt(c) = 3 times the noise of a round are found soonest, 3 rounds at least.
#: With 0.3 noisy experiments took 1 to 6 % fewer rounds (simulated), and three settings five rounds at least.
_MIXTURE = 0.1
#: Rounds before anything is told.
LEAST_ROUNDS = 4
#: Rounds before settings are called the same: steps that are slow now and then have to come by.
_ROUNDS_OF_SAME = 8
#: Ratios within this of 1, the whole interval, are no difference: nobody turns a knob for it, and of 40 experiments in
#: which nothing differed four were told as 0.9 to 1.5 % on a machine where five ran side by side.
SAME = 0.03
#: A difference is told once the log of its ratio is known to within this, or to within this share of itself.
_PRECISE = 0.03
_PRECISE_SHARE = 0.125
#: Where the slowest quarter begins.
_TOP = 0.75
#: Slow steps may differ from so many standard errors on, but not below this share of a step, and surely from `SAME` on.
_TAIL_ERRORS = 2.0
_TAIL_LEAST = 0.01


@dataclass(frozen=True, slots=True)
class Estimate:
    """How many times faster, with its interval; 0 to infinity where nothing is known yet."""

    ratio: float
    low: float
    high: float

    @property
    def answer(self) -> Answer:
        """What the interval proves."""
        if self.low >= 1 - SAME and self.high <= 1 + SAME:
            return "same"
        if self.low > 1:
            return "faster"
        return "slower" if self.high < 1 else "unclear"

    @property
    def is_clear(self) -> bool:
        """Whether more rounds would tell nothing that matters."""
        if self.answer == "same":
            return True
        wide = math.log(self.high / self.low) / 2 if self.low > 0 else math.inf
        return self.answer != "unclear" and wide <= max(_PRECISE, _PRECISE_SHARE * abs(math.log(self.ratio)))


UNKNOWN = Estimate(1.0, 0.0, math.inf)


@dataclass(frozen=True, slots=True)
class ExperimentState:
    """Where an experiment stands.

    value: number of the setting that the answer is about, compared with setting 0: the fastest one, or the second
    where setting 0 is the fastest. fastest: number of the setting that the run is best left at, by what was measured.
    beaten: the settings proved slower than that one. clear: nothing is left to be found out.
    """

    value: int
    estimate: Estimate
    fastest: int
    beaten: frozenset[int]
    clear: bool
    rounds: int


def half_width(differences: NDArray[np.float64], alpha: float = ALPHA) -> float:
    """Of the confidence sequence around the mean of `differences`, see above; infinite where they are too few."""
    n = len(differences)
    if n < LEAST_ROUNDS:
        return math.inf
    spread = float(((differences - differences.mean()) ** 2).sum())
    bound = (math.sqrt((n + _MIXTURE) / _MIXTURE) / alpha) ** (2 / n)
    room = 1 - bound * _MIXTURE / (n + _MIXTURE)
    return math.sqrt(spread * (bound - 1) / (n * room)) if room > 0 else math.inf


def estimate(differences: NDArray[np.float64], alpha: float = ALPHA) -> Estimate:
    """The ratio whose log the mean of `differences` is: log step time of the one less that of the other, by round."""
    if len(differences) < LEAST_ROUNDS:
        return UNKNOWN
    mean, half = float(differences.mean()), half_width(differences, alpha)
    return Estimate(math.exp(mean), math.exp(mean - half), math.exp(mean + half))


def evaluate(step_ms: NDArray[np.float64]) -> ExperimentState:
    """What is known of settings whose mean step times are the columns and whose rounds are the rows."""
    rounds, count = step_ms.shape
    logs = np.log(step_ms)
    alpha = ALPHA / (count * (count - 1) / 2)
    order = np.argsort(logs.mean(axis=0), kind="stable") if rounds else np.arange(count)
    fastest = int(order[0])
    value = fastest or int(order[1])
    against = {at: estimate(logs[:, at] - logs[:, fastest], alpha) for at in range(count) if at != fastest}
    beaten = frozenset(at for at, found in against.items() if found.low > 1)
    found = estimate(logs[:, 0] - logs[:, value], alpha)
    seen = rounds >= _ROUNDS_OF_SAME
    clear = all(found.is_clear and (seen or found.answer != "same") for found in against.values())
    return ExperimentState(value, found, fastest, beaten, clear, rounds)


def block_means(times: Sequence[Sequence[NDArray[np.float64]]]) -> NDArray[np.float64]:
    """What rounds are compared by, milliseconds: a row a round, a column a setting; `times[setting][round]` are steps.

    The mean step time of a block whose slowest quarter counts as the quickest of that quarter: what the machine does
    beside the training makes single steps slow, and hides small differences. Where the slow steps themselves may
    differ, as they do where every tenth batch comes late, it is the plain mean. What slow steps differ by without being
    seen to, `SAME` at most, is in neither the ratio nor its interval.
    """
    plain = np.array([[block.mean() for block in blocks] for blocks in times], dtype=np.float64).T
    if not len(plain):
        return plain.reshape(0, len(times))
    held = [[np.minimum(block, np.quantile(block, _TOP)).mean() for block in blocks] for blocks in times]
    cut = np.array(held, dtype=np.float64).T
    return cut if _alike((plain - cut) / cut.mean(axis=0)) else plain


def _alike(tails: NDArray[np.float64]) -> bool:
    """Whether what was cut off, as shares of a step, is the same for all settings as far as that can be told."""
    if len(tails) < LEAST_ROUNDS:
        return True
    for first in range(tails.shape[1] - 1):
        apart = tails[:, first + 1 :] - tails[:, first : first + 1]
        error = apart.std(axis=0, ddof=1) / math.sqrt(len(apart))
        if (np.abs(apart.mean(axis=0)) > np.clip(_TAIL_ERRORS * error, _TAIL_LEAST, SAME)).any():
            return False
    return True


def counted_steps(blocks: Sequence[Rows]) -> list[NDArray[np.float64]]:
    """The step times that count, milliseconds, of the blocks of one setting, in the order of the run.

    Flagged steps do not, nor do single spikes; what is rare is told over all blocks together.
    """
    if not blocks:
        return []
    rows = steady(np.concatenate(blocks))
    times = step_ms(rows, np.float64)
    edges = np.searchsorted(rows["step"], [block["step"][0] for block in blocks[1:]])
    return np.split(times, edges)

"""A/B tests: short blocks of two settings in random order, until the answer is clear or the budget
spent.

Each block begins with an empty pipeline, and judges a setting by its first half second, or about
ten steps: a later gain of a deep buffer or of tf.data's autotuning is not included.

The run alternates between the settings in short blocks. A round has one block of each setting in
random order, and is the unit of the statistics: the log of one block's step time (`block_means`)
less that of the other's.

* Neighboring steps are correlated, so a thousand steps are not a thousand observations (Kalibera &
  Jones, "Rigorous benchmarking in reasonable time", ISMM 2013). Slow changes are in both blocks of
  a round and cancel. Each round draws a new order: where the setting changes nothing, the
  differences of rounds have random signs, and are uncorrelated for any noise (Fisher, "The Design
  of Experiments", 1935; for settings that alternate in time: Bojinov, Simchi-Levi & Zhao, "Design
  and analysis of switchback experiments", Management Science 69, 2023). The effect of one setting
  on the next is correlated: the steps after a switch are left out.
* A test that looks after each round and stops at the first clear answer errs far more often than
  its t-interval states (Johari, Koomen, Pekelis & Walsh, "Always valid inference", Operations
  Research 70, 2022). `half_width` is that of a confidence sequence: it covers the truth at all
  rounds together with its stated probability. It may widen from one look to the next. The narrowest
  interval of all looks would be valid for a constant difference, and save a round in twelve; for
  one that fades (10 %, gone after 6 of 17 rounds with noise of 5 %; 200 simulated runs) it covered
  the mean of the rounds in 72 of 100 runs, this one in 99.
* The noise is unknown. The sequence is the t-test's with a normal mixture over the effect in units
  of the noise (Lai, "On confidence sequences", Annals of Statistics 4, 1976; Wang & Ramdas,
  "Anytime-valid t-tests and confidence sequences for Gaussian means with unknown variance",
  arXiv:2310.03722): with n rounds, S the sum of their differences from a supposed mean and V that
  of the squares, sqrt(c/(n+c)) (V / (V - S^2/(n+c)))^(n/2) exceeds 1/alpha for any n with
  probability alpha at most where the supposed mean is the true one.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tfwatch.core.errors import fails_open
from tfwatch.core.events import (
    EXPERIMENT,
    WITH_THE_RUN,
    ExperimentBegan,
    ExperimentBlock,
    ExperimentEnded,
)
from tfwatch.core.knobs import knob_name
from tfwatch.core.rows import step_ms
from tfwatch.judge.effects.interval import SAME, UNKNOWN, Estimate, mean_of_rows
from tfwatch.judge.steps.steady_steps import steady
from tfwatch.runs.requests import StopRequest
from tfwatch.tuner.client import Interrupt, RefusedError, settling_steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tfwatch.core.rows import Rows
    from tfwatch.tuner.client import Driver

#: A test ends without an answer after this many steps, and not before this time: rows come ten
#: times a second.
BUDGET_STEPS = 600
_LEAST_S = 30.0
#: The fewest steps of a block, and its length where the budget allows it: the first switch of an
#: epoch takes 20 to 60 ms, and the first batches of new buffers are left out of each block.
BLOCK = 10
BLOCK_MS = 400.0
#: The recent steps that give the length of a block.
_RECENT = 50
#: The rounds that a budget of steps should last for: the answer `same` takes 8 of them.
_ROUNDS = 12
#: The steps of a run before its first block.
_WARM = 10
#: The causes of a complete test, with any answer.
_DONE = ("clear", "budget")


@dataclass(frozen=True, slots=True)
class Experiment:
    """An A/B test: find the faster of two values of a knob."""

    knob: str
    #: The second is compared with the first.
    values: tuple[str, str]
    #: The most steps that it takes; None: no limit.
    steps: int | None = None
    #: Of the random order of the blocks.
    seed: int = 0
    #: The training ends with the test.
    ends: bool = False

    name: ClassVar[str] = "A/B test"

    def run(self, driver: Driver) -> None:
        """Run the test and publish its answer. The run keeps the better setting.

        Raises:
            RefusedError: it cannot begin, for the reason in the message. Interrupt: the request is
            over before the start.
        """
        cause = ""
        try:
            self._prepare(driver)
            cause = _ExperimentJob(driver, self).run()
        finally:
            # With any answer: nothing else ends a training that runs only for its test.
            if self.ends:
                driver.send(StopRequest(EXPERIMENT if cause in _DONE else "command"))

    def _prepare(self, driver: Driver) -> None:
        """Wait until earlier requests are in effect, and check that both values can be."""
        first, second = self.values
        name = knob_name(self.knob)
        if first == second:
            raise RefusedError(f"an A/B test compares two settings: {name} is {first} now")
        # Only a run that trains knows its device, and so a prefetch to it.
        driver.wait(lambda snapshot: snapshot.steps_total >= _WARM and not driver.is_switching)
        manifest = driver.snapshot.manifest
        if self.knob not in manifest.switchable:
            why = manifest.why_not_switchable(self.knob)
            raise RefusedError(f"{name} cannot be switched in this run: {why}")
        if any(manifest.epochs_until(self.knob, value) for value in self.values):
            raise RefusedError(f"{name} has no A/B test in this run: it takes effect with an epoch")


class _SpentError(Exception):
    """The budget is spent."""


class _ExperimentJob:
    def __init__(self, driver: Driver, request: Experiment) -> None:
        self._driver, self._request = driver, request
        self._random = random.Random(request.seed)
        self._began = driver.snapshot.steps_total
        self._began_ns = driver.now_ns()
        self._first_setting = self._now = driver.knobs.get(request.knob)
        self._next = 0
        self._blocks: tuple[list[Rows], list[Rows]] = [], []
        rows = driver.settled_rows(max(1, self._began - _RECENT))
        self._step_ms = float(np.median(step_ms(rows, np.float64))) if len(rows) else BLOCK_MS
        self._block_steps = self._steps_of_block()

    def run(self) -> str:
        """Run the test. Returns the cause of its end, as in `ExperimentEnded`."""
        request, budget = self._request, self._request.steps or BUDGET_STEPS
        now_ns = self._driver.now_ns()
        self._driver.publish(
            ExperimentBegan(now_ns, request.knob, request.values, self._began, budget)
        )
        cause, reason = self._outcome()
        self._end(cause, reason)
        return cause

    def _outcome(self) -> tuple[str, str]:
        """Measure to the end. Returns its cause, and the reason of a failure."""
        failures: list[str] = []
        with fails_open(failures.append):
            try:
                while not evaluate(block_means(self._times()))[1]:
                    self._round()
            except _SpentError:
                return "budget", ""
            except Interrupt as over:
                return over.cause, ""
            except RefusedError as refusal:
                return "failed", str(refusal)
            return "clear", ""
        self._blocks = [], []  # they may hold the rows that made it fail
        return "failed", failures[0]

    # -- blocks -----------------------------------------------------------------------------------

    def _round(self) -> None:
        order = [0, 1]
        self._random.shuffle(order)
        for at in order:
            self._blocks[at].append(self._block(self._request.values[at]))
            self._publish_block(at)

    def _block(self, value: str) -> Rows:
        """Run a block of a setting. Returns its rows after the settling steps."""
        if self._now != value:
            self._next = self._driver.switch({self._request.knob: value}, EXPERIMENT)
            self._now = value
        self._next = self._next or self._driver.snapshot.steps_total + 1
        rows = self._driver.settled_rows(self._next)
        while missing := self._missing(rows):
            self._check_budget()
            enough = max(self._next - 1, self._driver.snapshot.steps_total) + missing
            self._driver.wait(lambda snapshot, enough=enough: snapshot.steps_total >= enough)  # type: ignore[misc]
            rows = self._driver.settled_rows(self._next)
        self._next = int(rows["step"][-1]) + 1
        return rows

    def _missing(self, rows: Rows) -> int:
        """Return the number of steps that a block lacks."""
        counted = len(counted_steps([rows])[0]) if len(rows) else 0
        return max(0, self._block_steps - counted)

    def _steps_of_block(self) -> int:
        """Return the steps of a block: as many as last `BLOCK_MS`, within the budget."""
        steps = math.ceil(BLOCK_MS / max(self._step_ms, 1e-3))
        if self._request.steps:
            steps = min(
                steps, self._request.steps // (2 * _ROUNDS) - settling_steps(self._driver.knobs)
            )
        return max(BLOCK, steps)

    def _check_budget(self) -> None:
        spent = self._driver.snapshot.steps_total - self._began
        lasted_s = (self._driver.now_ns() - self._began_ns) / 1e9
        if spent >= (self._request.steps or BUDGET_STEPS) and (
            self._request.steps or lasted_s >= _LEAST_S
        ):
            raise _SpentError

    # -- the answer --------------------------------------------------------------------------------

    def _times(self) -> list[list[NDArray[np.float64]]]:
        """Return the step times that count of every complete round, by setting."""
        rounds = min(map(len, self._blocks))
        return [counted_steps(blocks[:rounds]) for blocks in self._blocks]

    def _publish_block(self, at: int) -> None:
        times = counted_steps(self._blocks[at])[-1]
        so_far, _ = evaluate(block_means(self._times()))
        self._driver.publish(
            ExperimentBlock(
                self._driver.now_ns(),
                sum(map(len, self._blocks)),
                self._request.values[at],
                len(times),
                float(times.mean()),
                **so_far.event_fields(),
            )
        )

    def _end(self, cause: str, reason: str) -> None:
        request, times = self._request, self._times()
        table = block_means(times)
        found, _ = evaluate(table)
        # Geometric means, as the ratios use them.
        means = np.exp(np.log(table).mean(axis=0)).tolist() if len(table) else ()
        kept, step = self._ask_best(cause, found), self._driver.snapshot.steps_total
        self._driver.publish(
            ExperimentEnded(
                self._driver.now_ns(),
                request.knob,
                request.values,
                self._began,
                step,
                cause,
                found.answer,
                len(table),
                sum(len(block) for blocks in times for block in blocks),
                kept,
                step_ms=dict(zip(request.values, means, strict=False)),
                reason=reason,
                **found.event_fields(),
            )
        )

    def _ask_best(self, cause: str, found: Estimate) -> str:
        """Request the better setting for the rest of the run: the one at the start, unless the
        other is proved faster. Returns it; empty where the user switched the knob."""
        driver, (first, second) = self._driver, self._request.values
        if driver.is_changed_by_user(self._request.knob):
            return ""
        best = second if found.ratio > 1 else first
        is_proved = found.low > 1 or found.high < 1
        if cause == "failed" or (self._first_setting in (first, second) and not is_proved):
            best = self._first_setting or first
        # A value that it asked for last may still be on its way.
        if driver.knobs.get(self._request.knob) != best or cause not in _DONE:
            driver.ask_final(self._request.knob, best, EXPERIMENT)
        return (self._now or "") if cause in WITH_THE_RUN else best


# -- the statistics --------------------------------------------------------------------------------

#: The probability that the interval misses the truth at any look.
ALPHA = 0.05
#: `c` of the mixture: effects of about 1/sqrt(c) = 3 times the noise of a round are found first,
#: after at least 3 rounds. With 0.3, noisy tests took 1 to 6 % fewer rounds (simulated), and three
#: settings at least five rounds.
_MIXTURE = 0.1
#: The rounds before a first answer.
LEAST_ROUNDS = 4
#: The rounds before the answer `same`: rare slow steps have to occur.
_ROUNDS_OF_SAME = 8
#: The tails differ from this many standard errors, not below this share of a step, and always above
#: `SAME`.
_TAIL_ERRORS = 2.0
_TAIL_LEAST = 0.01


def half_width(differences: NDArray[np.float64]) -> float:
    """Return the half width of the confidence sequence around the mean of `differences`; infinite
    for too few."""
    n = len(differences)
    if n < LEAST_ROUNDS:
        return math.inf
    spread = float(((differences - differences.mean()) ** 2).sum())
    bound = (math.sqrt((n + _MIXTURE) / _MIXTURE) / ALPHA) ** (2 / n)
    room = 1 - bound * _MIXTURE / (n + _MIXTURE)
    return math.sqrt(spread * (bound - 1) / (n * room)) if room > 0 else math.inf


def estimate(differences: NDArray[np.float64]) -> Estimate:
    """Estimate a ratio from the differences of log step times, one per round."""
    if len(differences) < LEAST_ROUNDS:
        return UNKNOWN
    mean, half = float(differences.mean()), half_width(differences)
    return Estimate(math.exp(mean), math.exp(mean - half), math.exp(mean + half))


def evaluate(step_ms: NDArray[np.float64]) -> tuple[Estimate, bool]:
    """Return the step time of the first setting over that of the second, and whether more rounds
    would not change the answer. step_ms: mean step times, a row per round, a column per setting."""
    logs = np.log(step_ms)
    found = estimate(logs[:, 0] - logs[:, 1])
    may_be_same = len(logs) >= _ROUNDS_OF_SAME
    return found, found.is_clear and (may_be_same or found.answer != "same")


def block_means(times: Sequence[Sequence[NDArray[np.float64]]]) -> NDArray[np.float64]:
    """Return the mean step time of each block, milliseconds: a row per round, a column per setting.

    times: the steps, by setting and round. The slowest quarter of a block counts as the fastest of
    that quarter: other work of the machine slows single steps, and hides small differences. Where
    the slow steps themselves may differ, as where every tenth batch comes late, it is the plain
    mean. A hidden difference of slow steps, at most `SAME`, is in neither the ratio nor its
    interval.
    """
    if not any(times):
        return np.empty((0, len(times)))
    plain, cut = _block_means(times, in_bursts=True), _block_means(times, in_bursts=False)
    return cut if _alike((plain - cut) / cut.mean(axis=0)) else plain


def _block_means(
    times: Sequence[Sequence[NDArray[np.float64]]], in_bursts: bool
) -> NDArray[np.float64]:
    means = [[mean_of_rows(block[None], in_bursts)[0] for block in one] for one in times]
    return np.array(means).T


def _alike(tails: NDArray[np.float64]) -> bool:
    """Return whether the tails, as shares of a step, are the same for both settings within their
    error."""
    if len(tails) < LEAST_ROUNDS:
        return True
    apart = tails[:, 1] - tails[:, 0]
    error = apart.std(ddof=1) / math.sqrt(len(apart))
    return bool(abs(apart.mean()) <= np.clip(_TAIL_ERRORS * error, _TAIL_LEAST, SAME))


def counted_steps(blocks: Sequence[Rows]) -> list[NDArray[np.float64]]:
    """Return the step times that count, milliseconds, of the blocks of one setting, in the order of
    the run.

    Flagged steps and single spikes do not count; spikes are found over all blocks together.
    """
    if not blocks:
        return []
    rows = steady(np.concatenate(blocks))
    times = step_ms(rows, np.float64)
    edges = np.searchsorted(rows["step"], [block["step"][0] for block in blocks[1:]])
    return np.split(times, edges)
